"""A claimed run: where it stands, and the way on from there with a real agent.

``Session`` keeps the order of facts that design section 3 describes. The hooks of the agent (``pydanticai``) call it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Iterator, Mapping

from . import canonical, digest
from ._async import AsyncForge
from .errors import ForgeError, Stopped, UnexpectedAnswer
from .journal import Journal, Observer
from .position import Call, Position
from .spool import ClaimSpool
from .types import Claimed, Fact

UNKNOWN_OUTCOME = {'status': 'outcome_unknown', 'reason': 'charged_by_reconciliation'}
"""What the model is told of a call whose outcome a person accepted as unknown."""

active: ContextVar['Session | None'] = ContextVar('forge_session', default=None)
"""The session whose agent runs in this context."""

running_call: ContextVar['tuple[Session, int] | None'] = ContextVar('forge_call', default=None)
"""The call whose tool runs in this context, by its position in the response."""


@dataclass(frozen=True)
class Contract:
    """The frozen contract, with what the facts of a call need of it."""

    value: Mapping[str, Any]

    @property
    def tools(self) -> list[str]:
        return [tool['name'] for tool in self.value['tools']]


class Session:
    """One claim of one run. Made by :func:`claim`."""

    def __init__(self, journal: Journal, position: Position, record: dict[str, Any] | None, contract: dict[str, Any]):
        assert position.registration is not None
        self.journal, self.position, self.record = journal, position, record
        self.registration = position.registration
        self.contract = Contract(record['contract'] if record is not None else contract)
        self.draining = False
        self.called: list[tuple[int, str]] = []  # calls of the turn that were not started, in order: position and id
        self.outputs: list[tuple[int, str]] = []  # output functions of the turn that were
        self.first_request = True
        self.recording: Any = None  # the hooks of the agent that runs, and what it was given
        self.limits: Any = None
        self.provider_refusal: tuple[int, bytes] | None = None
        self.response = b''  # raw, of the turn
        self._numbering = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    @property
    def run_id(self) -> str:
        return self.journal.run_id

    @property
    def request_id(self) -> str:
        """The continuity request that this claim follows, "" for ordinary work."""
        return self.journal.claim['request_id']

    async def task(self) -> str:
        """Returns the run's task."""
        return (await self.content(self.registration['task'])).decode('utf-8')

    async def content(self, name: str) -> bytes:
        return await self.journal.forge.blob(self.run_id, name, salt=self.journal.salt)

    async def append(self, *facts: tuple[str, dict[str, Any]], last: bool = False) -> None:
        """Reports facts and folds them."""
        first = await self.journal.append(*(Fact(kind, data) for kind, data in facts), last=last)
        for i, (kind, data) in enumerate(facts):
            self.position.add(kind, data, first + i)

    def check(self) -> None:
        """Raises the stop that stands, if one does. A stop is final for this session."""
        if self.journal.stop is not None:
            raise self.journal.stop

    def stop(self, code: str, message: str, **details: str) -> Stopped:
        """Makes a stop of this side's own. It ends the agent, and leaves the claim to report it."""
        return Stopped(code, message, details)

    # Turns

    async def save_checkpoint(self, record: dict[str, Any]) -> None:
        """Saves the pending checkpoint before a request; a turn that came to its end completes a round."""
        name = self.journal.put(canonical.record(record))
        facts: list[tuple[str, dict[str, Any]]] = []
        if self.position.turn.open:
            facts.append(('round.completed', {'round': self.position.rounds + 1}))
        await self.append(*facts, ('checkpoint.saved', {'checkpoint': name}))
        self.record = record

    async def issue(self, wire: bytes, provider: str = '') -> None:
        """Records a request before its bytes leave. ``provider`` is the digest of who is asked."""
        data = {'checkpoint': self.position.checkpoint, 'request': self.position.requests + 1, 'wire': digest.plain(wire),
                'wire_blob': self.journal.put(wire), 'wire_length': len(wire)}
        await self.append(('request.issued', {**data, 'provider': provider} if provider else data))
        self.called = []

    async def keep_response(self, body: bytes, *, partial: bool) -> None:
        """Keeps a raw response before anything looks at it."""
        self.response = body
        await self.append(('response.kept', {
            'length': len(body), 'partial': partial, 'request': self.position.turn.request, 'response': self.journal.put(body)}))

    async def consume(self, calls: list[tuple[str, str, str]], tokens: tuple[int, int], classes: Mapping[str, str]) -> None:
        """Charges the response once and grants its calls: name, id and arguments of each, in order.

        A grant over the tool-call limit is not asked for; the response is charged all the same, and the session stops.
        """
        turn = self.position.turn
        tools = self.contract.tools
        self.called, self.outputs = [(i, call_id) for i, (_, call_id, _) in enumerate(calls)], []
        facts: list[tuple[str, dict[str, Any]]] = []
        if not turn.consumed:
            facts.append(('response.consumed', {'calls': len(calls), 'request': turn.request, 'response': turn.response,
                                                'tokens': {'input': tokens[0], 'output': tokens[1]}}))
        elif turn.call_count != len(calls):
            raise self.stop('sdk_disagrees', 'The installed SDK reads another number of calls in the consumed response.',
                            got=str(len(calls)), want=str(turn.call_count))
        allowed = max(0, self.registration['limits']['tool_calls'] - self.position.tool_calls)
        granted = 0
        for position, (tool, call_id, args) in enumerate(calls):
            name, arguments = self.journal.name(call_id.encode()), self.journal.name(args.encode())
            before = turn.calls.get(position)
            if before is not None:
                if (before.id, before.args) != (name, arguments):
                    raise self.stop('sdk_disagrees', 'The installed SDK reads other calls in the consumed response.', position=str(position))
                continue
            if granted == allowed:
                break
            granted += 1
            klass = classes.get(tool, 'unknown') if tool in tools else 'unknown'
            cut = self.registration['source']['digest'] if klass in ('source_observation', 'pure_read') else ''
            facts.append(('call.granted', {'args': arguments, 'class': klass, 'cut': cut, 'id': name, 'position': position,
                                           'request': turn.request, 'tool': tools.index(tool) if tool in tools else -1}))
        if facts:
            await self.append(*facts)
        if len(turn.calls) < len(calls):
            raise self.stop('allowance_exhausted', 'The run has used up one of the limits it was started with.', allowance='tool_calls')

    # Calls

    def call(self, call_id: str) -> Call | None:
        """Returns the next call of the turn with that id that has not been started here, or ``None`` for a foreign one."""
        for i, (position, one) in enumerate(self.called):
            if one == call_id:
                del self.called[i]
                return self.position.turn.calls.get(position)
        return None

    async def refuse_call(self, position: int, validator: str) -> None:
        await self.append(('call.refused', {'position': position, 'request': self.position.turn.request, 'validator': validator}))

    async def intend(self, position: int) -> None:
        """Records that a call is about to be run. Only when this returns may it be."""
        await self.append(('call.intended', {'position': position, 'request': self.position.turn.request}))

    async def returned(self, position: int, result: bytes, *, failed: bool) -> None:
        await self.append(self._outcome(position, result, failed))

    async def lost(self, position: int) -> None:
        """Records that the result of a call that was started could not be kept. Its outcome stays unknown."""
        await self.append(('agentic_tool_unknown', {'position': position, 'request': self.position.turn.request}))

    async def close_calls(self, results: list[tuple[int, bytes, bool]]) -> None:
        """Records what the SDK itself answered to calls that never reached their tool, such as arguments that do not fit."""
        facts: list[tuple[str, dict[str, Any]]] = []
        for position, result, failed in results:
            if not self.position.turn.calls[position].intended:
                facts.append(('call.intended', {'position': position, 'request': self.position.turn.request}))
            facts.append(self._outcome(position, result, failed))
        if facts:
            await self.append(*facts)

    def _outcome(self, position: int, result: bytes, failed: bool) -> tuple[str, dict[str, Any]]:
        return 'call.returned', {'failed': failed, 'position': position, 'request': self.position.turn.request,
                                 'result': self.journal.put(result)}

    # Commands

    async def start_command(self, text: bytes, position: int) -> int:
        """Records that a command is about to start and returns its number in the life of the run."""
        async with self._numbering:
            number = self.position.commands + 1
            await self.append(('command.started', {
                'command': self.journal.put(text), 'number': number, 'position': position,
                'request': self.position.turn.request if position >= 0 else 0}))
            return number

    async def finish_command(self, number: int, exit_code: int, receipt: bytes) -> None:
        await self.append(('command.finished', {'exit_code': exit_code, 'number': number, 'receipt': self.journal.put(receipt)}))

    # Ends

    async def complete(self, result: bytes) -> None:
        """Ends the run with its result."""
        await self.append(('run.completed', {'result': self.journal.put(result), 'round': self.position.rounds + 1}))

    async def fail(self, code: str, message: str, *, final: bool = False, refused: bool = False,
                   details: Mapping[str, str] | None = None) -> str:
        """Ends the claim with the worker's own report, and returns the kind of fact that did. ``final`` ends the run, which
        needs that nothing is open; then another attempt has to be opened by a person. ``refused`` says of the turn's request
        that the provider refused it; by itself that proves nothing, and its outcome stays unknown until a person reviews it."""
        report = self.journal.put(canonical.record({'code': code, 'message': message, 'details': dict(details or {})}))
        kind = 'run.failed' if final and self.position.clean else 'worker.failed'
        facts: list[tuple[str, dict[str, Any]]] = [(kind, {'report': report})]
        turn = self.position.turn
        if refused and turn.open and not turn.response and not turn.partial:
            facts.insert(0, ('request.refused', {'report': report, 'request': turn.request}))
        await self.append(*facts, last=True)
        return kind

    async def release(self, pool: str = '') -> bool:
        """Gives the run back at a clean point."""
        return await self.journal.release(pool)

    @property
    def releasable(self) -> bool:
        return not self.request_id and self.position.clean

    async def close(self) -> None:
        """Ends this process's part. A spool with something pending is set aside as evidence, any other is forgotten."""
        await self.journal.close()
        spool = self.journal.spool
        if spool.pending():
            spool.keep()
        else:
            spool.remove()


