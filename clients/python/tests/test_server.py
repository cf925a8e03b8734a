"""The client against a real server, on every store."""

from __future__ import annotations

import json
import secrets

import pytest

from forge_continuity import Fact, Forge, RefusedError, UncertainError, canonical, digest
from forge_server import ROOT, Proxy
from test_client import BOUNDARY, D, NEVER, OBSERVATION, REVIEW

LIMITS = {'attempts': 1, 'commands': 2, 'input_tokens': 1000, 'output_tokens': 1000, 'repairs': 1, 'requests': 3, 'source_reads': 2,
          'tool_calls': 3, 'total_tokens': 2000}


def register(factory, run='', **changes):
    """Opens and registers a run that needs no agent. Returns its id and salt."""
    run = run or 'run-' + secrets.token_hex(6)
    ada = factory.client('ada')
    salt = bytes.fromhex(ada.open_run(run).receipt['salt'])
    task, contract = ada.put_blob(run, salt, b'do it'), ada.put_blob(run, salt, canonical.record({'tools': []}))
    ada.register(run, {
        'acknowledgement': 'ack', 'active_deadline': 0, 'attempt': 1, 'completed_rounds': 0, 'contract': contract, 'limits': LIMITS,
        'configuration': factory.record('configuration', 'c', 'a' * 64), 'scope': factory.record('scope', 's', 'b' * 64),
        'source': factory.record('source', 'x', 'c' * 64), 'mode': 'required', 'provider_timeout_seconds': 600, 'reader': 'd' * 64,
        'runtime': 'e' * 64, 'selection': 'all', 'task': task, 'time_budget': 'none', 'validator': 'f' * 64, **changes})
    return run, salt


def test_life_of_a_run(factory):
    run, salt = register(factory)
    worker = factory.client('worker')
    assert (run, '') in [(w['run_id'], w['request_id']) for w in worker.work()]
    claimed = worker.claim(run, 'claim-1', 60).receipt
    assert claimed['salt'] == salt.hex() and claimed['claim']['fence'] == 1
    assert worker.claim(run, 'claim-1', 60).receipt == claimed  # the same id, while the claim lives
    view = worker.run(run)
    assert view['position'] == 'executing' and view['registration']['limits'] == LIMITS

    checkpoint = worker.put_blob(run, salt, b'{"history":[]}', fence=1)
    saved = worker.append(run, 'batch-1', 1, [Fact('checkpoint.saved', {'checkpoint': checkpoint})])
    again = worker.append(run, 'batch-1', 1, [Fact('checkpoint.saved', {'checkpoint': checkpoint})])
    assert (saved.repeat, again.repeat) == (False, True) and saved.body == again.body
    with pytest.raises(RefusedError) as error:
        worker.append(run, 'batch-1', 1, [Fact('round.completed', {'round': 1})])
    assert error.value.code == 'request_conflict' and error.value.status == 409
    assert worker.blob(run, checkpoint, salt=salt) == b'{"history":[]}'
    assert worker.find_command(run, 'batch-1')['kind'] == 'checkpoint.saved'
    assert worker.find_command(run, 'batch-2') is None

    before = view['lease']['expires_at']
    assert worker.renew(run, 'claim-1', 1, 300) > before
    worker.release(run, 'release-1', 1)
    assert worker.run(run)['position'] == 'queued'
    with pytest.raises(RefusedError) as error:
        worker.append(run, 'batch-3', 1, [Fact('round.completed', {'round': 1})])
    assert error.value.code == 'fence_lost'
    second = factory.client('second')
    assert second.claim(run, 'claim-2', 60).receipt['claim']['fence'] == 2
    factory.client('ada').cancel(run, 'stop')
    assert second.run(run)['position'] == 'cancelled'
    assert [row['seq'] for row in second.all_rows(run)] == list(range(1, view['lease']['fence'] + len(list(second.all_rows(run)))))


def test_export(factory, tmp_path):
    run, _ = register(factory)
    size = factory.client('reader').export(run, str(tmp_path / 'run.jsonl'))
    assert (tmp_path / 'run.jsonl').stat().st_size == size
    assert json.loads((tmp_path / 'run.jsonl').read_text().splitlines()[0])['run'] == run


def test_lost_answers(factory):
    """Each command that loses its answer is there once when it is read back; nothing was sent again."""
    run, salt = register(factory)
    proxy = Proxy(factory.server.port)
    try:
        worker = factory.client('worker', proxy.url)

        def lose(send):
            proxy.cut_answers = 1
            with pytest.raises(UncertainError) as error:
                send()
            return error.value

        assert lose(lambda: worker.claim(run, 'claim-1', 60)).read_back()['command_id'] == 'claim-1'
        assert lose(lambda: worker.put_blob(run, salt, b'x', fence=1)).read_back() is True
        name = digest.blob(salt, b'x')
        row = lose(lambda: worker.append(run, 'batch-1', 1, [Fact('checkpoint.saved', {'checkpoint': name})])).read_back()
        assert row['payload'] == {'checkpoint': name}
        assert lose(lambda: worker.release(run, 'release-1', 1)).read_back()['kind'] == 'claim.released'
        sent = [line.split(b' ')[:2] for line in proxy.seen if not line.startswith(b'GET')]
        assert len(sent) == len({tuple(one) for one in sent}) == 4
    finally:
        proxy.close()


