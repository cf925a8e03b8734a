"""Held living runs that an operator continues, and the server that goes down under one. Pydantic AI 2.55.0, the registered source."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents import SDK, Field
from forge_continuity import RefusedError, UncertainError
from forge_server import ROOT, Proxy, Server
from living import Life, Small
from provider import Provider, chat
from test_wires import chat_model

registered = pytest.mark.skipif(SDK != '2.55.0', reason='only 2.55.0 has a registered transition')


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


def test_wires_that_are_not_read_yet_show_their_hold(factory, tmp_path):
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
        c = factory.client('ada').invalid_read_continuity_candidate(life.run)
        with pytest.raises(RefusedError):
            factory.client('ada').request_invalid_read_continuity(
                life.run, 'req-1', version=1, candidate_digest=c['candidate_digest'], journal_digest=c['journal_digest'],
                policy_digest=c['policy_digest'], run_digest=c['run_digest'], valid_for_seconds=60, acknowledge_no_new_grant=True,
                acknowledge_original_consumption=True, acknowledge_renewed_same_attempt_lease=True)


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
