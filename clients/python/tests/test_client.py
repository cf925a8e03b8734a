"""The client's own rules, with a transport that records what is sent."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from typing import Any, Callable

import httpx
import pytest

from forge_continuity import (
    ArgumentRefused, AsyncForge, Forge, RefusedError, UncertainError, UnexpectedAnswer, UnreachableError,
)
from forge_continuity import _wire as wire
from forge_server import ROOT

D = {name: c * 64 for name, c in zip(('candidate_digest', 'journal_digest', 'policy_digest', 'run_digest'), 'abcd')}
V1 = {'acknowledge_no_new_grant': True, 'acknowledge_original_consumption': True, 'acknowledge_renewed_same_attempt_lease': True}
V2 = {**V1, 'acknowledge_unavailable_source_observations': True}
NEVER = {'acknowledge_never_claimed': True, 'acknowledge_same_request_and_attempt': True,
         'acknowledge_original_consumption_and_budgets': True, 'acknowledge_renewed_same_attempt_lease': True}
BOUNDARY = {'acknowledge_reviewed_provider_epoch': True, 'acknowledge_no_original_response_or_tool_replay': True,
            'acknowledge_same_request_and_budgets': True, 'acknowledge_finite_ownership_lease': True}
OBSERVATION = {'acknowledge_unavailable_observation': True, 'acknowledge_no_original_callback_replay': True,
               'acknowledge_same_request_attempt_and_budgets': True, 'acknowledge_finite_ownership_lease': True}
REVIEW: Any = {
    'admissions': 0, 'endpoint': 'https://provider.example/v1', 'executable_identity': 'worker-7', 'executable_probe_report_digest': 'e' * 64,
    'jobs': 0, 'model': 'm-1', 'principal': 'p-1', 'provider_dispatches': 0, 'provider_epoch': '2026-12', 'source_revision': 'r1',
    'source_validator_report_digest': 'f' * 64, 'tool_callbacks': 0, 'wire_digest': '1' * 64, 'wire_length': 10}

BASE = '/api/v1/runs/run-1/invalid-read-continuity'
REQ = f'{BASE}/requests/req-1'

# The twelve methods, in the order of the rules, section 4: how each is called and where it goes.
METHODS: list[tuple[str, dict[str, Any], str, str]] = [
    ('invalid_read_continuity_candidate', {'run_id': 'run-1'}, 'GET', f'{BASE}/candidate'),
    ('request_invalid_read_continuity', {'run_id': 'run-1', 'request_id': 'req-1', 'version': 1, **D, 'valid_for_seconds': 60, **V1}, 'POST', REQ),
    ('invalid_read_continuity', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', REQ),
    ('invalid_read_recovery_candidate', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', f'{REQ}/recovery-candidate'),
    ('request_invalid_read_recovery', {'run_id': 'run-1', 'request_id': 'req-1', 'recovery_id': 'rec-1', **D, 'valid_for_seconds': 60, **NEVER},
     'POST', f'{REQ}/recoveries/rec-1'),
    ('invalid_read_recovery', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', f'{REQ}/recovery'),
    ('rejected_boundary_recovery_candidate', {'run_id': 'run-1', 'request_id': 'req-1', 'review': REVIEW}, 'POST', f'{REQ}/rejected-boundary-candidate'),
    ('request_rejected_boundary_recovery', {
        'run_id': 'run-1', 'request_id': 'req-1', 'recovery_id': 'rec-1', 'candidate_digest': 'a' * 64, 'review': REVIEW,
        'corrective_epoch': '2027-01', 'corrective_validation_digest': '2' * 64, 'valid_for_seconds': 60, **BOUNDARY},
     'POST', f'{REQ}/rejected-boundary-recoveries/rec-1'),
    ('rejected_boundary_recovery', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', f'{REQ}/rejected-boundary-recovery'),
    ('readonly_observation_recovery_candidate', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', f'{REQ}/readonly-observation-candidate'),
    ('request_readonly_observation_recovery', {
        'run_id': 'run-1', 'request_id': 'req-1', 'recovery_id': 'rec-1', 'candidate_digest': 'a' * 64, 'valid_for_seconds': 60, **OBSERVATION},
     'POST', f'{REQ}/readonly-observation-recoveries/rec-1'),
    ('readonly_observation_recovery', {'run_id': 'run-1', 'request_id': 'req-1'}, 'GET', f'{REQ}/readonly-observation-recovery'),
]
SUBMISSIONS = [one for one in METHODS if any(name.startswith('acknowledge') for name in one[1])]
NAMES = [one[0] for one in METHODS]


class Recorder:
    """Answers every request in the same way and keeps them."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]):
        self.answer, self.requests = answer, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer(request)


