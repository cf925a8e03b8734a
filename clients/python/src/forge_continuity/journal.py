"""The owner's side of one claim: what happened is kept, sent and acknowledged before anything follows from it.

Invariants:

* J1. A batch is on disk before it is sent, and stays there until it is accepted, or is an intent that was refused.
* J2. When ``append`` returns, the batch stands in the run's journal. An effect comes after its intent's ``append``.
* J3. A batch is sent again only as it was kept: same id, same content. Only the server's silence or its own "not now" leads to
  that, and only while the lease may still stand.
* J4. After the first stop no intent is appended and every caller gets that stop. A fact that is reported later happened all the
  same: it is appended where the claim still stands, and kept in the spool where it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, Awaitable, Callable

from . import digest
from ._async import AsyncForge
from .errors import ForgeError, RefusedError, Stopped, UncertainError, UnreachableError
from .spool import Batch, ClaimSpool
from .types import Claimed, Fact

log = logging.getLogger('forge_continuity')

Observer = Callable[[str, tuple[Fact, ...]], None]
"""Told of every batch: 'spooled' when it is on disk, 'acknowledged' when the server has it."""

NOT_NOW = ('busy', 'clock_behind', 'unavailable', 'internal', 'reconstruction_missing')
"""Codes after which the same batch may be sent again."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds between two attempts to reach a server that does not answer: doubled each time, up to the second."""

GONE = ('fence_lost', 'lease_expired', 'server_unreachable', 'run_cancelled', 'run_finished', 'identity_missing', 'role_missing')
"""Stops after which the claim cannot even be ended by its owner."""

INTENTS = ('request.issued', 'call.intended', 'command.started')
"""Kinds of facts that announce an effect."""

PARALLEL_BLOBS = 8


