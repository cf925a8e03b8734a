"""A living agent is killed at each point of its journal, and what may go on goes on without doing anything twice.

FORGE_LONG=1 kills at every point, the short form at one of each kind that matters. The agent is that of examples/nightly with
real tools and commands; nine turns, then a text. With Pydantic AI 2.55.0 the run is held at its eighth turn by a rejected query and
an operator continues it; with other versions, which have no registered transition, the query is answered instead.
"""

from __future__ import annotations

import pytest

from agents import LONG, SDK, Field
from forge_continuity.journal import INTENTS

CONTINUED = SDK == '2.55.0'
PROMPT = '1.0.0' if CONTINUED else '1.0.1'
LEASE = 20  # seconds; a killed worker's run waits for its end

SHORT = ['acknowledged response.kept', 'acknowledged request.issued', 'acknowledged command.started', 'acknowledged call.refused',
         'spooled round.completed checkpoint.saved', 'acknowledged call.intended', 'spooled command.finished', 'spooled request.issued']
"""Where the short form kills. PostgreSQL gets the first four, other versions of the SDK too."""

PARTS = 8 if LONG else 1
parts = pytest.mark.parametrize('part', range(PARTS))


@pytest.fixture(scope='module')
def unbroken(field: Field):
    """The same run with nobody killed: its points, effects and counters."""
    run = field.register(prompt=PROMPT)
    assert field.work(prompt=PROMPT, take=[run]) == 0
    before = len(field.points(run))
    if CONTINUED:
        assert field.ada.run(run)['position'] == 'held'
        field.admit(run)
        assert field.work('second', take=[run]) == 0
    view = field.ada.run(run)
    assert view['position'] == 'completed' and field.provider_calls(run) == 10
    return {'points': field.points(run), 'until_held': before, 'effects': field.effects(run), 'counters': view['counters']}