async def claim(forge: AsyncForge, spool: ClaimSpool, *, observer: Observer | None = None) -> Session:
    """Sends a claim that the spool holds and returns the session. While the claim lives, the same call gives it back, after a
    crash too; what that process had kept and not sent is sent then (``Journal.flush``).

    Raises ``RefusedError`` if the claim is refused or over, ``UncertainError`` if its answer did not arrive.
    """
    lease_seconds = int(spool.about['lease_seconds'])
    saved = await forge.claim(spool.run_id, spool.claim_id, lease_seconds, pool=str(spool.about.get('pool', '')))
    claimed: Claimed = saved.receipt
    before = time.monotonic()
    view = await forge.run(spool.run_id)
    lease = view['lease']
    ends = before + (lease['expires_at'] - view['now']) / 1e6
    if lease['claim_id'] != spool.claim_id or not lease['live']:
        raise Stopped('fence_lost', 'The claim is over.', {'current': str(lease['fence'])})
    journal = Journal(forge, spool, claimed, lease_ends=ends, lease_seconds=lease_seconds, observer=observer)
    try:
        if spool.pending():
            await journal.flush({row['command_id'] async for row in forge.all_rows(spool.run_id) if 'command_id' in row})
        position = Position()
        async for row in forge.all_rows(spool.run_id):
            position.add(row['kind'], row['payload'], row['seq'])
        contract = json.loads(await forge.blob(spool.run_id, position.contract, salt=journal.salt))
        record = None
        if position.checkpoint:
            data = await forge.blob(spool.run_id, position.checkpoint, salt=journal.salt)
            try:
                record = canonical.read_record(data)
            except ValueError as error:
                raise UnexpectedAnswer(f'checkpoint {position.checkpoint}: {error}', 200) from error
        session = Session(journal, position, record, contract)
    except BaseException:
        await journal.close()
        raise
    journal.start()
    return session


