"""The client of the Forge API, one method for each route. ``_sync.py`` is made from this file by ``unasync.py``."""

from __future__ import annotations

import contextlib
import json
from typing import Any, AsyncIterator, Awaitable, Callable, Mapping, Sequence, cast

import httpx

from . import _wire as wire
from . import digest as digests
from .errors import ArgumentRefused, RefusedError, UncertainError, UnexpectedAnswer, UnreachableError
from .types import (
    AppendReceipt, Candidate, Claimed, Fact, Opened, Policy, Registration, ReviewedProviderRejectionV1, Row, Run, Saved,
    VerificationReceipt, Work,
)


class AsyncForge:
    """Speaks to one server with one token. Safe to share between tasks.

    Every id that names a command (run, claim, batch, request and recovery) is made by the caller and should be stored
    before the call. Nothing is ever sent twice by the client itself: see :class:`UncertainError`.
    """

    def __init__(self, base_url: str, token: str, *, timeout: float = 30.0, transport: httpx.AsyncBaseTransport | None = None):
        """``timeout`` is in seconds, for each step of a request; a poll for work gets its waiting time on top."""
        self.base_url = wire.base_url(base_url)
        if not token or not token.isascii() or any(c.isspace() for c in token):
            raise ArgumentRefused('token', 'must be a token as the server issued it')
        self._timeout = timeout
        # Redirects would carry token and body elsewhere; a transport that sends again would be a second submission.
        self._http = httpx.AsyncClient(
            base_url=self.base_url + '/api/v1', timeout=timeout, follow_redirects=False,
            headers={'Authorization': f'Bearer {token}', 'Accept': 'application/json, application/problem+json'},
            transport=transport if transport is not None else httpx.AsyncHTTPTransport(retries=0),
        )

    async def __aenter__(self) -> 'AsyncForge':
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. The client is of no use afterwards."""
        await self._http.aclose()

    async def _send(self, call: wire.Call, read_back: Callable[[], Awaitable[Any]] | None = None, *, wait: float = 0) -> tuple[int, bytes]:
        """Sends once. Returns status and body of a 2xx answer."""
        try:
            async with self._open(call, wait) as response:
                status, headers = response.status_code, dict(response.headers)
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > wire.MAX_ANSWER:
                        raise httpx.ReadError(f'answer longer than {wire.MAX_ANSWER} bytes')
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise UnreachableError(f'{call.what}: {error or type(error).__name__}') from error
        except httpx.HTTPError as error:
            if call.reads:
                raise UnreachableError(f'{call.what}: {error or type(error).__name__}') from error
            raise UncertainError(call.what, read_back) from error
        if 200 <= status < 300:
            return status, bytes(body)
        refusal = wire.problem(status, bytes(body), headers)
        if not call.reads and status >= 500 and (refusal is None or refusal.code in wire.UNTOLD):
            raise UncertainError(call.what, read_back, refusal)
        if refusal is None:
            raise UnexpectedAnswer(f'{call.what}: the server answered {status} without a problem document', status)
        raise refusal

    @contextlib.asynccontextmanager
    async def _open(self, call: wire.Call, wait: float = 0) -> AsyncIterator[httpx.Response]:
        headers = dict(call.headers)
        if call.body is not None:
            headers['Content-Type'] = call.kind
        async with self._http.stream(call.method, call.path, content=call.body, params=dict(call.query) or None, headers=headers,
                                     timeout=httpx.Timeout(self._timeout, read=self._timeout + wait)) as response:
            yield response

    async def _json(self, call: wire.Call, *, wait: float = 0) -> Any:
        status, body = await self._send(call, wait=wait)
        return None if status == 204 else _parse(call, body)

    async def _save(self, call: wire.Call, read_back: Callable[[], Awaitable[Any]] | None = None) -> Saved[Any]:
        status, body = await self._send(call, read_back)
        return Saved(_parse(call, body), body, status == 200)

    # Runs

    async def runs(self, *, after: str = '', limit: int = 100) -> tuple[list[str], str]:
        """Returns run ids after the one named, and what to name for the following page ("" at the end)."""
        page = await self._json(wire.get('/runs', **({'after': after} if after else {}), limit=limit))
        return page['runs'], page['next']

    async def run(self, run_id: str) -> Run:
        """Returns where a run stands now."""
        return cast(Run, await self._json(wire.get(wire.run_path(run_id))))

    async def open_run(self, run_id: str) -> Saved[Opened]:
        """Makes a run that has a salt and no rows, and answers the salt to its opener, again until it is registered."""
        call = wire.Call('PUT', wire.run_path(run_id))
        status, body = await self._send(call, lambda: self._there(wire.get(wire.run_path(run_id))))
        return Saved(_parse(call, body), body, status == 200)

    async def register(self, run_id: str, registration: Registration) -> Saved[AppendReceipt]:
        """Freezes the run. The command's id is the run's."""
        call = wire.send('PUT', wire.run_path(run_id, 'registration'), wire.registration_body(registration))
        return await self._save(call, lambda: self.find_command(run_id, run_id))

    async def put_blob(self, run_id: str, salt: bytes, data: bytes, *, fence: int = 0) -> str:
        """Keeps content of a run and returns the digest that names it. ``fence`` is 0 before the first claim. Putting the
        same bytes again changes nothing."""
        name = digests.blob(salt, data)
        await self.put_digested(run_id, name, data, fence=fence)
        return name

    async def put_digested(self, run_id: str, digest: str, data: bytes, *, fence: int) -> None:
        """Keeps content under a digest that the caller has computed."""
        if len(data) > wire.MAX_BLOB:
            raise ArgumentRefused('data', f'is longer than {wire.MAX_BLOB} bytes', 'payload_too_large')
        path = wire.run_path(run_id, 'blobs', wire.a_digest('digest', digest))
        await self._send(wire.Call('PUT', path, data, 'application/octet-stream', {'Forge-Fence': str(fence)}),
                         lambda: self._there(wire.get(path)))

    async def blob(self, run_id: str, digest: str, *, salt: bytes | None = None) -> bytes:
        """Returns content of a run. With the salt the bytes are checked against their digest."""
        _, data = await self._send(wire.get(wire.run_path(run_id, 'blobs', wire.a_digest('digest', digest))))
        if salt is not None and digests.blob(salt, data) != digest:
            raise UnexpectedAnswer(f'blob {digest} of run {run_id}: the bytes received do not have this digest', 200)
        return data

    async def claim(self, run_id: str, claim_id: str, lease_seconds: int, *, pool: str = '') -> Saved[Claimed]:
        """Takes a queued run. The worker makes ``claim_id`` and stores it before this call; while that claim lives, the same
        id answers the same receipt and salt."""
        body: dict[str, Any] = {'lease_seconds': wire.a_window('lease_seconds', lease_seconds)}
        if pool:
            body['pool'] = wire.an_id('pool', pool)
        call = wire.send('PUT', wire.run_path(run_id, 'claims', wire.an_id('claim_id', claim_id)), body)
        return await self._save(call, lambda: self.find_command(run_id, claim_id))

    async def renew(self, run_id: str, claim_id: str, fence: int, lease_seconds: int) -> int:
        """Lengthens an ordinary lease and returns when it ends now. Repeating it is harmless: no renewal shortens one."""
        call = wire.send('PUT', wire.run_path(run_id, 'claims', wire.an_id('claim_id', claim_id), 'renewal'),
                         {'fence': fence, 'lease_seconds': wire.a_window('lease_seconds', lease_seconds)})
        return int((await self._save(call, lambda: self.run(run_id))).receipt['expires_at'])

    async def release(self, run_id: str, command_id: str, fence: int, *, pool: str = '') -> Saved[AppendReceipt]:
        """Gives a run back at a clean point, to any worker or to those of a pool."""
        call = wire.send('PUT', wire.run_path(run_id, 'releases', wire.an_id('command_id', command_id)),
                         {'fence': fence, 'pool': wire.an_id('pool', pool) if pool else ''})
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def append(self, run_id: str, command_id: str, fence: int, facts: Sequence[Fact]) -> Saved[AppendReceipt]:
        """Reports facts under the fence of the live claim: all of them, or none."""
        call = wire.send('PUT', wire.run_path(run_id, 'batches', wire.an_id('command_id', command_id)), wire.facts_body(facts, fence))
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def retry(self, run_id: str, command_id: str) -> Saved[AppendReceipt]:
        """Opens another attempt of a failed run, within its allowance. Nothing that was spent is given back."""
        call = wire.send('PUT', wire.run_path(run_id, 'retries', wire.an_id('command_id', command_id)), {})
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def put_evidence(self, run_id: str, data: bytes) -> str:
        """Keeps what was found out about something unknown in a run, and returns the digest to name in a reconciliation. An hour
        later it is gone unless one names it. Putting the same bytes again changes nothing."""
        call = wire.Call('POST', wire.run_path(run_id, 'evidence'), data, 'application/octet-stream')
        return str((await self._save(call)).receipt['digest'])

    async def reconcile(
        self, run_id: str, command_id: str, *, subject: str, seq: int, outcome: str, acknowledge_no_replay: bool,
        acknowledge_original_record_unchanged: bool, acknowledge_original_use_charged: bool, acknowledge_unknown_outcome: bool | None = None,
        evidence: str = '', result: str = '', result_length: int = 0, request_id: str = '',
    ) -> Saved[AppendReceipt]:
        """Settles one unknown effect, or an uncertain ticket, once: ``landed`` or ``did_not_happen`` with evidence, or
        ``charged_unknown``, which has an acknowledgement of its own. What is unknown, and how it is named, stands in ``run``."""
        acknowledgements: dict[str, object] = {
            'acknowledge_no_replay': acknowledge_no_replay, 'acknowledge_original_record_unchanged': acknowledge_original_record_unchanged,
            'acknowledge_original_use_charged': acknowledge_original_use_charged}
        if acknowledge_unknown_outcome is not None or outcome == 'charged_unknown':
            acknowledgements['acknowledge_unknown_outcome'] = acknowledge_unknown_outcome
        body = {'acknowledge_unknown_outcome': False, **wire.acknowledged(acknowledgements), 'evidence': evidence, 'outcome': outcome,
                'request_id': request_id, 'result': result, 'result_length': result_length, 'seq': seq, 'subject': subject}
        call = wire.send('PUT', wire.run_path(run_id, 'reconciliations', wire.an_id('command_id', command_id)), body)
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def cancel(self, run_id: str, command_id: str) -> Saved[AppendReceipt]:
        """Stops a run for good."""
        call = wire.send('PUT', wire.run_path(run_id, 'cancellations', wire.an_id('command_id', command_id)), {})
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def verify(self, run_id: str, command_id: str, completed_round: int) -> Saved[VerificationReceipt]:
        """Queues the verification of the newest completed round by hand, as the server does by itself; here a refusal leaves no
        record. A worker takes it with ``claim`` and the pool ``_verification``, then reports ``source.prepared``, the commands of the
        frozen list, and ``verification.finished``."""
        call = wire.send('PUT', wire.run_path(run_id, 'verifications', wire.an_id('command_id', command_id)),
                         {'round': wire.an_integer('completed_round', completed_round, 1, 2**63 - 1)})
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def inspect(self, run_id: str, checkpoint: str) -> dict[str, Any]:
        """Returns a kept checkpoint record as it is stored, after journal, row, digest, bounds, form, counters and credentials were
        checked. Nothing in the answer can be resumed."""
        path = wire.run_path(run_id, 'checkpoints', wire.a_digest('checkpoint', checkpoint), 'inspection')
        return cast('dict[str, Any]', await self._json(wire.get(path)))

    async def restore(self, run_id: str, checkpoint: str) -> dict[str, Any]:
        """Returns what an ordinary restore of this checkpoint would start from. A claim is what takes it."""
        path = wire.run_path(run_id, 'checkpoints', wire.a_digest('checkpoint', checkpoint), 'restore')
        return cast('dict[str, Any]', await self._json(wire.get(path)))

    async def waive_credential(self, run_id: str, command_id: str, *, blob: str, path: str, rule: str, rule_set: str) -> Saved[AppendReceipt]:
        """Lets one finding of one checkpoint pass, once, for an administrator who looked at it."""
        call = wire.send('PUT', wire.run_path(run_id, 'credential-waivers', wire.an_id('command_id', command_id)),
                         {'blob': wire.a_digest('blob', blob), 'path': path, 'rule': rule, 'rule_set': wire.a_digest('rule_set', rule_set)})
        return await self._save(call, lambda: self.find_command(run_id, command_id))

    async def rows(self, run_id: str, *, start: int = 1, limit: int = 1000) -> list[Row]:
        """Returns rows of a run from the given number on."""
        return cast('list[Row]', (await self._json(wire.get(wire.run_path(run_id, 'rows'), **{'from': start}, limit=limit)))['rows'])

    async def all_rows(self, run_id: str) -> AsyncIterator[Row]:
        """Yields every row of a run."""
        start = 1
        while True:
            page = await self.rows(run_id, start=start)
            for row in page:
                yield row
            if not page:
                return
            start += len(page)

    async def find_command(self, run_id: str, command_id: str) -> Row | None:
        """Returns the first row of an accepted command of the run, ``None`` if there is none yet."""
        async for row in self.all_rows(run_id):
            if row.get('command_id') == command_id:
                return row
        return None

    async def export(self, run_id: str, path: str) -> int:
        """Writes a run's export to a file, for ``forge verify``, and returns its length. After an error the file is not whole."""
        call = wire.get(wire.run_path(run_id, 'export'))
        size = 0
        try:
            async with self._open(call) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    refusal = wire.problem(response.status_code, body, dict(response.headers))
                    raise refusal or UnexpectedAnswer(f'{call.what}: the server answered {response.status_code}', response.status_code)
                with open(path, 'wb') as out:
                    async for chunk in response.aiter_bytes():
                        size += out.write(chunk)
        except httpx.HTTPError as error:
            raise UnreachableError(f'{call.what}: {error or type(error).__name__}') from error
        return size

    async def work(self, *, wait_seconds: int = 0, pool: str = '') -> list[Work]:
        """Returns what workers of the pool may claim and waits up to 20 seconds for the first. Nothing is handed out: a claim does
        that."""
        wire.an_integer('wait_seconds', wait_seconds, 0, wire.MAX_WAIT)
        named = {'pool': wire.an_id('pool', pool)} if pool else {}
        answer = await self._json(wire.get('/work', wait_seconds=wait_seconds, **named), wait=wait_seconds)
        return cast('list[Work]', answer['runs'] if answer else [])

    # Factory

    async def factory(self) -> dict[str, Any]:
        """Returns the caller's factory."""
        return cast('dict[str, Any]', await self._json(wire.get('/factory')))

    async def factory_rows(self, *, start: int = 1, limit: int = 1000) -> list[Row]:
        """Returns rows of the factory's own journal from the given number on."""
        return cast('list[Row]', (await self._json(wire.get('/factory/rows', **{'from': start}, limit=limit)))['rows'])

    async def policy(self) -> dict[str, Any]:
        """Returns the continuity policy with its revision and digest."""
        return cast('dict[str, Any]', await self._json(wire.get('/invalid-read-continuity/policy')))

    async def put_policy(self, policy: Policy) -> dict[str, Any]:
        """Sets the policy. ``revision`` is the one that it replaces."""
        call = wire.send('PUT', '/invalid-read-continuity/policy', policy)
        _, body = await self._send(call, self.policy)
        return cast('dict[str, Any]', _parse(call, body))

    async def put_principal(self, command_id: str, principal: str, roles: Sequence[str], *, replaces: int = 0,
                            removed: bool = False, name: str | None = None) -> Any:
        """Sets the roles of a principal, or removes it."""
        body: dict[str, Any] = {'removed': removed, 'replaces': replaces, 'roles': list(roles)}
        if name is not None:
            body['name'] = name
        return await self._factory('PUT', f'/principals/{wire.an_id("principal", principal)}', command_id, body)

    async def put_record(self, command_id: str, kind: str, name: str, digest: str) -> Any:
        """Sets a source, configuration or scope record."""
        path = f'/records/{wire.an_id("kind", kind)}/{wire.an_id("name", name)}'
        return await self._factory('PUT', path, command_id, {'digest': wire.a_digest('digest', digest)})

    async def put_profile(self, command_id: str, profile: Mapping[str, Any]) -> Any:
        """Registers a profile; its id must be new."""
        return await self._factory('PUT', f'/profiles/{wire.an_id("profile", profile.get("id"))}', command_id, dict(profile))

    async def retire_profile(self, command_id: str, profile: str) -> Any:
        """Ends a profile for good."""
        call = wire.Call('DELETE', f'/profiles/{wire.an_id("profile", profile)}', headers={'Idempotency-Key': wire.an_id('command_id', command_id)})
        return (await self._save(call, self.factory)).receipt

    async def put_report(self, data: bytes) -> str:
        """Keeps a qualification or review report and returns its plain SHA-256, by which profiles and reviews name it."""
        name = digests.plain(data)
        await self._send(wire.Call('PUT', f'/reports/{name}', data, 'application/octet-stream'), lambda: self._there(wire.get(f'/reports/{name}')))
        return name

    async def report(self, digest: str) -> bytes:
        """Returns a kept report."""
        return (await self._send(wire.get(f'/reports/{wire.a_digest("digest", digest)}')))[1]

    async def revoke_token(self, token_id: str) -> None:
        """Ends a token."""
        await self._send(wire.Call('DELETE', f'/tokens/{wire.an_id("token_id", token_id)}'), self.factory)

    async def issue_token(self, principal: str, lifetime_seconds: int) -> dict[str, str]:
        """Makes a token, which is shown this once."""
        call = wire.send('POST', '/tokens', {'lifetime_seconds': lifetime_seconds, 'principal': principal})
        return cast('dict[str, str]', (await self._save(call)).receipt)

    async def _factory(self, method: str, path: str, command_id: str, body: Any) -> Any:
        call = wire.send(method, path, body, **{'Idempotency-Key': wire.an_id('command_id', command_id)})
        return (await self._save(call, self.factory)).receipt

    # Continuity: the twelve methods of the rules, section 4

    async def invalid_read_continuity_candidate(self, run_id: str) -> Candidate:
        """Returns what could be admitted for a run now, and every hold. It changes nothing."""
        return cast(Candidate, await self._json(wire.get(wire.continuity_path(run_id, 'candidate'))))

    async def request_invalid_read_continuity(
        self, run_id: str, request_id: str, *, version: int, candidate_digest: str, journal_digest: str, policy_digest: str,
        run_digest: str, valid_for_seconds: int, acknowledge_no_new_grant: bool, acknowledge_original_consumption: bool,
        acknowledge_renewed_same_attempt_lease: bool, acknowledge_unavailable_source_observations: bool | None = None,
    ) -> Saved[dict[str, Any]]:
        """Asks for version 1 or 2 on the exact candidate that was read. The receipt says that a continuation was queued, and
        nothing more. Keep ``request_id`` before calling."""
        route, body = wire.continuity_body(
            version, valid_for_seconds,
            {'candidate_digest': candidate_digest, 'journal_digest': journal_digest, 'policy_digest': policy_digest, 'run_digest': run_digest},
            {'acknowledge_no_new_grant': acknowledge_no_new_grant, 'acknowledge_original_consumption': acknowledge_original_consumption,
             'acknowledge_renewed_same_attempt_lease': acknowledge_renewed_same_attempt_lease},
            acknowledge_unavailable_source_observations)
        path = wire.continuity_path(run_id, route, wire.an_id('request_id', request_id))
        return await self._save(wire.send('POST', path, body), lambda: self._saved(wire.request_path(run_id, request_id)))

    async def invalid_read_continuity(self, run_id: str, request_id: str) -> Saved[dict[str, Any]]:
        """Reads the saved receipt of a request, of either version."""
        return await self._save(wire.get(wire.request_path(run_id, request_id)))

    async def invalid_read_recovery_candidate(self, run_id: str, request_id: str) -> dict[str, Any]:
        """Returns whether a request that failed before any worker claimed it could be recovered. It changes nothing."""
        return cast('dict[str, Any]', await self._json(wire.get(wire.request_path(run_id, request_id, 'recovery-candidate'))))

    async def request_invalid_read_recovery(
        self, run_id: str, request_id: str, recovery_id: str, *, candidate_digest: str, journal_digest: str, policy_digest: str,
        run_digest: str, valid_for_seconds: int, acknowledge_never_claimed: bool, acknowledge_same_request_and_attempt: bool,
        acknowledge_original_consumption_and_budgets: bool, acknowledge_renewed_same_attempt_lease: bool,
    ) -> Saved[dict[str, Any]]:
        """Recovers a request that no worker ever claimed, once. Make and keep ``recovery_id`` before calling."""
        body: dict[str, Any] = {
            **wire.digests({'candidate_digest': candidate_digest, 'journal_digest': journal_digest, 'policy_digest': policy_digest,
                            'run_digest': run_digest}),
            **wire.acknowledged({
                'acknowledge_never_claimed': acknowledge_never_claimed,
                'acknowledge_same_request_and_attempt': acknowledge_same_request_and_attempt,
                'acknowledge_original_consumption_and_budgets': acknowledge_original_consumption_and_budgets,
                'acknowledge_renewed_same_attempt_lease': acknowledge_renewed_same_attempt_lease}),
            'valid_for_seconds': wire.a_window('valid_for_seconds', valid_for_seconds)}
        return await self._recover(run_id, request_id, 'recoveries', 'recovery', recovery_id, body)

    async def invalid_read_recovery(self, run_id: str, request_id: str) -> Saved[dict[str, Any]]:
        """Reads the saved never-claimed recovery of a request."""
        return await self._save(wire.get(wire.request_path(run_id, request_id, 'recovery')))

    async def rejected_boundary_recovery_candidate(
        self, run_id: str, request_id: str, review: ReviewedProviderRejectionV1,
    ) -> dict[str, Any]:
        """Returns whether a request that the provider refused before it admitted anything could be recovered, on that review.
        It saves nothing."""
        call = wire.send('POST', wire.request_path(run_id, request_id, 'rejected-boundary-candidate'), wire.review_body(review))
        _, body = await self._send(wire.Call(call.method, call.path, call.body, reads=True))
        return cast('dict[str, Any]', _parse(call, body))

    async def request_rejected_boundary_recovery(
        self, run_id: str, request_id: str, recovery_id: str, *, candidate_digest: str, review: ReviewedProviderRejectionV1,
        corrective_epoch: str, corrective_validation_digest: str, valid_for_seconds: int, acknowledge_reviewed_provider_epoch: bool,
        acknowledge_no_original_response_or_tool_replay: bool, acknowledge_same_request_and_budgets: bool,
        acknowledge_finite_ownership_lease: bool,
    ) -> Saved[dict[str, Any]]:
        """Recovers a request that the provider refused, once. Make and keep ``recovery_id`` before calling."""
        body: dict[str, Any] = {
            'candidate_digest': wire.a_digest('candidate_digest', candidate_digest), 'review': wire.review_body(review),
            'corrective_epoch': wire.a_label('corrective_epoch', corrective_epoch),
            'corrective_validation_digest': wire.a_digest('corrective_validation_digest', corrective_validation_digest),
            **wire.acknowledged({
                'acknowledge_reviewed_provider_epoch': acknowledge_reviewed_provider_epoch,
                'acknowledge_no_original_response_or_tool_replay': acknowledge_no_original_response_or_tool_replay,
                'acknowledge_same_request_and_budgets': acknowledge_same_request_and_budgets,
                'acknowledge_finite_ownership_lease': acknowledge_finite_ownership_lease}),
            'valid_for_seconds': wire.a_window('valid_for_seconds', valid_for_seconds)}
        return await self._recover(run_id, request_id, 'rejected-boundary-recoveries', 'rejected-boundary-recovery', recovery_id, body)

    async def rejected_boundary_recovery(self, run_id: str, request_id: str) -> Saved[dict[str, Any]]:
        """Reads the saved refused-boundary recovery of a request."""
        return await self._save(wire.get(wire.request_path(run_id, request_id, 'rejected-boundary-recovery')))

    async def readonly_observation_recovery_candidate(self, run_id: str, request_id: str) -> dict[str, Any]:
        """Returns whether a turn whose evidence read could not be kept could be continued. It changes nothing."""
        return cast('dict[str, Any]', await self._json(wire.get(wire.request_path(run_id, request_id, 'readonly-observation-candidate'))))

    async def request_readonly_observation_recovery(
        self, run_id: str, request_id: str, recovery_id: str, *, candidate_digest: str, valid_for_seconds: int,
        acknowledge_unavailable_observation: bool, acknowledge_no_original_callback_replay: bool,
        acknowledge_same_request_attempt_and_budgets: bool, acknowledge_finite_ownership_lease: bool,
    ) -> Saved[dict[str, Any]]:
        """Continues such a turn with the observation marked unavailable, once. Make and keep ``recovery_id`` before calling."""
        body: dict[str, Any] = {
            'candidate_digest': wire.a_digest('candidate_digest', candidate_digest),
            **wire.acknowledged({
                'acknowledge_unavailable_observation': acknowledge_unavailable_observation,
                'acknowledge_no_original_callback_replay': acknowledge_no_original_callback_replay,
                'acknowledge_same_request_attempt_and_budgets': acknowledge_same_request_attempt_and_budgets,
                'acknowledge_finite_ownership_lease': acknowledge_finite_ownership_lease}),
            'valid_for_seconds': wire.a_window('valid_for_seconds', valid_for_seconds)}
        return await self._recover(run_id, request_id, 'readonly-observation-recoveries', 'readonly-observation-recovery', recovery_id, body)

    async def readonly_observation_recovery(self, run_id: str, request_id: str) -> Saved[dict[str, Any]]:
        """Reads the saved read-only observation recovery of a request."""
        return await self._save(wire.get(wire.request_path(run_id, request_id, 'readonly-observation-recovery')))

    async def _recover(self, run_id: str, request_id: str, route: str, back: str, recovery_id: str, body: Any) -> Saved[dict[str, Any]]:
        path = wire.request_path(run_id, request_id, route, wire.an_id('recovery_id', recovery_id))
        return await self._save(wire.send('POST', path, body), lambda: self._saved(wire.request_path(run_id, request_id, back)))

    async def _saved(self, path: str) -> Saved[dict[str, Any]] | None:
        """Reads a saved answer back; ``None`` if nothing stands there yet."""
        try:
            return await self._save(wire.get(path))
        except RefusedError as refusal:
            if refusal.code == 'not_found':
                return None
            raise

    async def _there(self, call: wire.Call) -> bool:
        try:
            await self._send(call)
        except RefusedError as refusal:
            if refusal.code == 'not_found':
                return False
            raise
        return True


def _parse(call: wire.Call, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise UnexpectedAnswer(f'{call.what}: the answer is not JSON', 200) from error
