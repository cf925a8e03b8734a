"""Held living runs that an operator continues, and the server that goes down under one. Pydantic AI 2.55.0, the registered source."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from agents import SDK, Field
from forge_continuity import RefusedError, UncertainError
from forge_server import FORGE, ROOT, Proxy, Server
from living import Life, Small
from provider import Provider, anthropic, chat, google, responses
from test_wires import WIRES, chat_model

registered = pytest.mark.skipif(SDK != '2.55.0', reason='the installed worker is that of 2.55.0')


@registered
def test_version_1_after_a_lost_answer(field: Field):
    """FLOW-12: the answer to the admission is lost; what stands is read back under the same id, and nothing was sent twice."""
    run = field.register(prompt='1.0.0')
    assert field.work(prompt='1.0.0', take=[run]) == 0
    proxy = Proxy(field.factory.server.port)
    ada, direct = field.ada, field.factory.client('ada', proxy.url)
    try:
        field.ada, proxy.cut_answers = direct, 1
        with pytest.raises(UncertainError) as error:
            field.admit(run)
        saved = error.value.read_back()
        assert saved.receipt['state'] == 'queued' and saved.receipt['run'] == run
        assert saved.body == ada.invalid_read_continuity(run, f'req-{run}').body
        assert len([line for line in proxy.seen if line.startswith(b'POST')]) == 1
    finally:
        field.ada = ada
        proxy.close()
    assert field.work('second', take=[run]) == 0
    view = field.ada.run(run)
    assert view['position'] == 'completed' and view['counters']['commands'] == 13 and field.provider_calls(run) == 10


@registered
def test_version_2_of_a_living_run(factory, tmp_path):
    """A rejected query beside reads whose results were lost with the worker: the operator admits version 2, and the next request tells the
    model what is missing. OBS-25: the receipt is read on the shared route."""
    list_files = ('list_files', '{"path":"."}')
    provider = Provider([
        chat(('c1', 'read_run_evidence', '{"kind":"build_log","target":"nightly","page_size":50}'), ('c2', *list_files), ('c3', *list_files)),
        chat(text='done')])
    field = Field(factory, tmp_path, provider)
    try:
        run = field.register(prompt='1.0.0')
        assert field.work(prompt='1.0.0', take=[run]) == 0
        assert field.ada.run(run)['position'] == 'held'
        assert 'setting_off' in field.holds(run), field.ada.invalid_read_continuity_candidate(run)['holds']
        before = field.effects(run)
        policy = field.factory.admin.policy()
        policy.pop('policy_digest')
        field.factory.admin.put_policy({**policy, 'allow_unavailable_source_observations': True})
        receipt = field.admit(run)
        assert receipt['version'] == 2 and field.ada.invalid_read_continuity(run, f'req-{run}').receipt == receipt
        assert field.work('second', take=[run]) == 0
        assert field.ada.run(run)['position'] == 'completed' and len(provider.bodies) == 2
        told = {m['tool_call_id']: json.loads(m['content']) for m in json.loads(provider.bodies[1])['messages'] if m['role'] == 'tool'}
        assert told['c1'] == {'status': 'invalid_query'}
        unavailable = {'status': 'observation_unavailable', 'reason': 'original_read_result_not_retained'}
        assert unavailable in (told['c2'], told['c3'])  # one of them may have been kept, and is told as it was
        assert field.effects(run) == before
    finally:
        field.close()


def not_admitted(factory, run: str) -> None:
    """The candidate with its holds cannot be asked for either."""
    c = factory.client('ada').invalid_read_continuity_candidate(run)
    assert not c['eligible']
    with pytest.raises(RefusedError):
        ask(factory, run, c)


def ask(factory: Any, run: str, c: Any) -> None:
    """Asks for version 1 on a candidate."""
    factory.client('ada').request_invalid_read_continuity(
        run, 'req-1', version=1, candidate_digest=c['candidate_digest'], journal_digest=c['journal_digest'],
        policy_digest=c['policy_digest'], run_digest=c['run_digest'], valid_for_seconds=60, acknowledge_no_new_grant=True,
        acknowledge_original_consumption=True, acknowledge_renewed_same_attempt_lease=True)


QUERY: dict[str, Any] = {'kind': 'build_log', 'target': 'nightly', 'page_size': 50}
REJECTED = {'responses': (responses(('c1', 'read_run_evidence', json.dumps(QUERY))), responses(text='done')),
            'anthropic': (anthropic(('c1', 'read_run_evidence', QUERY)), anthropic(text='done')),
            'google': (google(('read_run_evidence', QUERY)), google(text='done'))}
KNOWN = {'responses': 'gpt-4.1', 'anthropic': 'claude-haiku-4-5', 'google': 'gemini-2.5-flash'}
"""Models whose profiles reconstruction knows."""


def rejected_on(wire: str, name: str, factory: Any, tmp_path: Path, monkeypatch: Any, provider: Provider) -> tuple[Life, Callable[..., None]]:
    """A living run of the registered source on another wire, held by a rejected query; and how a worker takes it."""
    import agent
    import register
    build = agent.build

    def other(*args: Any, **options: Any) -> Any:
        one = build(*args, **options)
        one.model = WIRES[wire][0](provider.url)
        if name:
            one.model._model_name, one.model._profile = name, None
            vars(one.model).pop('profile', None)
        return one

    monkeypatch.setattr(agent, 'build', other)
    run = f'run-{wire}'
    register.register(factory.client('ada'), factory.record, run, base_url=provider.base_url)
    factory.enable()
    effects: list[str] = []
    life = Life(factory, tmp_path, None, run=run)

    def work(who: str, prompt: str) -> None:
        life.work(who, spool=who, agent_for=lambda _: (agent.build(provider.base_url, prompt), effects.append))

    work('worker', '1.0.0')
    assert life.kinds()[-2:] == ['call.refused', 'worker.failed'] and life.view()['position'] == 'held' and effects == []
    return life, work


@registered
@pytest.mark.parametrize('wire', REJECTED)
def test_models_that_are_not_known_show_their_hold(factory, tmp_path, monkeypatch, wire):
    """A living run of the registered source, held by the same rejected query as those that are continued, with a model on another wire
    whose profile reconstruction does not know: its candidate says so by name, and it is not admitted."""
    with Provider([REJECTED[wire][0]]) as provider:
        life, _ = rejected_on(wire, '', factory, tmp_path, monkeypatch, provider)
        (hold,) = factory.client('ada').invalid_read_continuity_candidate(life.run)['holds']
        assert hold['code'] == 'response_unparsable' and {'name': 'reason', 'value': 'model_without_profile'} in hold['details'], hold
        not_admitted(factory, life.run)


@registered
def test_counters_that_are_not_known_show_their_hold(factory, tmp_path, monkeypatch):
    """SDK-23: what the SDK counts beside the rest for Anthropic is in no catalogue entry."""
    with Provider([REJECTED['anthropic'][0]]) as provider:
        life, _ = rejected_on('anthropic', KNOWN['anthropic'], factory, tmp_path, monkeypatch, provider)
        assert life.holds() == ['counter_unknown']
        not_admitted(factory, life.run)


@registered
@pytest.mark.parametrize('wire', ['responses', 'google'])
def test_other_wires_are_continued(factory, tmp_path, monkeypatch, wire):
    """The same, with a model that is known: the operator continues it, and the model is told of its query."""
    with Provider(list(REJECTED[wire])) as provider:
        life, work = rejected_on(wire, KNOWN[wire], factory, tmp_path, monkeypatch, provider)
        c = factory.client('ada').invalid_read_continuity_candidate(life.run)
        assert c['eligible'], c['holds']
        ask(factory, life.run, c)
        work('second', '1.0.1')
        assert life.view()['position'] == 'completed', life.report()
        assert life.results == ['done'] and len(provider.bodies) == 2 and b'invalid_query' in provider.bodies[1]


@pytest.mark.skipif(SDK == '2.55.0', reason='the others of this file are about it')
def test_other_versions_show_their_hold_or_are_continued(field: Field):
    """The same held run, recorded with another version of the SDK. Without a transition in the catalogue it is held by that name; with
    one, a worker with the target's version goes on with it, and nothing happens twice."""
    import agent
    run = field.register(prompt='1.0.0')
    assert field.work(prompt='1.0.0', take=[run]) == 0
    assert field.ada.run(run)['position'] == 'held' and field.provider_calls(run) == 8
    catalogue = json.loads(agent.CATALOGUE.read_bytes())
    source = next((s['identity'] for s in catalogue['sources'] if s['pydantic_ai'] == SDK), None)
    if source not in [t['from'] for t in catalogue['transitions']]:
        assert 'sdk_pair_unsupported' in field.holds(run), field.holds(run)
        not_admitted(field.factory, run)
        return
    before = field.effects(run)
    field.admit(run)
    with field.workers_of('2.55.0'):
        assert field.work('second', take=[run]) == 0
    view = field.ada.run(run)
    assert view['position'] == 'completed' and field.provider_calls(run) == 10 and view['counters']['commands'] == 13
    assert field.effects(run)[:len(before)] == before and sum(e.startswith('command ') for e in field.effects(run)) == 13


