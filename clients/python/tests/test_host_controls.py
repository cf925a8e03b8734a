"""Host controls (BOUND-15): the built `forge serve` as it is installed, and the installed worker adapter with the real SDK and real tools
against it. There are ten, each of its own name.

They say nothing about controller composition, about PostgreSQL's atomicity, about a profile that is installed now, or about any one
retained run (BOUND-17): the factories are fixtures, and so is their profile.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import pytest

from agents import SDK, Field, register
from forge_continuity import Fact, Forge, RefusedError
from living import Life
from provider import Provider, chat

agent, one_store = register.agent, pytest.mark.one_store
pytestmark = pytest.mark.skipif(SDK != '2.55.0', reason='the installed worker is that of 2.55.0')

QUERY = '{"kind":"build_log","target":"nightly","page_size":%d}'
REJECTED, CORRECTED = ('read_run_evidence', QUERY % 50), ('read_run_evidence', QUERY % 10)
DONE = chat(text='done')


def shell(call: str, line: str) -> dict[str, Any]:
    return chat((call, 'run_command', json.dumps({'command': line})))


class Host:
    """One run of the registered agent, held by a rejected query, and the installed worker that continues it."""

    def __init__(self, factory: Any, folder: Any, provider: Provider, name: str = 'host', **registration: Any):
        self.factory, self.provider, self.run = factory, provider, f'run-{name}'
        self.ada: Forge = factory.client('ada')
        self.effects: list[str] = []
        register.register(self.ada, factory.record, self.run, base_url=provider.base_url, **registration)
        self.life = Life(factory, folder / name, None, run=self.run)
        self.work('worker', '1.0.0')
        assert self.view()['position'] == 'held' and self.kinds()[-2:] == ['call.refused', 'worker.failed']

    def work(self, who: str = 'second', prompt: str = '1.0.1') -> None:
        """Takes the run as the worker of that name would, whether or not it may."""
        self.life.work(who, spool=f'{who}-{time.monotonic_ns()}',
                       agent_for=lambda _: (agent.build(self.provider.base_url, prompt), self.effects.append))

    def body(self, seconds: int = 300) -> dict[str, Any]:
        """What asks for version 1 on the candidate as it stands."""
        c = self.ada.invalid_read_continuity_candidate(self.run)
        assert c['eligible'], c['holds']
        return {'version': 1, 'valid_for_seconds': seconds, 'acknowledge_no_new_grant': True, 'acknowledge_original_consumption': True,
                'acknowledge_renewed_same_attempt_lease': True,
                **{name: c[name] for name in ('candidate_digest', 'journal_digest', 'policy_digest', 'run_digest')}}  # type: ignore[literal-required]

    def admit(self, seconds: int = 300) -> Any:
        return self.ada.request_invalid_read_continuity(self.run, f'req-{self.run}', **self.body(seconds)).receipt

    def view(self) -> Any:
        return self.life.view()

    def kinds(self) -> list[str]:
        """The kinds of the run's rows, without the note of a server that started beside: it tells of what is outstanding and changes nothing."""
        return [kind for kind in self.life.kinds() if kind != 'startup.annotated']

    def told(self, request: int) -> dict[str, Any]:
        """What the model was told of its calls in the request of that number, from 0: by the call's id."""
        messages = json.loads(self.provider.bodies[request])['messages']
        return {m['tool_call_id']: json.loads(m['content']) if m['content'][:1] in '{[' else m['content'] for m in messages if m['role'] == 'tool'}

    def append(self, who: str, *facts: Fact) -> str:
        """Reports facts under the newest fence, past the adapter, and returns the code of the refusal."""
        with pytest.raises(RefusedError) as error:
            self.factory.client(who).append(self.run, f'raw-{time.monotonic_ns()}', self.view()['lease']['fence'], facts)
        return str(error.value.code)

    def stopped(self) -> None:
        """The continuation's request left, and nothing of what came back was recorded, given to a tool or tried again."""
        rows = self.kinds()
        assert rows[-1] == 'request.issued' and rows.count('claim.taken') == 2 and not self.effects, rows[-3:]

    def unclaimed(self) -> None:
        """The worker was refused the ticket: nothing was asked and nothing ran."""
        asked, rows = len(self.provider.bodies), self.kinds()
        self.work()
        assert self.kinds() == rows and len(self.provider.bodies) == asked and rows.count('claim.taken') == 1 and not self.effects


@pytest.fixture
def start(factory: Any, tmp_path: Any) -> Callable[..., Host]:
    """Makes held runs over one provider."""
    factory.enable()

    def make(provider: Provider, name: str = 'host', **registration: Any) -> Host:
        return Host(factory, tmp_path, provider, name, **registration)

    return make