def test_verification(factory):
    """A completed round is queued for verification by hand, once, and a worker of its pool runs the frozen list and says how it went."""
    ada = factory.client('ada')
    run = 'run-' + secrets.token_hex(6)
    salt = bytes.fromhex(ada.open_run(run).receipt['salt'])
    commands = ada.put_blob(run, salt, b'["make check"]')
    register(factory, run, verification={'commands': 1, 'list': commands})
    worker = factory.client('worker')
    worker.claim(run, 'claim-1', 60)
    worker.append(run, 'batch-1', 1, [Fact('round.completed', {'round': 1})])
    with pytest.raises(RefusedError) as error:
        ada.verify(run, 'early', 1)
    assert error.value.code == 'claim_live'
    worker.release(run, 'release-1', 1)
    with pytest.raises(RefusedError) as error:
        ada.verify(run, 'other', 2)
    assert error.value.code == 'verification_not_due'
    with pytest.raises(RefusedError) as error:
        worker.verify(run, 'mine', 1)
    assert error.value.code == 'role_missing'
    # The server's own scheduler does the same; whichever comes first, the round is queued once.
    try:
        saved = ada.verify(run, 'hand', 1)
        assert saved.receipt['state'] == 'admitted' and saved.receipt['round'] == 1
        again = ada.verify(run, 'hand', 1)
        assert again.repeat and again.body == saved.body
    except RefusedError as late:
        assert late.code == 'verification_not_due'
    assert ada.run(run)['verification']['state'] == 'admitted'
    assert worker.work(pool='_verification')
    fence = worker.claim(run, 'claim-2', 60, pool='_verification').receipt['claim']['fence']
    source = ada.run(run)['registration']['source']['digest']
    command, receipt, report = (worker.put_blob(run, salt, data, fence=fence) for data in (b'make check', b'ok', b'all passed'))
    worker.append(run, 'batch-2', fence, [
        Fact('source.prepared', {'source': source}),
        Fact('command.started', {'command': command, 'number': 1, 'position': -1, 'request': 0}),
        Fact('command.finished', {'exit_code': 0, 'number': 1, 'receipt': receipt}),
        Fact('verification.finished', {'passed': True, 'report': report})])
    shown = ada.run(run)['verification']
    assert (shown['state'], shown['passed'], shown['due'], shown['started']) == ('finished', True, False, 1)


def test_inspection(factory):
    """What is no checkpoint record of the run is refused by name, to each by the role that the route asks for."""
    run, _ = register(factory)
    with pytest.raises(RefusedError) as error:
        factory.client('reader').inspect(run, 'a' * 64)
    assert error.value.code == 'not_found'
    with pytest.raises(RefusedError) as error:
        factory.client('worker').restore(run, 'a' * 64)
    assert error.value.code == 'role_missing'
    with pytest.raises(RefusedError) as error:
        factory.client('oda').waive_credential(run, 'w-1', blob='a' * 64, path='/a', rule='r', rule_set='b' * 64)
    assert error.value.code == 'role_missing'


def test_missing_routes_are_clear(factory):
    """What a server does not offer, or does not hold, comes out as a typed refusal, from every one of the twelve."""
    run, _ = register(factory)
    ada = factory.client('ada')
    calls = [
        lambda: ada.invalid_read_continuity(run, 'req-1'),
        lambda: ada.invalid_read_recovery_candidate(run, 'req-1'),
        lambda: ada.request_invalid_read_recovery(run, 'req-1', 'rec-1', valid_for_seconds=60, **D, **NEVER),
        lambda: ada.invalid_read_recovery(run, 'req-1'),
        lambda: ada.rejected_boundary_recovery_candidate(run, 'req-1', REVIEW),
        lambda: ada.request_rejected_boundary_recovery(run, 'req-1', 'rec-1', candidate_digest='a' * 64, review=REVIEW, corrective_epoch='e',
                                                       corrective_validation_digest='b' * 64, valid_for_seconds=60, **BOUNDARY),
        lambda: ada.rejected_boundary_recovery(run, 'req-1'),
        lambda: ada.readonly_observation_recovery_candidate(run, 'req-1'),
        lambda: ada.request_readonly_observation_recovery(run, 'req-1', 'rec-1', candidate_digest='a' * 64, valid_for_seconds=60, **OBSERVATION),
        lambda: ada.readonly_observation_recovery(run, 'req-1'),
    ]
    for call in calls:
        with pytest.raises(RefusedError) as error:
            call()
        assert error.value.code and error.value.message and error.value.next and 400 <= error.value.status < 500, error.value


def test_identity(factory):
    with pytest.raises(RefusedError) as error:
        Forge(factory.server.url, 'forge_none_none').factory()
    assert (error.value.code, error.value.status) == ('identity_missing', 401)
    with pytest.raises(RefusedError) as error:
        factory.client('reader').work()
    assert error.value.code == 'role_missing'
    assert (ROOT / 'go.mod').exists()