def test_a_source_that_is_not_registered_shows_its_hold(factory, tmp_path):
    """A run that is held on a source that is not registered names that, and is not admitted."""
    from forge_continuity.pydanticai import Guard

    def check(args: dict) -> None:
        raise ValueError('no')

    with Provider([chat(('c1', 'look', '{"what":"bad"}'))]) as provider:
        small = Small(lambda: chat_model(provider.url))
        small.guards = {'look': Guard(check, '9' * 64)}
        life = Life(factory, tmp_path, small)
        factory.enable()
        life.work()
        assert life.view()['position'] == 'held' and {'source_unregistered', 'unsupported_history_format'} & set(life.holds())
        not_admitted(factory, life.run)


@registered
def test_the_example_runs():
    """examples/kill_and_continue.py to its end: it checks itself."""
    done = subprocess.run([sys.executable, str(ROOT / 'examples' / 'kill_and_continue.py')], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and '\nverified\n' in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize('kill', [False, True], ids=['stopped', 'killed'])
def test_server_itself_goes_down_and_comes_back(server: Server, tmp_path: Path, kill: bool):
    """Not a proxy: the server's own process ends under a living agent, at its third step, and starts again on the same store."""
    store = ['--store', str(tmp_path / 'own.db')] if server.store[0] == '--store' else server.store
    own = Server(tmp_path, store).start()
    try:
        with Provider([chat(('c1', 'put', '{"what":"b"}')), chat(('c2', 'shell', '{"line":"x"}')), chat(text='done')]) as provider:
            small = Small(lambda: chat_model(provider.url))
            life = Life(own.factory(), tmp_path / 'life', small)

            def point(label: str) -> None:
                if label == 'spooled round.completed checkpoint.saved':
                    life.on_point = lambda _: None
                    own.stop(kill=kill)
                    threading.Thread(target=lambda: (time.sleep(0.5), own.start())).start()

            life.on_point = point
            life.work(lease=120)
            assert life.view()['position'] == 'completed'
            assert small.effects == ['put b', 'shell x'] and len(provider.bodies) == 3
    finally:
        time.sleep(0.2)
        own.stop()


def test_the_first_example_runs(server: Server, tmp_path: Path):
    """examples/first.py as the README has it, on a factory that is no fixture. Run twice, it makes two runs."""
    token = subprocess.run([FORGE, 'factory', 'create', f'mine-{secrets.token_hex(4)}', '--administrator', 'ada', *server.store],
                           check=True, capture_output=True, text=True, env=server.env).stdout.strip()
    for _ in range(2):
        with Provider([chat(('c1', 'python_version', '{}')), chat(text='It is Python.')]) as provider:
            env = {**os.environ, 'FORGE_SERVER': server.url, 'FORGE_TOKEN': token, 'OPENAI_API_KEY': 'k', 'OPENAI_BASE_URL': provider.base_url}
            done = subprocess.run([sys.executable, str(ROOT / 'examples' / 'first.py')], cwd=tmp_path, env=env, capture_output=True, text=True,
                                  timeout=120)
            assert 'It is Python.' in done.stdout and 'is completed' in done.stdout, done.stdout[-2000:] + done.stderr[-3000:]
            assert 'command.started' in done.stdout and len(provider.bodies) == 2