def change(host: Host, **policy: Any) -> None:
    """Sets members of the continuity policy."""
    now: Any = host.factory.admin.policy()
    now.pop('policy_digest')
    host.factory.admin.put_policy({**now, **policy})


def test_control_01_idempotency(start):
    """One admission from identical requests sent at once, and the same receipt for the same request at any later time: while the
    ticket waits, and after it was worked off. Other content under the id and the content under another id are refused by name."""
    with Provider([chat(('c1', *REJECTED)), DONE]) as provider:
        host = start(provider)
        body = host.body()
        with ThreadPoolExecutor(4) as pool:
            saved = [one.body for one in pool.map(
                lambda _: host.factory.client('ada').request_invalid_read_continuity(host.run, 'req-1', **body), range(4))]
        assert len(set(saved)) == 1 and host.kinds().count('migration.settled') == 1
        for request, changes, code in (('req-1', {'valid_for_seconds': 299}, 'request_conflict'), ('req-2', {}, 'graph_has_ticket')):
            with pytest.raises(RefusedError) as error:
                host.ada.request_invalid_read_continuity(host.run, request, **{**body, **changes})
            assert error.value.code == code
        host.work()
        rows = host.kinds()
        assert rows[-1] == 'run.completed' and len(provider.bodies) == 2
        assert host.ada.request_invalid_read_continuity(host.run, 'req-1', **body).body == saved[0]
        host.work()
        assert host.kinds() == rows and len(provider.bodies) == 2


def test_control_02_expiry(start):
    """The window ends before a worker comes: it gets nothing. It ends while the provider answers: the answer is not recorded, its
    call does not run, and no worker gets the ticket again."""
    with Provider([chat(('c1', *REJECTED)), chat(('c1', *REJECTED)), chat(('c2', 'list_files', '{"path":"."}')), DONE]) as provider:
        late, slow = start(provider, 'late'), start(provider, 'slow')
        ends = late.admit(seconds=1)['expires_at']
        while late.view()['now'] <= ends:
            time.sleep(0.1)
        late.unclaimed()
        slow.admit(seconds=3)

        def wait() -> None:
            while slow.view()['now'] < slow.view()['lease']['expires_at']:
                time.sleep(0.1)

        provider.on_request = wait
        slow.work()
        provider.on_request = lambda: None
        slow.stopped()
        assert slow.append('second', Fact('worker.failed', {'report': 'a' * 64})) == 'lease_expired'
        slow.work('worker')
        slow.stopped()
        assert slow.view()['position'] == 'held' and len(provider.bodies) == 3


def test_control_03_revoked_authority(start):
    """The original actor loses the right to execute while the continuation's first request is under way: the worker records nothing
    more and runs nothing. A ticket that waited meanwhile is given to nobody, also when the right is back."""
    with Provider([chat(('c1', *REJECTED)), chat(('c1', *REJECTED)), chat(('c2', 'list_files', '{"path":"."}'))]) as provider:
        working, waiting = start(provider, 'working'), start(provider, 'waiting')
        working.admit()
        waiting.admit()
        admin = working.factory.admin
        provider.on_request = lambda: admin.put_principal('revoke', 'ada', ['administrator', 'reader'], replaces=2)
        working.work()
        working.stopped()
        assert working.append('second', Fact('worker.failed', {'report': 'a' * 64})) == 'authority_revoked'
        waiting.unclaimed()
        admin.put_principal('restore', 'ada', ['administrator', 'operator', 'reader'], replaces=3)
        waiting.unclaimed()
        assert len(provider.bodies) == 3


@one_store
def test_control_04_strict_evidence_correction(start):
    """The model sees that its query was invalid, and the strict form of it: ten for a page. A further wrong one is answered before the
    reader begins, and the corrected one alone is read."""
    with Provider([chat(('c1', *REJECTED)), chat(('c2', *REJECTED)), chat(('c3', *CORRECTED)), DONE]) as provider:
        host = start(provider)
        host.admit()
        host.work()
        assert host.view()['position'] == 'completed' and len(provider.bodies) == 4
        invalid = {'status': 'invalid_query'}
        assert host.told(1) == {'c1': invalid} and host.told(2) == {'c1': invalid, 'c2': invalid}
        assert host.told(3)['c3']['status'] == 'ok' and len(host.told(3)['c3']['lines']) == 10
        assert host.effects == ['read_run_evidence build_log']
        for number, body in enumerate(provider.bodies):
            tools = {t['function']['name']: t['function'] for t in json.loads(body)['tools']}
            size = tools['read_run_evidence']['parameters']['properties']['page_size']
            assert (size.get('default'), size.get('maximum')) == (10, 10) or number == 0, size
        assert [(r['payload']['position'], r['payload']['request']) for r in host.life.rows() if r['kind'] == 'call.refused'] == [(0, 1)]


