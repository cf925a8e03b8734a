"""The worker's promises, one by one, with small living agents: real SDK, real HTTP, real server."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.models.test import TestModel

from forge_continuity import AsyncForge, canonical, pydanticai
from forge_continuity.pydanticai import Guard
from forge_continuity.spool import ClaimSpool
from forge_server import Proxy
from living import Life, Small, session_of
from provider import Provider, chat, chat_stream, cut_after, drop
from test_wires import chat_model

one_store = pytest.mark.one_store
AWAY = float(os.environ.get('FORGE_AWAY_SECONDS', '0.3'))
TURN = [chat(('c1', 'look', '{"what":"a"}'), ('c2', 'put', '{"what":"b"}')), chat(('c3', 'shell', '{"line":"make"}')), chat(text='done')]


def test_server_away_at_each_point(factory, tmp_path):
    """The server goes away at each point and comes back. Nothing leaves or happens before its intent is acknowledged, nothing twice, and
    nothing is lost. FORGE_AWAY_SECONDS=30 makes it half a minute each time."""
    proxy = Proxy(factory.server.port)
    with Provider(TURN) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small, provider_timeout_seconds=7200)

        def acknowledged(kind: str) -> int:
            return sum(label.split(' ').count(kind) for label in life.labels if label.startswith('acknowledged'))

        def away(label: str) -> None:
            if not proxy.away:
                proxy.go_away()
                threading.Timer(AWAY, proxy.come_back).start()

        def effect(what: str) -> None:
            assert acknowledged('call.intended') > len(small.effects)
            assert not what.startswith('shell') or acknowledged('command.started') == 1

        wrong: list[str] = []

        def request() -> None:
            if acknowledged('request.issued') < len(provider.bodies):
                wrong.append('a request left before it was acknowledged')

        life.on_point, small.on_effect, provider.on_request = away, effect, request
        life.work(url=proxy.url, lease=min(7200, int(60 + 60 * AWAY)))
        assert life.view()['position'] == 'completed' and not wrong
        assert small.effects == ['look a', 'put b', 'shell make'] and len(provider.bodies) == 3
        ids = [row['command_id'] for row in life.rows() if 'command_id' in row]
        assert len(ids) == len(set(ids))
        assert not list((tmp_path / 'spool').glob('claim-*')) and not (tmp_path / 'spool' / 'lost').exists()
    proxy.close()


@pytest.mark.parametrize('label', ['spooled request.issued', 'spooled response.kept', 'spooled call.intended', 'spooled call.returned'])
def test_server_away_longer_than_the_lease(factory, tmp_path, label):
    """The agent waits until its lease ends and stops. What it had seen is in the spool, as evidence; what was not acknowledged did not begin."""
    proxy = Proxy(factory.server.port)
    with Provider([chat(('c1', 'put', '{"what":"b"}')), chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        life.on_point = lambda seen: proxy.go_away() if seen == label else None
        began = time.monotonic()
        life.work(url=proxy.url, lease=8)
        assert 5 < time.monotonic() - began < 40
        assert life.labels[-1] == label
        assert len(provider.bodies) == (0 if label.endswith('issued') else 1)
        assert small.effects == (['put b'] if label.endswith('returned') else [])
        (lost,) = (tmp_path / 'spool' / 'lost').iterdir()
        (batch,) = ClaimSpool(lost).pending()
        assert batch.facts[-1].kind == label.split(' ')[-1]
        if label.endswith('kept'):
            assert list(batch.blobs.values()) == [json.dumps(provider.answers[0]).encode()]
        # A worker that starts again on that spool sends nothing of it: the claim is over.
        life.on_point = lambda _: None
        proxy.come_back()
        life.work(again=True)
        assert label.endswith(('issued', 'intended')) or 'worker.failed' not in life.kinds()
    proxy.close()


def test_lost_fence_stops_the_agent(factory, tmp_path):
    """Another worker took over while this one could not be told: it may append nothing more, and its agent ends."""
    proxy = Proxy(factory.server.port)
    with Provider(TURN) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)

        def point(label: str) -> None:
            if label == 'acknowledged response.kept' and life.view()['lease']['fence'] == 1:
                while life.view()['lease']['expires_at'] > life.view()['now']:
                    time.sleep(0.1)
                second = factory.client('second')
                assert second.claim(life.run, 'other', 60).receipt['claim']['fence'] == 2

        life.on_point = point
        life.work(lease=2)
        assert life.sessions[0].journal.stop.code in ('fence_lost', 'lease_expired')
        assert small.effects == [] and len(provider.bodies) == 1
        assert life.kinds()[-1] == 'claim.taken'
        (lost,) = (tmp_path / 'spool' / 'lost').iterdir()  # what it had seen is not lost
        assert [b.facts[0].kind for b in ClaimSpool(lost).pending()] == ['response.consumed']
    proxy.close()


def test_claim_without_an_answer_is_looked_up(factory, tmp_path):
    proxy = Proxy(factory.server.port)
    with Provider([chat(text='done')]) as provider:
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url)))
        proxy.cut_answers = 1
        life.work(url=proxy.url)
        assert life.results == ['done'] and life.kinds().count('claim.taken') == 1
    proxy.close()


@pytest.mark.parametrize('limits,effects,calls,allowance', [
    ({'commands': 1}, ['shell 1'], 1, 'commands'),
    ({'tool_calls': 1}, [], 1, 'tool_calls'),
    ({'requests': 1}, ['shell 1', 'shell 2'], 1, 'requests'),
    ({'output_tokens': 4}, [], 1, 'output_tokens'),
])
def test_budgets_are_enforced_before_effects(factory, tmp_path, limits, effects, calls, allowance):
    """FLOW-42 and its like: an effect over a limit does not begin; what happened before it is recorded and charged."""
    with Provider([chat(('c1', 'shell', '{"line":"1"}'), ('c2', 'shell', '{"line":"2"}')), chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small, limits=limits)
        life.work()
        # One command is refused by the server; the other limits the SDK is told too, and stops at the same place.
        assert life.report()['code'] in ('allowance_exhausted', 'UsageLimitExceeded'), life.report()
        assert sorted(small.effects) == effects and len(provider.bodies) == calls
        assert life.view()['counters']['output_tokens'] == 5  # the response is charged even where it overran
        assert life.view()['position'] in ('failed', 'held', 'queued')
        assert allowance in json.dumps(life.report()) or life.report()['code'] == 'UsageLimitExceeded'


@one_store
def test_rejected_query_is_held_and_answered_query_goes_on(factory, tmp_path):
    def check(args: dict[str, Any]) -> None:
        if args['what'] != 'good':
            raise ValueError('bad')

    for answer, position in ((None, 'held'), ({'status': 'invalid_query'}, 'completed')):
        with Provider([chat(('c1', 'look', '{"what":"bad"}')), chat(text='done')]) as provider:
            small = Small(lambda: chat_model(provider.url))
            small.guards = {'look': Guard(check, '9' * 64, answer)}
            life = Life(factory, tmp_path / str(bool(answer)), small)
            life.work()
            assert life.view()['position'] == position and small.effects == []
            refused = [r['payload']['validator'] for r in life.rows() if r['kind'] == 'call.refused']
            assert refused == ([] if answer else ['9' * 64])
            if answer:
                assert json.loads(json.loads(provider.bodies[1])['messages'][-1]['content']) == answer


@one_store
@pytest.mark.parametrize('call', [('c1', 'look', '{"wrong":1}'), ('c1', 'nobody', '{}'), ('c1', 'look', '{"what":'), ('c1', 'put', '{"what":"retry"}')],
                         ids=['arguments', 'unknown tool', 'truncated', 'retry'])
def test_what_the_sdk_answers_itself(factory, tmp_path, call):
    """A call that never reaches its tool, or asks for a retry, has a failed outcome: what the SDK told the model."""
    with Provider([chat(call, ('c2', 'put', '{"what":"b"}')), chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        life.work()
        assert life.view()['position'] == 'completed', life.report()
        outcomes = {r['payload']['position']: r['payload'] for r in life.rows() if r['kind'] == 'call.returned'}
        assert outcomes[0]['failed'] and not outcomes[1]['failed']
        told = canonical.read_record(life.blob(outcomes[0]['result']))
        assert told['part_kind'] == 'retry-prompt' or told['outcome'] == 'retried'  # the latter since 2.6x
        assert canonical.read_record(life.blob(outcomes[1]['result'])) == 'ok'


@one_store
def test_failed_outcome_is_told_again_after_a_death(factory, tmp_path):
    with Provider([chat(('c1', 'put', '{"what":"retry"}')), chat(text='done')] * 2) as provider:
        other = Life(factory, tmp_path / 'a', Small(lambda: chat_model(provider.url)))
        other.work()
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path / 'b', small)
        life.die_at('acknowledged call.returned')
        life.work(again=True)
        assert life.view()['position'] == 'completed' and small.effects == ['put retry']
        assert provider.bodies[:2] == provider.bodies[2:]


@one_store
def test_tool_that_breaks_leaves_its_effect_unknown(factory, tmp_path):
    with Provider([chat(('c1', 'put', '{"what":"crash"}'))]) as provider:
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url)))
        life.work()
        assert life.kinds()[-3:] == ['call.intended', 'agentic_tool_unknown', 'worker.failed'] and 'unknown_effect' in life.holds()
        assert life.report()['code'] == 'RuntimeError'


@one_store
@pytest.mark.parametrize('answer', [(422, {'error': {'message': 'no such model'}}), (429, {'error': {'message': 'slow down'}}),
                                    (500, {'error': {'message': 'oops'}}), drop], ids=['422', '429', '500', 'drop'])
def test_a_refused_request_is_not_sent_again(factory, tmp_path, answer):
    """An SDK's own retry would be a second request under one intent. That the provider found the request wrong is recorded; for an
    ordinary run its outcome stays unknown all the same."""
    with Provider([answer]) as provider:
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url)))
        life.work()
        assert len(provider.bodies) == 1
        between = ['request.refused'] if answer is not drop and answer[0] == 422 else []
        assert life.kinds()[life.kinds().index('request.issued') + 1:] == [*between, 'worker.failed']
        assert 'model_outcome_unknown' in life.holds()
        if answer is not drop:
            assert life.report()['code'] == 'provider_refused' and life.report()['details']['status'] == str(answer[0])


def stream(factory, tmp_path, answers: list[Any]) -> tuple[Life, list[str], Provider, Exception | None]:
    seen: list[str] = []

    async def events(_: Any, stream: Any) -> None:
        async for event in stream:
            seen.append(type(event).__name__)

    with Provider(answers) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small, options={'event_stream_handler': events})

        async def main() -> Exception | None:
            async with AsyncForge(factory.server.url, factory.tokens['worker']) as forge:
                session = await session_of(forge, tmp_path, life.run)
                try:
                    life.results.append((await pydanticai.run(session, small.build(), event_stream_handler=events)).output)
                except Exception as error:
                    return error
                finally:
                    await session.close()
                return None

        return life, seen, provider, asyncio.run(main())


@one_store
def test_streams_are_kept_as_they_arrive(factory, tmp_path):
    answers = [chat_stream(('c1', 'look', '{"what":"a"}')), chat_stream(text='all is well')]
    life, seen, provider, error = stream(factory, tmp_path, answers)
    assert error is None, (life.labels, life.kinds())
    assert life.results == ['all is well '] and 'PartDeltaEvent' in seen
    kept = [r['payload'] for r in life.rows() if r['kind'] == 'response.kept']
    assert [life.blob(p['response']) for p in kept] == answers and not any(p['partial'] for p in kept)
    assert [r['payload']['tokens'] for r in life.rows() if r['kind'] == 'response.consumed'] == [{'input': 10, 'output': 5}] * 2


@one_store
def test_cut_stream_is_partial_and_never_a_response(factory, tmp_path):
    whole = chat_stream(('c1', 'put', '{"what":"a"}'))
    life, _, provider, error = stream(factory, tmp_path, [cut_after(whole[:len(whole) // 2])])
    assert error is not None and len(provider.bodies) == 1
    (kept,) = [r['payload'] for r in life.rows() if r['kind'] == 'response.kept']
    assert kept['partial'] and whole.startswith(life.blob(kept['response'])) and life.small.effects == []
    assert 'response.consumed' not in life.kinds()


@one_store
def test_structured_output(factory, tmp_path):
    class Answer(BaseModel):
        what: str
        many: int

    with Provider([chat(('c1', 'final_result', '{"what":"x","many":"two"}')), chat(('c2', 'final_result', '{"what":"x","many":2}'))]) as provider:
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url), output_type=Answer))
        life.work()
        assert life.results == [Answer(what='x', many=2)]
        (done,) = [r['payload'] for r in life.rows() if r['kind'] == 'run.completed']
        assert life.blob(done['result']) == b'{"many":2,"what":"x"}'


@one_store
def test_output_function_is_an_effect(factory, tmp_path):
    """It runs once, after its intent; died in the middle of it, its effect is unknown."""
    done: list[int] = []

    def book(many: int) -> str:
        """Book so many."""
        done.append(many)
        return f'booked {many}'

    with Provider([chat(('c1', 'final_result', '{"many":2}'))]) as provider:
        small = Small(lambda: chat_model(provider.url), output_type=book)
        life = Life(factory, tmp_path / 'a', small)
        life.work()
        assert life.results == ['booked 2'] and done == [2]
        assert life.kinds()[-3:] == ['call.intended', 'call.returned', 'run.completed']
        life = Life(factory, tmp_path / 'b', small)
        life.die_at('acknowledged call.intended')
        life.work(again=True)
        assert len(done) == 1 and 'unknown_effect' in life.holds() and life.kinds()[-1] == 'worker.failed'


def dead_at_checkpoint(factory, tmp_path, provider) -> Life:
    life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url)))
    life.die_at('acknowledged round.completed checkpoint.saved')
    return life


@one_store
@pytest.mark.parametrize('change,path', [
    (lambda r: r['history'][0]['parts'][0].update(more=1), 'history[0].parts[0].more'),
    (lambda r: r['usage'].update(requests=7), 'usage.requests'),
    (lambda r: r['limits'].update(request_limit=11), 'limits.request_limit'),
    (lambda r: r['contract']['tools'][0].update(strict=0), 'contract.tools[0].strict'),
    (lambda r: r['history'].pop(), 'history'),
    (lambda r: r['state'].update(completed_rounds=5), 'state.completed_rounds'),
], ids=['history', 'usage', 'limits', 'tools', 'pairing', 'rounds'])
def test_sdk_that_disagrees_stops_before_anything_is_sent(factory, tmp_path, monkeypatch, change, path):
    """The installed SDK makes something else of the checkpoint than the claim binds: the claim ends with that report, and no request leaves."""
    with Provider(TURN) as provider:
        life = dead_at_checkpoint(factory, tmp_path, provider)
        sent = len(provider.bodies)

        def disagree(session: Any) -> Any:
            change(session.record)
            return life.small.build()

        life.work(again=True, agent_for=disagree)
        report = life.report()
        assert report['code'] in ('sdk_disagrees', 'history_unsupported') and path in json.dumps(report), report
        assert len(provider.bodies) == sent


@one_store
def test_another_version_of_the_sdk_does_not_resume(factory, tmp_path, monkeypatch):
    """CRED-11: ordinary restore keeps its exact version check."""
    with Provider(TURN) as provider:
        life = dead_at_checkpoint(factory, tmp_path, provider)
        monkeypatch.setattr(pydanticai, 'SDK', '2.0.0')
        life.work(again=True)
        assert life.report()['code'] == 'restore_version_mismatch' and life.report()['details']['got'] == '2.0.0'


@one_store
def test_another_contract_does_not_run(factory, tmp_path):
    with Provider(TURN) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        life.work(agent_for=lambda _: Small(small.model, instructions='Do more.').build())
        assert life.report()['code'] == 'contract_changed' and 'instructions' in life.report()['details']['path']
        assert provider.bodies == []


@one_store
def test_instructions_made_anew_for_each_request(factory, tmp_path):
    """Their text is no part of what the contract freezes, and each checkpoint has what was sent."""
    with Provider(TURN) as provider:
        count = iter(range(100))
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url), instructions=lambda: f'Step {next(count)}.'))
        life.work()
        assert life.view()['position'] == 'completed'
        saved = [canonical.read_record(life.blob(r['payload']['checkpoint'])) for r in life.rows() if r['kind'] == 'checkpoint.saved']
        assert len({r['contract']['instructions'][0]['content'] for r in saved}) == 3


@one_store
def test_model_without_a_wire_is_refused(factory, tmp_path):
    life = Life(factory, tmp_path, Small(TestModel))
    life.work()
    assert life.report()['code'] == 'model_unsupported' and 'request.issued' not in life.kinds()


def test_drain_releases_at_a_clean_point(factory, tmp_path):
    """SIGTERM in the middle of a turn: the turn is brought to its end, its checkpoint saved, and the run given back; another worker ends it."""
    with Provider(TURN) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        workers: list[Any] = []

        def point(label: str) -> None:
            if label == 'acknowledged response.kept':
                workers[0].drain()

        life.on_point = point
        life.work(drain=workers.append)
        assert life.kinds()[-2:] == ['checkpoint.saved', 'claim.released'] and life.view()['position'] == 'queued'
        life.on_point = lambda _: None
        life.work('second', spool='second')
        assert life.view()['position'] == 'completed'
        assert small.effects == ['look a', 'put b', 'shell make'] and len(provider.bodies) == 3


def test_lease_is_renewed(factory, tmp_path):
    with Provider([chat(('c1', 'look', '{"what":"a"}')), chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        provider.answers[1] = lambda handler: (time.sleep(12), _answer(handler, chat(text='done')))
        life.work(lease=8)
        assert life.view()['position'] == 'completed' and life.results == ['done']


def _answer(handler: Any, value: Any) -> None:
    data = json.dumps(value).encode()
    handler.send_response(200)
    handler.send_header('content-type', 'application/json')
    handler.send_header('content-length', str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def test_agent_outside_a_claim_does_not_run():
    small = Small(TestModel)
    with pytest.raises(Exception, match='claimed run'):
        asyncio.run(small.build().run('x'))
