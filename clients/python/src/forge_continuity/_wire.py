"""What both faces of the client share: how a call is checked, what an answer means. Nothing here sends."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence
from urllib.parse import urlsplit

from . import canonical, digest
from .errors import ArgumentRefused, RefusedError
from .types import Fact, Registration, ReviewedProviderRejectionV1

MAX_ANSWER = 32 << 20
"""The most bytes of an answer that is read into memory. Exports are streamed to a file and have no bound here."""

MAX_BLOB = 16 << 20
"""The most bytes of one blob."""

MAX_WINDOW = 7200
"""The longest lease window in seconds."""

MAX_WAIT = 20
"""The longest poll for work in seconds."""

UNTOLD = ('internal', 'unavailable')
"""Codes with which a server says that it cannot tell what became of a command."""


@dataclass(frozen=True)
class Call:
    """One request. ``path`` is below /api/v1. A call that ``reads`` has no outcome that could be uncertain."""

    method: str
    path: str
    body: bytes | None = None
    kind: str = 'application/json'
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    reads: bool = False

    @property
    def what(self) -> str:
        return f'{self.method} {self.path}'


def get(path: str, **query: int | str) -> Call:
    return Call('GET', path, query={name: str(value) for name, value in query.items()}, reads=True)


def send(method: str, path: str, value: Any, **headers: str) -> Call:
    return Call(method, path, canonical.encode(value), headers=headers)


def base_url(text: str) -> str:
    """Checks the server's address and returns it without a slash at its end."""
    parts = urlsplit(text)
    if parts.scheme not in ('http', 'https') or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ArgumentRefused('base_url', 'must be of the form http://host:port')
    return text.rstrip('/')


def problem(status: int, body: bytes, headers: Mapping[str, str]) -> RefusedError | None:
    """Reads a problem document; ``None`` if it is none."""
    try:
        p = json.loads(body)
        code, details = p['code'], p.get('details') or {}
    except (ValueError, TypeError, KeyError, AttributeError, UnicodeDecodeError):
        return None
    if not isinstance(code, str) or not code:
        return None
    if isinstance(details, list):
        details = {str(one.get('name')): one.get('value') for one in details if isinstance(one, dict)}
    wait: float | None = None
    try:
        wait = float(headers.get('retry-after', ''))
    except ValueError:
        pass
    return RefusedError(code=code, message=str(p.get('detail') or p.get('title') or code), next=str(p.get('next') or ''),
                        details={str(k): str(v) for k, v in dict(details).items()}, status=status, retry_after=wait)


# Checks. Each raises ArgumentRefused before anything is sent.


def an_id(name: str, value: object) -> str:
    if not digest.is_id(value):
        raise ArgumentRefused(name, 'must be 1 to 64 of A-Z a-z 0-9 . _ -, made and kept by the caller')
    return str(value)


def a_digest(name: str, value: object) -> str:
    if not digest.is_digest(value):
        raise ArgumentRefused(name, 'must be 64 lower-case hex digits')
    return str(value)


def an_integer(name: str, value: object, low: int, high: int, code: str = 'request_malformed') -> int:
    if type(value) is not int or not low <= value <= high:  # a Boolean is no integer here
        raise ArgumentRefused(name, f'must be an integer from {low} to {high}', code)
    return value


def a_window(name: str, value: object) -> int:
    return an_integer(name, value, 1, MAX_WINDOW, 'window_invalid')


def acknowledged(given: Mapping[str, object]) -> dict[str, bool]:
    """Lets the Boolean True through and nothing else: 1, "true" and None are no acknowledgement."""
    for name, value in given.items():
        if value is not True:
            raise ArgumentRefused(name, 'must be the Boolean True; nothing else is an acknowledgement',
                                  'acknowledgement_missing' if value is None or value is False else 'request_malformed')
    return {name: True for name in given}


def a_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ArgumentRefused(name, 'must be a text that is not empty')
    return value


def a_label(name: str, value: object) -> str:
    if not digest.is_label(value):
        raise ArgumentRefused(name, 'must be 1 to 128 of A-Z a-z 0-9 . _ / -')
    return str(value)


DIGESTS = ('candidate_digest', 'journal_digest', 'policy_digest', 'run_digest')


def digests(given: Mapping[str, object]) -> dict[str, str]:
    return {name: a_digest(name, given[name]) for name in DIGESTS}


def run_path(run_id: object, *rest: str) -> str:
    return '/'.join(('/runs', an_id('run_id', run_id), *rest))


def continuity_path(run_id: object, *rest: str) -> str:
    return run_path(run_id, 'invalid-read-continuity', *rest)


def request_path(run_id: object, request_id: object, *rest: str) -> str:
    return continuity_path(run_id, 'requests', an_id('request_id', request_id), *rest)


def facts_body(facts: Sequence[Fact], fence: int) -> dict[str, Any]:
    if not facts:
        raise ArgumentRefused('facts', 'a batch has at least one fact')
    return {'facts': [{'data': f.data, 'kind': f.kind} for f in facts], 'fence': an_integer('fence', fence, 0, 2**63 - 1)}


def continuity_body(version: object, valid_for_seconds: object, given_digests: Mapping[str, object],
                    acknowledgements: Mapping[str, object], observations: object) -> tuple[str, dict[str, Any]]:
    """Returns the route's last segment but one and the body of a continuity request (rules, section 3)."""
    if type(version) is not int or version not in (1, 2):
        raise ArgumentRefused('version', 'must be the integer 1 or 2', 'version_mismatch')
    wanted = dict(acknowledgements)
    if version == 2:
        wanted['acknowledge_unavailable_source_observations'] = observations
    elif observations is not None:
        raise ArgumentRefused('acknowledge_unavailable_source_observations', 'belongs to version 2', 'version_mismatch')
    body: dict[str, Any] = {**digests(given_digests), **acknowledged(wanted), 'version': version,
                            'valid_for_seconds': a_window('valid_for_seconds', valid_for_seconds)}
    return ('requests' if version == 1 else 'requests-v2'), body


_REVIEW_TEXTS = ('endpoint', 'model', 'principal')
_REVIEW_LABELS = ('executable_identity', 'provider_epoch', 'source_revision')
_REVIEW_DIGESTS = ('executable_probe_report_digest', 'source_validator_report_digest', 'wire_digest')
_REVIEW_COUNTS = ('admissions', 'jobs', 'provider_dispatches', 'tool_callbacks')


def review_body(review: ReviewedProviderRejectionV1) -> dict[str, Any]:
    members = {*_REVIEW_TEXTS, *_REVIEW_LABELS, *_REVIEW_DIGESTS, *_REVIEW_COUNTS, 'wire_length'}
    if not isinstance(review, dict) or set(review) != members:
        raise ArgumentRefused('review', 'must have exactly the members of ReviewedProviderRejectionV1')
    body: dict[str, Any] = dict(review)
    for name in _REVIEW_TEXTS:
        a_text(f'review.{name}', body[name])
    for name in _REVIEW_LABELS:
        a_label(f'review.{name}', body[name])
    for name in _REVIEW_DIGESTS:
        a_digest(f'review.{name}', body[name])
    for name in _REVIEW_COUNTS:
        an_integer(f'review.{name}', body[name], 0, 0, 'review_counts_not_zero')
    an_integer('review.wire_length', body['wire_length'], 1, 2**63 - 1)
    return body


def registration_body(registration: Registration) -> dict[str, Any]:
    if not isinstance(registration, dict):
        raise ArgumentRefused('registration', 'must be a dictionary')
    return {'registration': dict(registration)}