@one_store
def test_control_05_two_new_file_cycles(start):
    """Two further turns with file tools: each call is granted, announced before it runs and kept, and the model sees what the tree has.
    Nothing of the original turn runs."""
    with Provider([chat(('c1', *REJECTED)), chat(('c2', 'list_files', '{"path":"."}')), chat(('c3', 'read_file', '{"path":"build.sh"}')),
                   DONE]) as provider:
        host = start(provider)
        host.admit()
        before = len(host.kinds())
        spent = host.view()['counters']
        announced: list[bool] = []

        class Watched(list[str]):
            def append(self, what: str) -> None:
                announced.append(host.kinds()[-1] == 'call.intended')
                super().append(what)

        host.effects = effects = Watched()
        host.work()
        view, rows = host.view(), host.life.rows()[before:]
        assert view['position'] == 'completed'
        # A read of a file is a tool call like any other; the source reader's allowance is that of list_files and evidence.
        assert view['counters'] == {**spent, 'requests': 4, 'input_tokens': 40, 'output_tokens': 20, 'completed_rounds': 3,
                                    'tool_calls': spent['tool_calls'] + 2, 'source_reads': spent['source_reads'] + 1}
        assert effects == ['list_files .', 'read_file build.sh'] and announced == [True, True]
        calls = [(r['kind'], r['payload']['request']) for r in rows if r['kind'].startswith('call.')]
        assert calls == [(kind, n) for n in (2, 3) for kind in ('call.granted', 'call.intended', 'call.returned')]
        tree = agent.recorded.WORKSPACE
        assert host.told(3)['c2'] == sorted(p.name + '/' * p.is_dir() for p in tree.iterdir())
        assert host.told(3)['c3'] == (tree / 'build.sh').read_text(encoding='utf-8')


@one_store
def test_control_06_two_durable_command_cycles(factory, tmp_path):
    """Two further turns with a command each. The worker's process is killed when the first one's outcome is kept, and started again on
    its spool: it goes on under its claim, runs the second, and does not run the first again. The receipt of before stays as it was."""
    provider = Provider([shell('c0', 'wc -l data/prices.csv'), chat(('c1', *REJECTED)), shell('c2', 'grep -c half data/prices.csv'),
                         shell('c3', 'head -n 1 data/prices.csv'), DONE])
    field = Field(factory, tmp_path, provider)
    try:
        run, ada = field.register(prompt='1.0.0'), field.ada
        assert field.work(prompt='1.0.0', take=[run]) == 0
        old = [r for r in ada.all_rows(run) if r['kind'].startswith('command.')]
        assert ada.run(run)['position'] == 'held' and len(old) == 2
        field.admit(run)
        assert field.work('second', take=[run], spool='mine', kill_label='acknowledged call.returned') == -9
        assert field.work('second', run=run, spool='mine') == 0
        view, rows = ada.run(run), list(ada.all_rows(run))
        assert view['position'] == 'completed' and view['counters']['commands'] == 3 and len(provider.bodies) == 5
        assert field.effects(run) == ['command wc -l data/prices.csv', 'command grep -c half data/prices.csv', 'command head -n 1 data/prices.csv']
        finished = [r for r in rows if r['kind'] == 'command.finished']
        assert [r['payload']['number'] for r in finished] == [1, 2, 3] and [r for r in rows if r['kind'].startswith('command.')][:2] == old
        for row, line in zip(finished, ('wc', 'grep', 'head')):
            assert json.loads(ada.blob(run, row['payload']['receipt']))['command'].startswith(line)
        assert [r['kind'] for r in rows].count('claim.taken') == 2
    finally:
        field.close()


@one_store
def test_control_07_unchanged_allowances_and_attempt(start):
    """Limits, attempt and what was spent are those of before at admission, and the command over the original limit does not start."""
    limits = {'commands': 2}
    with Provider([shell('c0', 'wc -l data/prices.csv'), chat(('c1', *REJECTED)), shell('c2', 'wc -l build.sh'), shell('c3', 'wc -l data/prices.csv'),
                   DONE]) as provider:
        host = start(provider, limits=limits)
        before = host.view()
        receipt = host.admit()
        assert receipt['counters'] == before['counters'] == host.view()['counters'] and before['counters']['commands'] == 1
        assert before['counters']['limits'] == before['registration']['limits'] == {**register.LIMITS, **limits}
        host.work()
        view = host.view()
        assert host.effects == ['command wc -l data/prices.csv', 'command wc -l build.sh'] and len(provider.bodies) == 4
        assert host.life.report()['code'] == 'allowance_exhausted' and host.kinds().count('command.started') == 2
        assert view['counters']['commands'] == 2 and view['counters']['attempt'] == 1 and view['counters']['limits'] == before['counters']['limits']