def client(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[Forge, Recorder]:
    recorder = Recorder(answer)
    return Forge('http://forge.example', 'forge_x', transport=httpx.MockTransport(recorder)), recorder


def ok(_: httpx.Request) -> httpx.Response:
    return httpx.Response(202, json={'receipt': 'r'})


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout('gone', request=request)


@pytest.mark.parametrize('name,arguments,method,path', METHODS, ids=NAMES)
def test_methods_reach_their_routes(name, arguments, method, path):
    """OBS-26, NOCLAIM-12, REFUSED-23, ROBS-22"""
    forge, recorder = client(ok)
    getattr(forge, name)(**arguments)
    (request,) = recorder.requests
    assert (request.method, request.url.path) == (method, path)
    assert request.headers['authorization'] == 'Bearer forge_x'
    if method == 'POST':
        body = json.loads(request.content)
        assert all(body[k] is True for k in arguments if k.startswith('acknowledge'))
        assert not {'run_id', 'request_id', 'recovery_id'} & set(body)
    assert inspect.iscoroutinefunction(getattr(AsyncForge, name))  # both faces have it


def test_every_route_of_a_run_is_reached():
    """The client names every route that the server describes: each fixed word of its address stands in the source."""
    source = inspect.getsource(inspect.getmodule(AsyncForge)) + inspect.getsource(wire)
    spoken = set(re.findall(r"(?<=['/])[a-z0-9-]+(?=['/])", source))
    paths = json.loads((ROOT / 'docs' / 'openapi.json').read_text())['paths']
    words = {word for path in paths if path.startswith('/api/') for word in path.split('/')[3:] if word and not word.startswith('{')}
    assert 'verifications' in words and words <= spoken


def test_credentials():
    forge, recorder = client(ok)
    forge.inspect('run-1', 'a' * 64)
    forge.restore('run-1', 'a' * 64)
    finding = {'blob': 'a' * 64, 'path': '/history/0', 'rule': 'github-pat', 'rule_set': 'b' * 64}
    forge.waive_credential('run-1', 'w-1', **finding)
    run = '/api/v1/runs/run-1'
    assert [(r.method, r.url.path) for r in recorder.requests] == [
        ('GET', f'{run}/checkpoints/{"a" * 64}/inspection'), ('GET', f'{run}/checkpoints/{"a" * 64}/restore'), ('PUT', f'{run}/credential-waivers/w-1')]
    assert json.loads(recorder.requests[2].content) == finding
    with pytest.raises(ArgumentRefused):
        forge.inspect('run-1', 'latest')


def test_verification_by_hand():
    forge, recorder = client(ok)
    forge.verify('run-1', 'v-1', 3)
    (request,) = recorder.requests
    assert (request.method, request.url.path) == ('PUT', '/api/v1/runs/run-1/verifications/v-1')
    assert json.loads(request.content) == {'round': 3}
    for wrong in (0, -1, True, 1.0, '1', None):
        with pytest.raises(ArgumentRefused):
            forge.verify('run-1', 'v-1', wrong)
    assert len(recorder.requests) == 1


def test_version_2_has_its_own_route():
    """OBS-24, OBS-26: nine members, on requests-v2; OBS-25: read back on the route that version 1 has too."""
    forge, recorder = client(ok)
    forge.request_invalid_read_continuity('run-1', 'req-1', version=2, valid_for_seconds=60, **D, **V2)
    forge.invalid_read_continuity('run-1', 'req-1')
    sent, read = recorder.requests
    assert sent.url.path == f'{BASE}/requests-v2/req-1'
    assert json.loads(sent.content) == {**D, **V2, 'version': 2, 'valid_for_seconds': 60}
    assert read.url.path == REQ


@pytest.mark.parametrize('version', [0, 3, '1', 1.0, True, None])
def test_version_is_checked_before_sending(version):
    """OBS-27"""
    forge, recorder = client(ok)
    with pytest.raises(ArgumentRefused) as error:
        forge.request_invalid_read_continuity('run-1', 'req-1', version=version, valid_for_seconds=60, **D, **V1)
    assert error.value.argument == 'version' and recorder.requests == []


@pytest.mark.parametrize('value', [False, None, 1, 'true', 'True', [True], {}], ids=str)
@pytest.mark.parametrize('name,arguments,method,path', SUBMISSIONS, ids=[one[0] for one in SUBMISSIONS])
def test_acknowledgements_are_checked_before_sending(name, arguments, method, path, value):
    """OBS-27: a truthy value that is not the Boolean is refused too, for every acknowledgement of every action."""
    for one in [k for k in arguments if k.startswith('acknowledge')]:
        forge, recorder = client(ok)
        with pytest.raises(ArgumentRefused) as error:
            getattr(forge, name)(**{**arguments, one: value})
        assert error.value.argument == one and recorder.requests == []


def test_version_2_asks_for_the_fourth_acknowledgement():
    """OBS-08, OBS-27; and a version-1 request cannot carry it."""
    forge, recorder = client(ok)
    for version, given in ((2, None), (2, 1), (1, True)):
        with pytest.raises(ArgumentRefused) as error:
            forge.request_invalid_read_continuity('run-1', 'req-1', version=version, valid_for_seconds=60, **D, **V1,
                                                  acknowledge_unavailable_source_observations=given)
        assert error.value.argument == 'acknowledge_unavailable_source_observations'
    assert recorder.requests == []


@pytest.mark.parametrize('value', [0, -1, 7201, 1.5, '60', True, None], ids=str)
@pytest.mark.parametrize('name,arguments,method,path', SUBMISSIONS, ids=[one[0] for one in SUBMISSIONS])
def test_window_is_checked_before_sending(name, arguments, method, path, value):
    forge, recorder = client(ok)
    with pytest.raises(ArgumentRefused) as error:
        getattr(forge, name)(**{**arguments, 'valid_for_seconds': value})
    assert error.value.code == 'window_invalid' and recorder.requests == []


def test_ids_are_made_by_the_caller():
    """NOCLAIM-10: every id is a required argument, and nothing here makes one."""
    for name, arguments, _, _ in METHODS:
        signature = inspect.signature(getattr(Forge, name))
        for one in ('run_id', 'request_id', 'recovery_id'):
            if one in arguments:
                assert signature.parameters[one].default is inspect.Parameter.empty
    forge, recorder = client(ok)
    for bad in ('', '.', '..', 'a/b', 'a' * 65, 'ä', None, 7):
        with pytest.raises(ArgumentRefused):
            forge.invalid_read_recovery('run-1', bad)
        with pytest.raises(ArgumentRefused):
            forge.claim('run-1', bad, 60)
    assert recorder.requests == []


@pytest.mark.parametrize('review', [
    {**REVIEW, 'provider_epoch': 'next one'}, {**REVIEW, 'source_revision': ''}, {**REVIEW, 'jobs': 1}, {**REVIEW, 'jobs': False}, {**REVIEW, 'wire_length': 0}, {**REVIEW, 'wire_digest': 'x'},
    {k: v for k, v in REVIEW.items() if k != 'admissions'}, {**REVIEW, 'more': 1}, None])
def test_review_is_checked_before_sending(review):
    forge, recorder = client(ok)
    with pytest.raises(ArgumentRefused):
        forge.rejected_boundary_recovery_candidate('run-1', 'req-1', review)
    assert recorder.requests == []


BACK = {
    'request_invalid_read_continuity': REQ, 'request_invalid_read_recovery': f'{REQ}/recovery',
    'request_rejected_boundary_recovery': f'{REQ}/rejected-boundary-recovery',
    'request_readonly_observation_recovery': f'{REQ}/readonly-observation-recovery'}


@pytest.mark.parametrize('name,arguments,method,path', SUBMISSIONS, ids=[one[0] for one in SUBMISSIONS])
def test_uncertain_answers_are_read_back_and_not_sent_again(name, arguments, method, path):
    """OBS-25, FLOW-12, NOCLAIM-11, REFUSED-22, REFUSED-24, ROBS-21: one submission, then reads of the same identity only."""
    found = False

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == 'POST':
            return lost(request)
        if found:
            return httpx.Response(200, json={'state': 'queued'})
        return httpx.Response(404, json={'code': 'not_found', 'detail': 'nothing', 'details': {}, 'next': 'look'})

    forge, recorder = client(answer)
    with pytest.raises(UncertainError) as error:
        getattr(forge, name)(**arguments)
    assert [r.method for r in recorder.requests] == ['POST']
    assert error.value.read_back() is None  # START-10: nothing there is no leave to submit again, and nothing here does
    found = True
    assert error.value.read_back().receipt == {'state': 'queued'}
    assert [(r.method, r.url.path) for r in recorder.requests] == [('POST', path), ('GET', BACK[name]), ('GET', BACK[name])]


@pytest.mark.parametrize('answer', [
    lost,
    lambda r: (_ for _ in ()).throw(httpx.RemoteProtocolError('cut', request=r)),
    lambda r: (_ for _ in ()).throw(httpx.WriteError('cut', request=r)),
    lambda r: httpx.Response(502, text='<html>bad gateway</html>'),
    lambda r: httpx.Response(500, json={'code': 'internal', 'detail': 'a fault', 'details': {'id': '7'}, 'next': 'tell'}),
    lambda r: httpx.Response(503, json={'code': 'unavailable', 'detail': 'no answer', 'details': {}, 'next': 'later'}),
], ids=['timeout', 'disconnect', 'write', 'proxy', 'internal', 'unavailable'])
def test_what_is_uncertain(answer):
    forge, recorder = client(answer)
    for call in (lambda: forge.claim('run-1', 'c-1', 60), lambda: forge.append('run-1', 'b-1', 1, [_fact()]),
                 lambda: forge.release('run-1', 'r-1', 1), lambda: forge.open_run('run-1'), lambda: forge.verify('run-1', 'v-1', 1)):
        with pytest.raises(UncertainError):
            call()
    assert len(recorder.requests) == 5  # each once


@pytest.mark.parametrize('answer,error', [
    (lost, UnreachableError), (lambda r: httpx.Response(502, text='x'), UnexpectedAnswer),
    (lambda r: httpx.Response(500, json={'code': 'internal', 'detail': 'a fault'}), RefusedError)])
def test_reads_have_no_uncertain_outcome(answer, error):
    forge, _ = client(answer)
    with pytest.raises(error):
        forge.run('run-1')
    with pytest.raises(error):
        forge.rejected_boundary_recovery_candidate('run-1', 'req-1', REVIEW)


def test_no_connection_is_certain():
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError('refused', request=request)

    forge, _ = client(refuse)
    with pytest.raises(UnreachableError):
        forge.claim('run-1', 'c-1', 60)


def test_busy_is_a_definite_no():
    forge, _ = client(lambda r: httpx.Response(503, json={'code': 'busy', 'detail': 'taken', 'details': {}, 'next': 'wait'}, headers={'retry-after': '1'}))
    with pytest.raises(RefusedError) as error:
        forge.claim('run-1', 'c-1', 60)
    assert (error.value.code, error.value.retry_after) == ('busy', 1.0)


def test_refusals_carry_everything():
    body = {'code': 'digest_stale', 'title': 'Digest stale', 'detail': 'It moved.', 'next': 'Read again.', 'details': {'name': 'run_digest'},
            'status': 412, 'type': '/problems/digest_stale', 'later': 'member'}
    forge, _ = client(lambda r: httpx.Response(412, json=body, headers={'content-type': 'application/problem+json'}))
    with pytest.raises(RefusedError) as error:
        forge.request_invalid_read_continuity('run-1', 'req-1', version=1, valid_for_seconds=60, **D, **V1)
    e = error.value
    assert (e.code, e.message, e.next, e.details, e.status) == ('digest_stale', 'It moved.', 'Read again.', {'name': 'run_digest'}, 412)
    assert 'digest_stale' in str(e) and 'run_digest' in str(e)


def test_redirects_are_not_followed():
    forge, recorder = client(lambda r: httpx.Response(307, headers={'location': 'http://other.example/'}))
    with pytest.raises(UnexpectedAnswer):
        forge.claim('run-1', 'c-1', 60)
    assert len(recorder.requests) == 1


def test_async_face_reads_back():
    async def main() -> None:
        async with AsyncForge('http://forge.example', 'forge_x', transport=httpx.MockTransport(
                lambda r: lost(r) if r.method == 'POST' else httpx.Response(200, json={'state': 'queued'}))) as forge:
            with pytest.raises(UncertainError) as error:
                await forge.request_invalid_read_continuity('run-1', 'req-1', version=1, valid_for_seconds=60, **D, **V1)
            assert (await error.value.read_back()).receipt == {'state': 'queued'}

    asyncio.run(main())


@pytest.mark.parametrize('url', ['', 'forge.example', 'ftp://x', 'http://', 'http://u:p@x', 'http://x?y=1'])
def test_addresses(url):
    with pytest.raises(ArgumentRefused):
        Forge(url, 'forge_x')


def _fact():
    from forge_continuity import Fact
    return Fact('round.completed', {'round': 1})
