"""Held living runs and the ways on that are not version 1 or 2: reconciliation, retry, handoff, and the three recoveries."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agents import SDK, Field
from forge_continuity import ArgumentRefused, RefusedError, canonical
from living import Life, Small
from provider import Provider, chat, drop
from test_client import BOUNDARY, NEVER, OBSERVATION
from test_wires import chat_model

ACKNOWLEDGED = {'acknowledge_no_replay': True, 'acknowledge_original_record_unchanged': True, 'acknowledge_original_use_charged': True}
CALL = chat(('c1', 'put', '{"what":"b"}'))


def unknown(life: Life) -> Any:
    (one,) = life.view()['unknown']
    return one


@pytest.mark.parametrize('outcome', ['landed', 'did_not_happen', 'charged_unknown'])
def test_a_request_without_an_answer(factory, tmp_path, outcome):
    """Landed: the answer, fetched by the person, is consumed and nothing is sent for it. Otherwise the next request is another one, from the
    same checkpoint, and the lost one stays counted."""
    with Provider([drop, chat(text='done') if outcome != 'landed' else chat(text='never')]) as provider:
        life = Life(factory, tmp_path, Small(lambda: chat_model(provider.url)))
        life.work()
        one, ada = unknown(life), factory.client('ada')
        assert one['subject'] == 'request' and life.view()['position'] == 'held'
        answer = json.dumps(chat(text='done')).encode()
        more: dict[str, Any] = {'evidence': ada.put_evidence(life.run, b'the provider says so')}
        if outcome == 'landed':
            more.update(result=ada.put_evidence(life.run, answer), result_length=len(answer))
        if outcome == 'charged_unknown':
            more = {'acknowledge_unknown_outcome': True}
        ada.reconcile(life.run, 'settle-1', subject='request', seq=one['seq'], outcome=outcome, **ACKNOWLEDGED, **more)
        life.work('second', spool='second')
        assert life.view()['position'] == 'completed' and life.results == ['done']
        assert len(provider.bodies) == (1 if outcome == 'landed' else 2) and len(set(provider.bodies)) == 1
        assert life.view()['counters']['requests'] == len(provider.bodies)


@pytest.mark.parametrize('outcome,effects,told', [
    ('landed', [], 'it was put'), ('did_not_happen', ['put b'], 'ok'), ('charged_unknown', [], {'status': 'outcome_unknown', 'reason': 'charged_by_reconciliation'})])
def test_a_call_without_an_outcome(factory, tmp_path, outcome, effects, told):
    with Provider([CALL, chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        life.die_at('acknowledged call.intended')
        life.work(again=True)
        one, ada = unknown(life), factory.client('ada')
        assert one['subject'] == 'call' and small.effects == []
        more: dict[str, Any] = {'evidence': ada.put_evidence(life.run, b'seen')}
        if outcome == 'landed':
            more['result'] = ada.put_evidence(life.run, canonical.record('it was put'))
        if outcome == 'charged_unknown':
            more = {'acknowledge_unknown_outcome': True}
        ada.reconcile(life.run, 'settle-1', subject='call', seq=one['seq'], outcome=outcome, **ACKNOWLEDGED, **more)
        life.work('second', spool='second')
        assert life.view()['position'] == 'completed', life.labels
        assert small.effects == effects and len(provider.bodies) == 2
        content = json.loads(provider.bodies[1])['messages'][-1]['content']
        assert content == told or json.loads(content) == told


def test_reconciliation_is_checked_before_sending(factory, tmp_path):
    ada = factory.client('ada')
    for given in ({'acknowledge_unknown_outcome': None}, {'acknowledge_unknown_outcome': 1}, {'acknowledge_no_replay': 'true'}):
        with pytest.raises(ArgumentRefused):
            ada.reconcile('run-1', 'c', subject='call', seq=1, outcome='charged_unknown', **{**ACKNOWLEDGED, 'acknowledge_unknown_outcome': True, **given})


def test_another_attempt_of_a_failed_run(factory, tmp_path):
    """The agent's own code fails with nothing open: that ends the run. A person opens another attempt, which goes on from the same
    consumed response."""
    with Provider([chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        broken = True
        build = small.build

        def agent() -> Any:
            one = build()

            @one.output_validator
            def look(output: str) -> str:
                if broken:
                    raise RuntimeError('the disk is full')
                return output

            return one

        small.build = agent  # type: ignore[method-assign]
        life = Life(factory, tmp_path, small, limits={'attempts': 2})
        life.work()
        assert life.view()['position'] == 'failed' and life.report()['message'] == 'the disk is full'
        factory.client('ada').retry(life.run, 'again')
        broken = False
        life.work('second', spool='second')
        view = life.view()
        assert view['position'] == 'completed' and view['counters']['attempt'] == 2
        assert len(provider.bodies) == 1 and view['counters']['output_tokens'] == 5
        with pytest.raises(RefusedError):
            factory.client('ada').retry(life.run, 'once-more')


def test_handoff_to_a_pool(factory, tmp_path):
    with Provider([CALL, chat(text='done')]) as provider:
        small = Small(lambda: chat_model(provider.url))
        life = Life(factory, tmp_path, small)
        life.die_at('acknowledged round.completed checkpoint.saved')
        claim = life.view()['lease']
        factory.client('worker').release(life.run, 'hand-over', claim['fence'], pool='gpu')
        with pytest.raises(RefusedError) as error:
            factory.client('second').claim(life.run, 'c-2', 60)
        assert error.value.code == 'not_in_pool'
        assert [w['run_id'] for w in factory.client('second').work(pool='gpu') if w['run_id'] == life.run]
        life.work('second', spool='pool', pool='gpu')
        assert life.view()['position'] == 'completed' and small.effects == ['put b']


registered = pytest.mark.skipif(SDK != '2.55.0', reason='the installed worker is that of 2.55.0')


@registered
def test_never_claimed_recovery(field: Field):
    """NOCLAIM-09, NOCLAIM-11: nobody claimed the continuation before its lease ended; its administrator recovers it, once."""
    run = field.register(prompt='1.0.0')
    assert field.work(prompt='1.0.0', take=[run]) == 0
    request = f'req-{run}'
    lease = field.admit(run, request, seconds=1)
    while field.ada.run(run)['now'] <= lease['expires_at']:
        time.sleep(0.2)
    c = field.ada.invalid_read_recovery_candidate(run, request)
    assert c['eligible'], c['holds']
    arguments: dict[str, Any] = {
        **{name: c[name] for name in ('candidate_digest', 'journal_digest', 'policy_digest', 'run_digest')}, 'valid_for_seconds': 120,
        **NEVER}
    saved = field.ada.request_invalid_read_recovery(run, request, f'rec-{run}', **arguments)
    assert field.ada.invalid_read_recovery(run, request).body == saved.body
    assert field.ada.request_invalid_read_recovery(run, request, f'rec-{run}', **arguments).body == saved.body
    with pytest.raises(RefusedError) as error:
        field.ada.request_invalid_read_recovery(run, request, f'other-{run}', **arguments)
    assert error.value.code == 'recovery_recorded'
    assert field.work('second', take=[run]) == 0
    view = field.ada.run(run)
    assert view['position'] == 'completed' and view['counters']['commands'] == 13 and field.provider_calls(run) == 10


def review_of(field: Field, run: str) -> tuple[Any, str]:
    """Keeps the reports of a refused request, and returns its review and the report of the correction."""
    import agent
    (issued,) = [r['payload'] for r in field.ada.all_rows(run) if r['kind'] == 'request.issued'][-1:]
    who, revision = agent.provider(field.stub.base_url), str(field.ada.run(run)['registration']['source']['revision'])
    assert issued['provider'] == who.digest()

    def report(kind: str, epoch: str) -> str:
        return field.ada.put_report(canonical.encode({
            'format': 'forge-report/1', 'kind': kind, 'at_us': time.time_ns() // 1000, 'executable_identity': who.executable_identity,
            'provider_epoch': epoch, 'source_revision': revision}))

    counts = dict.fromkeys(('admissions', 'jobs', 'provider_dispatches', 'tool_callbacks'), 0)
    review = {**vars(who), **counts, 'source_revision': revision, 'wire_digest': issued['wire'], 'wire_length': issued['wire_length'],
              'source_validator_report_digest': report('source_validator', who.provider_epoch),
              'executable_probe_report_digest': report('executable_probe', who.provider_epoch)}
    return review, report('corrective_validation', '2027-01')


@registered
def test_refused_boundary_and_lost_observation(factory, tmp_path):
    """The whole way of one living run, under one ticket: a rejected query is continued; the provider refuses the continuation's first
    request, which is sent once more after a review, byte for byte; the answer to it is consumed, and the result of its evidence read
    is lost; after a second review the model is told so and ends. REFUSED-22, REFUSED-24, ROBS-21, ROBS-26, ROBS-27."""
    evidence, files = '{"kind":"build_log","target":"nightly","page_size":%d}', ('list_files', '{"path":"."}')
    provider = Provider([
        chat(('c1', 'read_run_evidence', evidence % 50)),
        (422, {'error': {'message': 'this model version is retired'}}),
        chat(('c2', *files), ('c3', 'read_run_evidence', evidence % 10)),
        chat(text='done')])
    field = Field(factory, tmp_path, provider)
    try:
        run, ada = field.register(prompt='1.0.0'), field.ada
        request = f'req-{run}'
        assert field.work(prompt='1.0.0', take=[run]) == 0
        field.admit(run, request)
        spent = ada.run(run)['counters']
        assert field.work('second', take=[run]) == 0
        assert field.kinds(run)[-2:] == ['request.refused', 'worker.failed'] and field.kinds(run).count('response.kept') == 1

        review, correction = review_of(field, run)
        c = ada.rejected_boundary_recovery_candidate(run, request, review)
        assert 'setting_off' in [h['code'] for h in c['holds']]
        field.enable(allow_pre_admission_recovery=True, allow_readonly_observation_recovery=True)
        c = ada.rejected_boundary_recovery_candidate(run, request, review)
        assert c['eligible'], c['holds']
        settle: dict[str, Any] = {
            'candidate_digest': c['candidate_digest'], 'review': review, 'corrective_epoch': '2027-01',
            'corrective_validation_digest': correction, 'valid_for_seconds': 120, **BOUNDARY}
        saved = ada.request_rejected_boundary_recovery(run, request, 'settle-1', **settle)
        assert ada.rejected_boundary_recovery(run, request).body == saved.body
        with pytest.raises(RefusedError) as error:
            ada.request_rejected_boundary_recovery(run, request, 'settle-2', **settle)
        assert error.value.code == 'recovery_recorded'

        assert field.work('second', take=[run], lose='the disk is full') == 0
        assert provider.bodies[1] == provider.bodies[2] and len(provider.bodies) == 3
        assert field.kinds(run)[-2:] == ['agentic_tool_unknown', 'worker.failed'] and 'unknown_effect' in field.holds(run)
        effects = field.effects(run)
        assert effects == ['list_files .', 'read_run_evidence build_log']

        c = ada.readonly_observation_recovery_candidate(run, request)
        assert c['eligible'], c['holds']
        observe: dict[str, Any] = {'candidate_digest': c['candidate_digest'], 'valid_for_seconds': 120, **OBSERVATION}
        saved = ada.request_readonly_observation_recovery(run, request, 'observe-1', **observe)
        assert ada.readonly_observation_recovery(run, request).body == saved.body
        assert ada.request_readonly_observation_recovery(run, request, 'observe-1', **observe).body == saved.body
        with pytest.raises(RefusedError) as error:
            ada.request_readonly_observation_recovery(run, request, 'observe-2', **observe)
        assert error.value.code == 'recovery_recorded'

        assert field.work('second', take=[run]) == 0
        view = ada.run(run)
        assert view['position'] == 'completed' and len(provider.bodies) == 4 and field.effects(run) == effects
        told = {m['tool_call_id']: json.loads(m['content']) for m in json.loads(provider.bodies[3])['messages'] if m['role'] == 'tool'}
        assert told['c1'] == {'status': 'invalid_query'} and 'totals.py' in told['c2']
        assert told['c3'] == {'status': 'observation_unavailable', 'reason': 'original_read_result_not_retained'}
        # The refused request stays counted; each call is once, and no command was charged.
        assert view['counters'] == {**spent, 'requests': 4, 'tool_calls': 3, 'source_reads': 2, 'completed_rounds': 1,
                                    'input_tokens': 30, 'output_tokens': 15}
    finally:
        field.close()
