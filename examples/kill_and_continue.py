"""One command that kills a living agent and continues it::

    examples/run.sh            (or: python examples/kill_and_continue.py, with forge_continuity and Pydantic AI installed)

It starts a Forge server on a new SQLite file, a scripted provider and a worker with a real Pydantic AI agent. Then three things
happen to the run: its worker is killed with SIGKILL in the middle of a turn, and another worker goes on without a person; the
model asks for evidence in a way that the old validator rejects, which holds the run; and its operator continues it. Nothing is
sent, run or charged twice, and at the end the exported record is verified offline.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENT = str(HERE.parent / 'clients' / 'python' / 'src')
sys.path[:0] = [str(HERE / 'nightly'), CLIENT]
sys.dont_write_bytecode = True

from forge_continuity import Forge  # noqa: E402
from register import register  # noqa: E402

FORGE, STUB = os.environ['FORGE_BIN'], os.environ['FORGE_STUB_BIN']
RUN = 'nightly-1'
KILL_AT = 53  # a point of the worker's journal, in the middle of the third turn: see observer in nightly/work.py


def say(text: str) -> None:
    print(f'\n== {text}', flush=True)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix='forge-example-'))
    store = ['--store', str(folder / 'forge.db')]
    token = subprocess.run([FORGE, 'factory', 'create', 'example', '--administrator', 'ada', '--fixture', *store],
                           check=True, capture_output=True, text=True).stdout.strip()
    server = subprocess.Popen([FORGE, 'serve', *store, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=open(folder / 'serve.log', 'w'), text=True)
    stub = subprocess.Popen([STUB, '-listen', '127.0.0.1:0'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split()[-1]
        provider = stub.stdout.readline().strip()
        ada = Forge(url, token)
        ada.put_principal('roles', 'ada', ['administrator', 'operator'], replaces=1)
        ada.put_principal('first', 'worker', ['worker'])
        worker = ada.issue_token('worker', 3600)['token']
        ada.put_profile('profile', {'id': 'fixture', 'fixture': True, 'qualifications': [], **ada.factory()['host']})
        policy = {k: v for k, v in ada.policy().items() if k != 'policy_digest'}
        ada.put_policy({**policy, 'enabled': True, 'max_valid_for_seconds': 600})  # type: ignore[typeddict-item]

        def record(kind: str, name: str, digest: str) -> dict[str, object]:
            return {'record': name, 'revision': ada.put_record(f'{kind}-{name}', kind, name, digest)['revision'], 'digest': digest}

        register(ada, record, RUN, base_url=provider)

        def work(spool: str, *more: str) -> int:
            return subprocess.run(
                [sys.executable, str(HERE / 'nightly' / 'work.py'), '--server', url, '--provider', provider, '--spool', str(folder / spool),
                 '--once', *more],
                env={**os.environ, 'FORGE_TOKEN': worker, 'EFFECTS': str(folder / 'effects'), 'PYTHONPATH': CLIENT},
            ).returncode

        say('A worker takes the run, and is killed in the middle of a turn.')
        assert work('first', '--lease-seconds', '10', '--kill-at', str(KILL_AT)) == -9
        view = ada.run(RUN)
        say(f'Its claim lasts a little longer; the run is {view["position"]}. Then another worker, on another machine, goes on by itself.')
        while (view := ada.run(RUN))['position'] == 'executing':
            time.sleep(0.2)
        assert view['position'] == 'queued', view['position']
        assert work('second') == 0

        candidate = ada.invalid_read_continuity_candidate(RUN)
        say(f'The run is {ada.run(RUN)["position"]}: a query was rejected before its reader was called. It has used '
            f'{candidate["counters"]["commands"]} of {candidate["counters"]["limits"]["commands"]} commands. Its operator continues it.')
        assert candidate['eligible'], candidate['holds']
        ada.request_invalid_read_continuity(
            RUN, 'continue-1', version=1, candidate_digest=candidate['candidate_digest'], journal_digest=candidate['journal_digest'],
            policy_digest=candidate['policy_digest'], run_digest=candidate['run_digest'], valid_for_seconds=300, acknowledge_no_new_grant=True,
            acknowledge_original_consumption=True, acknowledge_renewed_same_attempt_lease=True)
        assert work('third') == 0

        view = ada.run(RUN)
        effects = (folder / 'effects').read_text().splitlines()
        say(f'The run is {view["position"]}: {view["counters"]["requests"]} requests, {view["counters"]["commands"]} of '
            f'{view["counters"]["limits"]["commands"]} commands. What really ran:')
        print('\n'.join('   ' + one for one in effects))
        assert view['position'] == 'completed' and sum(one.startswith('command ') for one in effects) == view['counters']['commands'] == 13
        ada.export(RUN, str(folder / 'run.forge.jsonl'))
        say('The exported record, verified offline:')
        subprocess.run([FORGE, 'verify', str(folder / 'run.forge.jsonl')], check=True)
        print(f'\nEverything is in {folder}')
    finally:
        server.terminate()
        stub.stdin.close()
        server.wait(40)
        stub.wait(10)


if __name__ == '__main__':
    main()