class Journal:
    """Appends for one live claim. One event loop only; safe to share between its tasks."""

    def __init__(self, forge: AsyncForge, spool: ClaimSpool, claimed: Claimed, *, lease_ends: float, lease_seconds: int,
                 observer: Observer | None = None):
        """``lease_ends`` is an instant of ``time.monotonic`` at which the lease is certainly not over earlier on the server's
        clock than here: the expiry reckoned from before the request that told it."""
        self.forge, self.spool = forge, spool
        self.claim = claimed['claim']
        self.salt = bytes.fromhex(claimed['salt'])
        self.run_id, self.fence = self.claim['run'], self.claim['fence']
        self.renewable = not self.claim['request_id']
        self.lease_seconds = lease_seconds
        self._period = min(lease_seconds, max(0.0, lease_ends - time.monotonic())) / 3  # a claim may get less than it asked for
        self.stop: Stopped | None = None
        self.on_stop: Callable[[Stopped], object] | None = None
        self.ended = False
        self._expires_at = self.claim['expires_at']
        self._lease_ends = lease_ends
        self._observer = observer
        self._count = spool.count()
        self._lock = asyncio.Lock()
        self._content: dict[str, bytes] = {}
        self._kept: set[str] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._due = False  # a renewal failed and waits for the server to answer something
        self._reached = asyncio.Event()

    # Content

    def put(self, data: bytes) -> str:
        """Names content for the next batch that mentions it, and returns its digest."""
        name = digest.blob(self.salt, data)
        if name not in self._kept:
            self._content[name] = data
        return name

    def name(self, data: bytes) -> str:
        """Returns the salted digest of bytes that are not kept: a call's id or its arguments."""
        return digest.blob(self.salt, data)

    # Lease

    @property
    def remaining(self) -> float:
        """Seconds that the lease still certainly lasts."""
        return self._lease_ends - time.monotonic()

    def start(self) -> None:
        """Begins to watch the lease, and to renew it if it is an ordinary one."""
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Waits for what is being sent and stops watching the lease. What is pending stays in the spool."""
        while self._sending:
            await asyncio.wait(self._sending)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        self.spool.close()

    async def _keep(self) -> None:
        renewed = time.monotonic()
        while self.stop is None and not self.ended:
            left = self.remaining
            if left <= 0:
                self._stop(Stopped('lease_expired', 'The time for which this run was leased has run out.'))
                return
            pause = left if not self.renewable else min(left, max(0.05, renewed + self._period - time.monotonic()))
            await self._pause(pause)
            if not self.renewable or self.ended or self.remaining <= 0:
                continue
            renewed = before = time.monotonic()
            self._due = False
            self._reached.clear()
            try:
                expires = await self.forge.renew(self.run_id, self.claim['claim_id'], self.fence, self.lease_seconds)
            except RefusedError as refusal:
                if refusal.code in NOT_NOW:
                    renewed, self._due = before - self._period + LONGEST_WAIT, True
                elif refusal.code in GONE:
                    self._stop(Stopped.by(refusal))
                else:  # the lease stands as it is and ends when it ends, such as before a deadline
                    log.warning('lease of run %s is not renewed: %s', self.run_id, refusal)
                    self.renewable = False
            except ForgeError:
                renewed, self._due = before - self._period + LONGEST_WAIT, True
            else:
                # Its end moved by as much on the server's clock as here, and the answer can only have come later.
                self._lease_ends += (expires - self._expires_at) / 1e6
                self._expires_at = expires

    async def _pause(self, seconds: float) -> None:
        if not self._due:
            await asyncio.sleep(seconds)
        else:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._reached.wait(), seconds)

    def _stop(self, stop: Stopped) -> Stopped:
        if self.stop is None:
            self.stop = stop
            if self.on_stop is not None:
                self.on_stop(stop)
        return self.stop

    # Appending

    async def append(self, *facts: Fact, last: bool = False) -> int:
        """Reports facts, with the content that they name, and returns the number of the first row that they became. Raises
        ``Stopped`` when the agent must not go on. ``last`` is for the report that ends the claim, whose caller knows of the stop.

        A caller that is cancelled does not take the report with it: what was kept is still sent.
        """
        task = asyncio.get_running_loop().create_task(self._append(facts, last))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        task.add_done_callback(lambda t: t.cancelled() or t.exception())  # a cancelled caller does not ask
        return await asyncio.shield(task)

    def _check(self, intent: bool = True) -> None:
        if self.stop is not None and (intent or self.stop.code in GONE):
            raise self.stop
        if self.ended:
            raise Stopped('fact_out_of_order', 'Nothing follows the end of a claim.')

    async def _append(self, facts: tuple[Fact, ...], last: bool) -> int:
        intent = facts[-1].kind in INTENTS
        async with self._lock:
            if intent:
                self._check()
            text = repr([f.data for f in facts])
            named = {name: data for name, data in self._content.items() if name in text}
            self._count += 1
            batch = Batch(f'{self.claim["claim_id"]}.{self._count}', self.fence, facts, named)
            await asyncio.to_thread(self.spool.write, batch)
            for name in named:
                del self._content[name]
            if self._observer is not None:
                self._observer('spooled', facts)
            self._check(intent)
            first = await self._deliver(batch, intent)
            if self.stop is not None and not last:
                raise self.stop
            return first

    async def flush(self, standing: set[str]) -> None:
        """Sends what an earlier process of this worker kept under this claim and got no answer to. ``standing`` are the commands that
        the run's journal has.

        An intent that is not among them is dropped: nobody acknowledged it, so what it announced never began (J2).
        """
        async with self._lock:
            for batch in self.spool.pending():
                if batch.command_id not in standing and batch.facts[-1].kind in INTENTS:
                    self.spool.answered(batch.command_id, 'never_sent')
                else:
                    await self._deliver(batch)

    async def _deliver(self, batch: Batch, intent: bool = False) -> int:
        try:
            first = await self._until_answered(lambda: self._send(batch), intent)
        except RefusedError as refusal:
            # A refused intent announced nothing. A refused fact happened all the same, and stays in the spool as evidence.
            if batch.facts[-1].kind in INTENTS:
                self.spool.answered(batch.command_id, refusal.code)
            raise self._stop(Stopped.by(refusal)) from refusal
        self.spool.answered(batch.command_id)
        self._kept.update(batch.blobs)
        if any(f.kind in ('worker.failed', 'run.completed', 'run.failed') for f in batch.facts):
            self.ended = True
        if self._observer is not None:
            self._observer('acknowledged', batch.facts)
        return first

    async def _send(self, batch: Batch) -> int:
        waiting = list(batch.blobs.items())
        while waiting:
            some, waiting = waiting[:PARALLEL_BLOBS], waiting[PARALLEL_BLOBS:]
            await asyncio.gather(*(self.forge.put_digested(self.run_id, name, data, fence=batch.fence) for name, data in some))
        saved = await self.forge.append(self.run_id, batch.command_id, batch.fence, batch.facts)
        self._reached.set()
        return saved.receipt['first_seq']

    async def _until_answered(self, send: Callable[[], Awaitable[int]], intent: bool) -> int:
        pause = FIRST_WAIT
        while True:
            self._check(intent)
            if self.remaining <= 0:
                raise self._stop(Stopped('server_unreachable', 'The lease ran out while the server did not answer.'))
            try:
                return await send()
            except RefusedError as refusal:
                if refusal.code not in NOT_NOW:
                    raise
                pause = max(pause, min(refusal.retry_after or 0, LONGEST_WAIT))
            except (UncertainError, UnreachableError):
                pass
            await asyncio.sleep(min(pause, max(0.0, self.remaining)))
            pause = min(2 * pause, LONGEST_WAIT)

    async def release(self, pool: str = '') -> bool:
        """Gives the run back at a clean point and tells whether that stands. It is sent once: without an answer, and with
        nothing to read back, the lease simply ends by itself."""
        async with self._lock:
            self._check()
            self.ended = True
            try:
                await self.forge.release(self.run_id, f'{self.claim["claim_id"]}.release', self.fence, pool=pool)
            except UncertainError as error:
                try:
                    return await error.read_back() is not None
                except ForgeError:
                    return False
            except UnreachableError:
                return False
            except RefusedError as refusal:
                self.ended = False
                raise Stopped.by(refusal) from refusal
            return True
