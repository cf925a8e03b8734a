"""Where a run stands, read from its rows: what a worker needs to go on from.

This folds the same rows as the kernel does, for one purpose only: to know what of the last turn is recorded already, so that it
is neither sent, charged nor done again. What may be appended is decided by the server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable

from .types import Registration, Row


@dataclass
class Call:
    """One call of the turn's response. A call that is ``done`` without a ``result`` was settled as unknown by a person."""

    position: int
    id: str = ''
    args: str = ''
    klass: str = 'unknown'
    refused: bool = False
    intended: bool = False
    done: bool = False
    result: str = ''
    failed: bool = False

    @property
    def unknown(self) -> bool:
        return self.intended and not self.done


@dataclass
class Turn:
    """One request and what followed. ``response`` is "" until one was kept whole."""

    request: int = 0
    checkpoint: str = ''
    wire: str = ''
    response: str = ''
    partial: bool = False
    consumed: bool = False
    call_count: int = 0
    calls: dict[int, Call] = field(default_factory=dict)
    over: bool = False

    @property
    def open(self) -> bool:
        """Whether the turn still has to be brought to its end: no checkpoint, settlement or reconciliation came after it."""
        return bool(self.request) and not self.over

    @property
    def clean(self) -> bool:
        """Whether nothing of the turn is open."""
        if not self.open:
            return True
        return self.consumed and len(self.calls) >= self.call_count and all(call.done for call in self.calls.values())


@dataclass
class Position:
    """A run as its rows tell it."""

    registration: Registration | None = None
    contract: str = ''
    checkpoint: str = ''
    checkpoint_seq: int = 0
    request_seq: int = 0
    requests: int = 0
    tool_calls: int = 0
    commands: int = 0
    rounds: int = 0
    turn: Turn = field(default_factory=Turn)
    running: set[int] = field(default_factory=set)
    tickets: int = 0
    end: str = ''

    @property
    def unknown(self) -> bool:
        """Whether something may have happened that nothing tells the outcome of."""
        turn = self.turn
        waiting = turn.open and not turn.response
        return waiting or bool(self.running) or turn.open and any(call.unknown for call in turn.calls.values())

    @property
    def rejected_read(self) -> bool:
        return self.turn.open and any(call.refused for call in self.turn.calls.values())

    @property
    def clean(self) -> bool:
        return self.turn.clean and not self.running

    @property
    def checkpoint_used(self) -> bool:
        """Whether a request left from the checkpoint that stands, so that the next one needs another."""
        return self.checkpoint_seq <= self.request_seq

    def fold(self, rows: Iterable[Row]) -> 'Position':
        for row in rows:
            self.add(row['kind'], row['payload'], row['seq'])
        return self

    def add(self, kind: str, data: dict[str, Any], seq: int) -> None:
        turn = self.turn
        if kind == 'run.registered':
            self.registration = data['registration']
            self.contract = data['registration']['contract']
            self.rounds = data['registration']['completed_rounds']
        elif kind == 'checkpoint.saved':
            self.checkpoint, self.checkpoint_seq = data['checkpoint'], seq
            turn.over = True
        elif kind == 'request.issued':
            self.turn = Turn(request=data['request'], checkpoint=data['checkpoint'], wire=data['wire'])
            self.requests, self.request_seq = data['request'], seq
        elif kind == 'response.kept':
            turn.partial = data['partial']
            turn.response = '' if turn.partial else data['response']
        elif kind == 'response.consumed':
            turn.consumed, turn.call_count = True, data['calls']
        elif kind == 'call.granted':
            turn.calls[data['position']] = Call(data['position'], data['id'], data['args'], data['class'])
            self.tool_calls += 1
        elif kind == 'call.refused':
            turn.calls[data['position']].refused = True
        elif kind == 'call.intended':
            turn.calls[data['position']].intended = True
        elif kind == 'call.returned':
            call = turn.calls[data['position']]
            call.done, call.result, call.failed = True, data['result'], data['failed']
        elif kind == 'command.started':
            self.commands = data['number']
            self.running.add(data['number'])
        elif kind == 'command.finished':
            self.running.discard(data['number'])
        elif kind == 'round.completed':
            self.rounds = data['round']
        elif kind == 'run.completed':
            self.rounds, self.end = data['round'], 'completed'
        elif kind == 'run.failed':
            self.end = 'failed'
        elif kind == 'run.cancelled':
            self.end = 'cancelled'
        elif kind == 'attempt.opened':
            self.end = ''
        elif kind == 'migration.settled':
            turn.over = True
            self.checkpoint, self.checkpoint_seq = data['derived'], seq
            self.tickets += 1
        elif kind == 'refusal.settled':
            turn.over, self.checkpoint_seq = True, seq
        elif kind == 'readonly_observation_recovery':
            turn.over = True
            self.checkpoint, self.checkpoint_seq = data['derived'], seq
        elif kind == 'effect.reconciled':
            self._reconciled(data)

    def _reconciled(self, data: dict[str, Any]) -> None:
        turn = self.turn
        landed = data['outcome'] == 'landed'
        if data['subject'] == 'request' and data['request'] == turn.request:
            turn.response, turn.over = (data['result'], False) if landed else ('', True)
        elif data['subject'] == 'call' and data['position'] in turn.calls:
            call = turn.calls[data['position']]
            if data['outcome'] == 'did_not_happen':
                call.intended = False
            else:
                call.done, call.result = True, data['result']
        elif data['subject'] == 'command':
            self.running.discard(data['number'])
