"""Helpers of the agent tests: runs of examples/nightly, their workers, and what the provider saw of each."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / 'examples' / 'nightly'))

from importlib.metadata import version  # noqa: E402

import register  # noqa: E402
from forge_server import ROOT, Factory, Stub  # noqa: E402

SDK = version('pydantic-ai-slim')
LONG = os.environ.get('FORGE_LONG') == '1'


class Field:
    """A factory, a provider and workers on it."""

    def __init__(self, factory: Factory, folder: Path, provider: Any = None):
        self.factory, self.folder, self.stub = factory, folder, provider or Stub()
        factory.enable()
        self.ada = factory.client('ada')
        self.zygote = self._start_zygote(sys.executable)

    def _start_zygote(self, python: str) -> 'subprocess.Popen[str]':
        return subprocess.Popen([python, str(Path(__file__).with_name('zygote.py'))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _end_zygote(self) -> None:
        assert self.zygote.stdin is not None
        self.zygote.stdin.close()
        self.zygote.wait(20)

    def close(self) -> None:
        self._end_zygote()
        self.stub.close()

    @contextlib.contextmanager
    def workers_of(self, sdk: str) -> Iterator[None]:
        """Workers are of another version of the SDK meanwhile."""
        env = subprocess.run(['sh', str(ROOT / 'clients/python/venv.sh'), sdk], check=True, capture_output=True, text=True).stdout.strip()
        own, self.zygote = self.zygote, self._start_zygote(env + '/bin/python')
        try:
            yield
        finally:
            self._end_zygote()
            self.zygote = own

    def _ask(self, question: dict[str, Any]) -> int:
        assert self.zygote.stdin is not None and self.zygote.stdout is not None
        self.zygote.stdin.write(json.dumps(question) + '\n')
        self.zygote.stdin.flush()
        return int(self.zygote.stdout.readline())

    def register(self, *, prompt: str = '1.0.1', **changes: Any) -> str:
        run = 'run-' + secrets.token_hex(6)
        register.register(self.ada, self.factory.record, run, base_url=self.stub.base_url, prompt=prompt, **changes)
        return run

    def start(self, who: str = 'worker', *, server: str = '', spool: str = '', **options: Any) -> int:
        """Starts a worker and returns its process id."""
        return self._ask({'folder': str(self.folder), 'server': server or self.factory.server.url, 'token': self.factory.tokens[who],
                          'provider': self.stub.base_url, 'spool': str(self.folder / (spool or 'spool-' + secrets.token_hex(4))),
                          'prompt': '1.0.1', **options})

    def wait(self, pid: int) -> int:
        """Returns the exit code of a worker, negative for the signal that ended it."""
        return self._ask({'wait': pid})

    def work(self, who: str = 'worker', **options: Any) -> int:
        return self.wait(self.start(who, **options))

    def points(self, run: str) -> list[str]:
        return self._lines(run, 'points')

    def effects(self, run: str) -> list[str]:
        return self._lines(run, 'effects')

    def _lines(self, run: str, kind: str) -> list[str]:
        path = self.folder / f'{run}.{kind}'
        return path.read_text(encoding='utf-8').splitlines() if path.exists() else []

    def provider_calls(self, run: str) -> int:
        return self.stub.proxy.keys.get(run, 0)

    def until_lapsed(self, run: str, seconds: float = 60) -> None:
        """Waits until the claim of a dead worker is over."""
        until = time.monotonic() + seconds
        while True:
            view = self.ada.run(run)
            if not view['lease']['live'] or view['lease']['expires_at'] <= view['now']:
                return
            assert time.monotonic() < until, view
            time.sleep(0.1)

    def admit(self, run: str, request: str = '', seconds: int = 300) -> dict[str, Any]:
        """Admits version 1 or 2 on the candidate as it stands."""
        c = self.ada.invalid_read_continuity_candidate(run)
        assert c['eligible'], c['holds']
        acknowledgements: Any = {'acknowledge_no_new_grant': True, 'acknowledge_original_consumption': True,
                                 'acknowledge_renewed_same_attempt_lease': True}
        if c['version'] == 2:
            acknowledgements['acknowledge_unavailable_source_observations'] = True
        return self.ada.request_invalid_read_continuity(
            run, request or f'req-{run}', version=c['version'], candidate_digest=c['candidate_digest'], journal_digest=c['journal_digest'],
            policy_digest=c['policy_digest'], run_digest=c['run_digest'], valid_for_seconds=seconds, **acknowledgements).receipt

    def enable(self, **switches: bool) -> None:
        """Sets switches of the continuity policy."""
        policy = self.factory.admin.policy()
        policy.pop('policy_digest')
        self.factory.admin.put_policy({**policy, **switches})  # type: ignore[typeddict-item]

    def holds(self, run: str) -> list[str]:
        """What holds the run, and what holds its continuation."""
        return [one['code'] for one in [*self.ada.run(run)['holds'], *self.ada.invalid_read_continuity_candidate(run)['holds']]]

    def kinds(self, run: str) -> list[str]:
        return [row['kind'] for row in self.ada.all_rows(run)]