@one_store
def test_control_08_original_consumption_is_reused(start):
    """The consumed response is neither asked for nor charged again: the continuation's first request carries it, and the record that it
    starts from has its usage once. Consuming it a second time is refused."""
    with Provider([chat(('c1', *REJECTED), usage=(100, 7)), DONE]) as provider:
        host = start(provider)
        before = host.life.rows()
        spent = host.view()['counters']
        receipt = host.admit()
        derived = json.loads(host.life.blob(receipt['derived_checkpoint']))
        assert (derived['usage']['requests'], derived['usage']['input_tokens'], derived['usage']['output_tokens'], derived['usage']['tool_calls']) == (1, 100, 7, 1)
        (consumed,) = [r['payload'] for r in before if r['kind'] == 'response.consumed']
        codes: list[str] = []

        def point(label: str) -> None:
            if label == 'spooled request.issued':  # the worker holds the claim, and the turn that stands is the original one
                host.life.on_point = lambda _: None
                codes.append(host.append('second', Fact('response.consumed', consumed)))

        host.life.on_point = point
        host.work()
        view = host.view()
        assert codes == ['fact_out_of_order'] and view['position'] == 'completed' and len(provider.bodies) == 2
        assert host.life.rows()[:len(before)] == before
        calls = [m for m in json.loads(provider.bodies[1])['messages'] if m['role'] == 'assistant']
        assert [c['id'] for m in calls for c in m['tool_calls']] == ['c1']
        assert view['counters'] == {**spent, 'requests': 2, 'input_tokens': 110, 'output_tokens': 12, 'completed_rounds': 1}


@one_store
def test_control_09_incompatible_policy(start):
    """The policy is turned off under a working continuation: nothing more is recorded or run, also when it is on again. One that waits
    is not claimed under a policy whose window is shorter than its own."""
    with Provider([chat(('c1', *REJECTED)), chat(('c1', *REJECTED)), chat(('c2', 'list_files', '{"path":"."}')), DONE]) as provider:
        working, waiting = start(provider, 'working'), start(provider, 'waiting')
        working.admit()
        provider.on_request = lambda: change(working, enabled=False)
        working.work()
        working.stopped()
        change(working, enabled=True)
        assert working.append('second', Fact('worker.failed', {'report': 'a' * 64})) == 'policy_disabled'
        provider.on_request = lambda: None
        waiting.admit(seconds=300)
        change(waiting, max_valid_for_seconds=60)
        with pytest.raises(RefusedError) as error:
            waiting.factory.client('second').claim(waiting.run, 'by-hand', 60)
        assert error.value.code == 'window_invalid'
        waiting.unclaimed()
        assert len(provider.bodies) == 3


@one_store
def test_control_10_incompatible_contract(start, monkeypatch):
    """A worker whose contract is not the derived one stops before its request leaves. A run that froze another contract than the
    installed code renders is not admitted."""
    with Provider([chat(('c1', *REJECTED)), chat(('c1', *REJECTED))]) as provider:
        host = start(provider)
        host.admit()
        host.work(prompt='1.0.0')  # the description and schema of before the correction
        assert host.life.report()['code'] == 'contract_changed' and len(provider.bodies) == 1 and not host.effects
        assert host.view()['position'] == 'held' and host.view()['tickets'][0]['state'] == 'uncertain'
        monkeypatch.setattr(agent.recorded, 'INSTRUCTIONS', agent.recorded.INSTRUCTIONS + ' Hurry.')
        other = start(provider, 'other')
        c = other.ada.invalid_read_continuity_candidate(other.run)
        assert [h['code'] for h in c['holds']] == ['contract_changed'], c['holds']
        with pytest.raises(RefusedError) as error:
            other.ada.request_invalid_read_continuity(
                other.run, 'req-other', version=1, valid_for_seconds=60, acknowledge_no_new_grant=True, acknowledge_original_consumption=True,
                acknowledge_renewed_same_attempt_lease=True,
                **{name: c[name] for name in ('candidate_digest', 'journal_digest', 'policy_digest', 'run_digest')})  # type: ignore[literal-required]
        assert error.value.code == 'contract_changed'
