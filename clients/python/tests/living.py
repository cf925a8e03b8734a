"""Runs small agents in this process through a real server."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from typing import Any, Callable

from pydantic_ai import Agent, Tool

from forge_continuity import AsyncForge, Fact, canonical
from forge_continuity.identity import SourceIdentity
from forge_continuity.pydanticai import ForgeCapability, capture_contract
from forge_continuity.session import Session, claim, command
from forge_continuity.spool import Spool
from forge_continuity.worker import Worker
from forge_server import Factory

LIMITS = {'attempts': 1, 'commands': 5, 'input_tokens': 10_000, 'output_tokens': 10_000, 'repairs': 1, 'requests': 10, 'source_reads': 5,
          'tool_calls': 10, 'total_tokens': 20_000}
SOURCE = SourceIdentity.installed(name='test')


class Died(BaseException):
    """Stands for the death of the process: nothing of the worker catches it."""


class Small:
    """An agent with three tools, whose effects are counted."""

    def __init__(self, model: Callable[[], Any], **options: Any):
        self.model, self.options, self.effects = model, {'instructions': 'Do it.', **options}, []
        self.classes: dict[str, Any] = {'look': 'pure_read', 'put': 'write', 'shell': 'command', 'list_files': 'source_observation'}
        self.on_effect: Callable[[str], None] = lambda what: None
        self.guards: dict[str, Any] = {}

    def effect(self, what: str) -> None:
        self.on_effect(what)
        self.effects.append(what)

    def build(self) -> Agent[Any, Any]:
        async def look(what: str) -> dict[str, Any]:
            """Look at something."""
            self.effect('look ' + what)
            await asyncio.sleep(0.01)
            return {'seen': what, 'also': [1, 2.5, None]}

        async def put(what: str) -> str:
            """Put something somewhere."""
            self.effect('put ' + what)
            if what == 'retry':
                from pydantic_ai import ModelRetry
                raise ModelRetry('not that')
            if what == 'crash':
                raise RuntimeError('the tool broke')
            return 'ok'

        async def shell(line: str) -> int:
            """Run a command."""
            async with command(line) as started:
                self.effect('shell ' + line)
                started.finish(0, {'line': line})
            return 0

        return Agent(self.model(), tools=[Tool(look), Tool(put), Tool(shell)], model_settings={'temperature': 0.0},
                     capabilities=[ForgeCapability(source=SOURCE, tools=self.classes, guards=self.guards)], **self.options)


def register(factory: Factory, contract: dict[str, Any], *, limits: dict[str, int] | None = None, task: str = 'Do the thing.', **changes: Any) -> str:
    run, ada = 'run-' + secrets.token_hex(6), factory.client('ada')
    salt = bytes.fromhex(ada.open_run(run).receipt['salt'])
    ada.register(run, {
        'acknowledgement': 'ack', 'active_deadline': 0, 'attempt': 1, 'completed_rounds': 0, 'limits': {**LIMITS, **(limits or {})},
        'contract': ada.put_blob(run, salt, canonical.record(contract)), 'task': ada.put_blob(run, salt, task.encode()),
        'configuration': factory.record('configuration', 'c', 'a' * 64), 'scope': factory.record('scope', 's', 'b' * 64),
        'source': factory.record('source', 'x', 'c' * 64), 'mode': 'required', 'provider_timeout_seconds': 600, 'reader': 'd' * 64,
        'runtime': 'e' * 64, 'selection': 'all', 'time_budget': 'none', 'validator': 'f' * 64, **changes})  # type: ignore[typeddict-item]
    return run


class Life:
    """One agent, one run, and workers in this process."""

    def __init__(self, factory: Factory, folder: Path, small: Any, *, run: str = '', options: Any = None, **registration: Any):
        """``run`` is one that is registered already; else one is, with the contract of the agent under those options of its run."""
        self.factory, self.folder, self.small = factory, folder, small
        self.run = run or register(factory, asyncio.run(capture_contract(small.build(), 'Do the thing.', **(options or {}))), **registration)
        self.labels: list[str] = []
        self.results: list[Any] = []
        self.sessions: list[Session] = []
        self.on_point: Callable[[str], None] = lambda label: None

    def observe(self, stage: str, facts: tuple[Fact, ...]) -> None:
        label = f'{stage} {" ".join(f.kind for f in facts)}'
        self.labels.append(label)
        self.on_point(label)

    def work(self, who: str = 'worker', *, url: str = '', spool: str = 'spool', lease: int = 60, again: bool = False, drain: Any = None,
             agent_for: Any = None, pool: str = '') -> None:
        """Takes the run once, or with ``again`` starts as a worker that finds its spool."""
        async def main() -> None:
            async with AsyncForge(url or self.factory.server.url, self.factory.tokens[who], timeout=5) as forge:
                def build(session: Session) -> Any:
                    self.sessions.append(session)
                    return (agent_for or (lambda _: self.small.build()))(session)

                worker = Worker(forge, build, spool=self.folder / spool, lease_seconds=lease, observer=self.observe,
                                on_result=lambda s, r: self.results.append(r.output), wait_seconds=0)
                if drain is not None:
                    drain(worker)
                if again:
                    await worker.run(once=True)
                else:
                    await worker.take(self.run, pool=pool)

        asyncio.run(main())

    def die_at(self, label: str, spool: str = 'spool') -> None:
        """Works until that point and dies there, as far as a test in one process can: of what was on disk nothing is put away."""
        def tell(seen: str) -> None:
            if seen == label and not (self.folder / 'kept').exists():
                shutil.copytree(self.folder / spool, self.folder / 'kept')
            if (self.folder / 'kept').exists():
                raise Died  # and so do its other tasks
        self.on_point = tell
        try:
            self.work(spool=spool)
        except Died:
            pass
        self.on_point = lambda _: None
        self.labels[:] = self.labels[:self.labels.index(label) + 1]
        shutil.rmtree(self.folder / spool)
        (self.folder / 'kept').rename(self.folder / spool)

    def kinds(self) -> list[str]:
        return [row['kind'] for row in self.rows()]

    def rows(self) -> list[Any]:
        return list(self.factory.client('reader').all_rows(self.run))

    def view(self) -> Any:
        return self.factory.client('reader').run(self.run)

    def blob(self, digest: str) -> bytes:
        return self.factory.client('reader').blob(self.run, digest)

    def report(self) -> Any:
        """The report with which the last claim ended."""
        row = [r for r in self.rows() if r['kind'] in ('worker.failed', 'run.failed')][-1]
        return canonical.read_record(self.blob(row['payload']['report']))

    def holds(self) -> list[str]:
        return [h['code'] for h in self.factory.client('ada').invalid_read_continuity_candidate(self.run)['holds']]


async def session_of(forge: AsyncForge, folder: Path, run: str, lease: int = 60) -> Session:
    """Claims a run without a worker."""
    return await claim(forge, Spool(folder).new_claim(run, lease_seconds=lease))