def chosen(field: Field, points: list[str], part: int, short: int = 8) -> list[int]:
    """Numbers of the points to kill at, from 1; the short form has at most so many."""
    if LONG:
        return list(range(1, len(points) + 1))[part::PARTS]
    labels = SHORT[:short] if CONTINUED and field.factory.server.store[0] == '--store' else SHORT[:short // 2]
    return [points.index(label) + 1 for label in labels if label in points]


def known(before: list[str]) -> str:
    """What the journal alone tells after a kill: '' if a worker may go on, else the hold (design, section 3)."""
    stands = [label.split(' ')[1:] for label in before if label.startswith('acknowledged')]
    kinds = [kind for one in stands for kind in one]

    def last(kind: str) -> int:
        return max((i for i, k in enumerate(kinds) if k == kind), default=-1)

    if kinds.count('command.started') > kinds.count('command.finished') or kinds.count('call.intended') > kinds.count('call.returned'):
        return 'unknown_effect'
    if last('request.issued') > last('response.kept'):
        return 'model_outcome_unknown'
    if last('call.refused') > last('request.issued'):
        return 'rejected'
    return ''


def finished(field: Field, run: str, unbroken) -> None:
    """The run came to its end, and everything that left or happened did so exactly as often as in the unbroken one."""
    view = field.ada.run(run)
    assert view['position'] == 'completed', (view['position'], field.holds(run))
    assert field.provider_calls(run) == 10
    assert sorted(field.effects(run)) == sorted(unbroken['effects'])
    assert view['counters'] == unbroken['counters']


def held_by(field: Field, run: str, hold: str, label: str) -> None:
    """The run is held by that name."""
    assert field.ada.run(run)['position'] == 'held' and hold in field.holds(run), (label, field.holds(run))


def not_twice(field: Field, run: str, unbroken) -> None:
    """A held run has done a part of the unbroken one, nothing twice."""
    rest = list(unbroken['effects'])
    for one in field.effects(run):
        rest.remove(one)
    assert field.provider_calls(run) <= 10


@parts
def test_another_worker_goes_on(field: Field, unbroken, part):
    """Killed at each point before the run is held. Another worker, with a spool of its own, goes on wherever nothing is unknown; else
    the run is held by name, and nobody claims it."""
    runs = []
    for point in chosen(field, unbroken['points'][:unbroken['until_held']], part):
        run = field.register(prompt=PROMPT)
        assert field.work(prompt=PROMPT, take=[run], lease=LEASE, kill_at=point) == -9
        runs.append((run, known(field.points(run)), field.points(run)[-1]))
        assert len(field.points(run)) == point
    seen, admitted = set(), []
    for run, hold, label in runs:
        field.until_lapsed(run)
    assert field.work('second', prompt=PROMPT, lease=60) == 0  # what it finds announced, without a person
    for run, hold, label in runs:
        seen.add(hold)
        view = field.ada.run(run)
        if hold == 'rejected' or hold == '' and CONTINUED:
            assert view['position'] == 'held', (label, view['position'])
            field.admit(run)
            admitted.append(run)
        elif hold:
            held_by(field, run, hold, label)
            not_twice(field, run, unbroken)
    assert field.work('second', lease=60, take=admitted) == 0
    for run, hold, label in runs:
        if hold in ('', 'rejected'):
            finished(field, run, unbroken)
    assert LONG or {'', 'unknown_effect'} <= seen


@parts
def test_the_same_worker_goes_on_with_its_spool(field: Field, unbroken, part):
    """Killed at each point and started again on the same spool while its claim lives: what was kept is sent first, so that only a
    request on the wire and an effect that had begun are unknown."""
    for point in chosen(field, unbroken['points'][:unbroken['until_held']], part):
        run, spool = field.register(prompt=PROMPT), f'same-{point}'
        assert field.work(prompt=PROMPT, take=[run], lease=120, kill_at=point, spool=spool) == -9
        points = field.points(run)
        # A fact on disk counts as sent, for it will be; an intent that nobody acknowledged announced nothing.
        last = points.pop() if points[-1].startswith('spooled') and points[-1].split(' ')[-1] in INTENTS else points[-1]
        hold = known([p.replace('spooled', 'acknowledged') for p in points if p.startswith('spooled')])
        assert field.work(prompt=PROMPT, run=run, lease=120, spool=spool) == 0  # its spool comes before any other work
        view = field.ada.run(run)
        assert view['position'] in ('held', 'completed'), (last, view['position'])
        if hold in ('unknown_effect', 'model_outcome_unknown'):
            held_by(field, run, hold, last)
            not_twice(field, run, unbroken)
            continue
        if CONTINUED:
            assert view['position'] == 'held'
            field.admit(run)
            assert field.work('second', take=[run]) == 0
        finished(field, run, unbroken)


@pytest.mark.skipif(not CONTINUED, reason='the installed worker is that of 2.55.0')
@parts
def test_the_same_worker_ends_its_continuation(field: Field, unbroken, part):
    """The claim of a continuation lives until its window ends, and so does its owner's right to go on with it: started again on its
    spool, it does, wherever nothing is unknown."""
    continued = unbroken['points'][unbroken['until_held']:]
    for point in chosen(field, continued, part, short=4):
        run, spool = field.register(prompt=PROMPT), f'continued-{point}'
        assert field.work(prompt=PROMPT, take=[run]) == 0
        field.admit(run)
        assert field.work('second', take=[run], kill_at=point, spool=spool) == -9
        done = field.points(run)
        if done[-1].startswith('spooled') and done[-1].split(' ')[-1] in INTENTS:
            done.pop()
        hold = known([p.replace('spooled', 'acknowledged') for p in done if p.startswith('spooled')][unbroken['until_held'] // 2:])
        assert field.work('second', run=run, spool=spool) == 0
        view = field.ada.run(run)
        assert field.kinds(run).count('claim.taken') == 2
        if hold:
            assert view['position'] == 'held' and 'ticket_outstanding' in field.holds(run), (continued[point - 1], field.holds(run))
            not_twice(field, run, unbroken)
        else:
            finished(field, run, unbroken)


@pytest.mark.skipif(not CONTINUED, reason='the installed worker is that of 2.55.0')
@parts
def test_a_killed_continuation_is_never_queued_again(field: Field, unbroken, part):
    """BOUND-08, BOUND-09: whatever the point, a claimed ticket whose worker is gone is uncertain, and no worker gets it."""
    continued = unbroken['points'][unbroken['until_held']:]
    runs = []
    for point in chosen(field, continued, part, short=4):
        run = field.register(prompt=PROMPT)
        assert field.work(prompt=PROMPT, take=[run]) == 0
        field.admit(run, seconds=15)
        if continued[point - 1].split(' ')[0] == 'acknowledged' and continued[point - 1].endswith('run.completed'):
            continue
        assert field.work('second', take=[run], kill_at=point) == -9
        runs.append(run)
    for run in runs:
        field.until_lapsed(run)
    assert field.work('second') == 0
    assert field.work('second', take=runs) == 0  # and not when it is asked for by name
    for run in runs:
        view = field.ada.run(run)
        assert view['position'] == 'held' and view['tickets'][-1]['state'] in ('uncertain', 'claimed'), view
        assert 'ticket_outstanding' in field.holds(run)
        assert field.kinds(run).count('claim.taken') == 2
        not_twice(field, run, unbroken)