class RunningCommand:
    """A command between its start and its receipt."""

    def __init__(self, session: Session, number: int):
        self.session, self.number = session, number
        self._receipt: tuple[int, bytes] | None = None

    def finish(self, exit_code: int, receipt: Any) -> None:
        """Says how the command ended. ``receipt`` is bytes, or a JSON value, and is kept when the block ends."""
        self._receipt = exit_code, receipt if isinstance(receipt, bytes) else canonical.record(receipt)

    async def _end(self) -> None:
        if self._receipt is not None:
            await self.session.finish_command(self.number, *self._receipt)


@contextlib.asynccontextmanager
async def command(text: str) -> AsyncIterator[RunningCommand]:
    """Around the start of one command, inside a tool of class ``command``::

        async with command('sh build.sh') as started:
            done = await run(...)
            started.finish(done.returncode, {'output': ...})

    The block is entered when the start is recorded; a command over the limit is refused before it. Left without ``finish``, the
    command's outcome stays unknown.
    """
    session, position = _current_call()
    running = RunningCommand(session, await session.start_command(text.encode(), position))
    yield running
    await running._end()


@contextlib.contextmanager
def command_sync(text: str) -> Iterator[RunningCommand]:
    """The same for tools that are plain functions, which run in a thread of their own."""
    session, position = _current_call()
    running = RunningCommand(session, _wait(session, lambda: session.start_command(text.encode(), position)))
    yield running
    _wait(session, running._end)


def _wait(session: Session, make: Callable[[], Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(make(), session._loop).result()


def _current_call() -> tuple[Session, int]:
    call = running_call.get()
    if call is None:
        raise ForgeError('a command belongs inside a tool of an agent that is being recorded')
    return call
