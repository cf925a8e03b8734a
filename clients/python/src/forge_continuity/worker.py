"""The loop around an agent: wait for work, claim it, run it, and end the claim in the way that what happened allows.

A worker stores each claim's id before it sends it. Started again on the same spool after a crash, it goes on with a claim that
still lives, and sends first what it had kept. SIGTERM and SIGINT drain it: the run in hand is released at its next clean point.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import Any, Awaitable, Callable

from . import pydanticai
from ._async import AsyncForge
from .errors import ForgeError, RefusedError, Stopped, UncertainError, UnreachableError
from .journal import Observer
from .session import Session, claim
from .spool import ClaimSpool, Spool

log = logging.getLogger('forge_continuity')

MAX_FAILURES = 3
"""How often this process claims a run again that failed under it; another worker may do better."""

SILENT = ('fence_lost', 'lease_expired', 'server_unreachable', 'released', 'run_cancelled', 'run_finished', 'identity_missing')
"""Stops after which there is nothing to report, or nobody to report it to."""

LATER = (408, 409, 425, 429)
"""Statuses below 500 that do not say that the request itself was found wrong, only that it was not taken now."""

AgentFor = Callable[[Session], Any]
"""Returns the agent for a claimed run, and may look at ``session.record`` for it. It may also return ``(agent, deps)``."""


class Worker:
    """One worker, which runs one run at a time."""

    def __init__(self, forge: AsyncForge, agent_for: AgentFor, *, spool: str | os.PathLike[str], lease_seconds: int = 120, pool: str = '',
                 wait_seconds: int = 20, drain_seconds: float = 60.0, observer: Observer | None = None,
                 on_result: Callable[[Session, Any], Awaitable[None] | None] | None = None):
        self.forge, self.agent_for = forge, agent_for
        self.spool = Spool(spool)
        self.lease_seconds, self.pool, self.wait_seconds, self.drain_seconds = lease_seconds, pool, wait_seconds, drain_seconds
        self.observer, self.on_result = observer, on_result
        self.session: Session | None = None
        self._draining = asyncio.Event()
        self._failures: dict[str, int] = {}

    def drain(self) -> None:
        """Takes no more work, and gives the run in hand back at its next clean point."""
        self._draining.set()
        if self.session is not None:
            self.session.draining = True

    async def run(self, *, once: bool = False) -> None:
        """Works until it is drained, or with ``once`` until there is nothing to claim."""
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    loop.add_signal_handler(number, self.drain)
                    stack.callback(loop.remove_signal_handler, number)
            for left in self.spool.claims():
                await self._take(left)
            pause = 0.1
            while not self._draining.is_set():
                try:
                    work = await self._unless_drained(self.forge.work(wait_seconds=0 if once else self.wait_seconds, pool=self.pool))
                    pause = 0.1
                except (UnreachableError, UncertainError, RefusedError) as error:
                    if isinstance(error, RefusedError) and error.status < 500:
                        raise
                    log.warning('no work can be asked for: %s', error)
                    await self._unless_drained(asyncio.sleep(pause))
                    pause = min(2 * pause, 5.0)
                    continue
                mine = [one for one in work or [] if self._failures.get(one['run_id'], 0) < MAX_FAILURES]
                if not mine:
                    if once:
                        return
                    if work:
                        await self._unless_drained(asyncio.sleep(1.0))
                    continue
                for one in mine:
                    if self._draining.is_set():
                        return
                    await self.take(one['run_id'], pool=one.get('pool', ''))

    async def take(self, run_id: str, *, pool: str = '') -> None:
        """Claims one run and works on it, announced or not; ``pool`` is the one that the run was handed to. A refused claim is no
        error: another worker was faster, or the run is held."""
        await self._take(self.spool.new_claim(run_id, lease_seconds=self.lease_seconds, pool=pool))

    async def _unless_drained(self, coroutine: Any) -> Any:
        task, drained = asyncio.ensure_future(coroutine), asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait([task, drained], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, drained):
                one.cancel()
            await asyncio.gather(task, drained, return_exceptions=True)

    async def _take(self, claim_spool: ClaimSpool) -> None:
        """Claims and works. A claim without an answer is looked up; if it stands, its own id gives it back."""
        session = None
        try:
            try:
                session = await claim(self.forge, claim_spool, observer=self.observer)
            except UncertainError as error:
                if await error.read_back() is not None:
                    session = await claim(self.forge, claim_spool, observer=self.observer)
        except (RefusedError, Stopped) as refusal:
            log.info('run %s is not claimed: %s', claim_spool.run_id, refusal)
        except ForgeError as error:
            # Left in the spool: it may stand, and then the next start of this worker goes on with it.
            log.warning('run %s: the claim has no answer: %s', claim_spool.run_id, error)
            return
        if session is None:
            claim_spool.keep() if claim_spool.pending() else claim_spool.remove()
            return
        self.session = session
        session.draining = self._draining.is_set()
        try:
            await self._work(session)
        finally:
            self.session = None
            await session.close()

    async def _work(self, session: Session) -> None:
        run_id = session.run_id
        limit = asyncio.ensure_future(self._drain_limit())
        task = asyncio.ensure_future(self._run(session))
        try:
            await asyncio.wait([task, limit], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                log.warning('run %s: no clean point came in time; its lease ends by itself', run_id)
                task.cancel()
            await task
            self._failures.pop(run_id, None)
        except asyncio.CancelledError:
            if not self._draining.is_set():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
        except Stopped as stop:
            log.warning('run %s stopped: %s', run_id, stop)
            if stop.code not in SILENT:
                await self._report(session, stop.code, stop.message, stop.details, final=stop.code == 'allowance_exhausted')
        except Exception as error:
            log.exception('run %s failed', run_id)
            if session.provider_refusal is not None:
                status, body = session.provider_refusal
                await self._report(session, 'provider_refused', f'The provider answered {status}.',
                                   {'status': str(status), 'body': body[:65536].decode('utf-8', 'replace')},
                                   refused=400 <= status < 500 and status not in LATER)
            else:
                await self._report(session, type(error).__name__, str(error), {}, final=True)
        finally:
            limit.cancel()
            await asyncio.gather(limit, return_exceptions=True)

    async def _drain_limit(self) -> None:
        await self._draining.wait()
        await asyncio.sleep(self.drain_seconds)

    async def _run(self, session: Session) -> None:
        agent, deps = self.agent_for(session), None
        if isinstance(agent, tuple):
            agent, deps = agent
        result = await pydanticai.run(session, agent, deps=deps)
        if self.on_result is not None:
            told = self.on_result(session, result)
            if told is not None:
                await told

    async def _report(self, session: Session, code: str, message: str, details: dict[str, str], *, final: bool = False,
                      refused: bool = False) -> None:
        self._failures[session.run_id] = self._failures.get(session.run_id, 0) + 1
        if session.journal.ended:
            return
        try:
            await session.fail(code, message, details=details, final=final, refused=refused)
        except Stopped as stop:
            log.warning('run %s: the report did not arrive: %s', session.run_id, stop)
