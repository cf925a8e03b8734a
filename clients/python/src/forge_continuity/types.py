"""What goes over the wire, as typed dictionaries. A server may send members that are not listed here; they are left alone.

Digests are 64 hex digits, "" for none. Instants are microseconds since 1970 UTC, of the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar

T = TypeVar('T')


@dataclass(frozen=True)
class Saved(Generic[T]):
    """The saved answer to a command, with the bytes that the server keeps. ``repeat`` tells that the same command had been
    accepted before; the bytes are the same then."""

    receipt: T
    body: bytes
    repeat: bool


@dataclass(frozen=True)
class Fact:
    """One thing that the owner of a run reports. ``kind`` and ``data`` are those of a row (docs/FORMATS.md)."""

    kind: str
    data: dict[str, Any]


class Limits(TypedDict):
    attempts: int
    commands: int
    input_tokens: int
    output_tokens: int
    repairs: int
    requests: int
    source_reads: int
    tool_calls: int
    total_tokens: int


class Frozen(TypedDict):
    record: str
    revision: int
    digest: str


class Verification(TypedDict):
    """What automatic verification runs after a completed round: a blob that lists commands, and how many they are."""

    commands: int
    list: str


class _Registration(TypedDict):
    acknowledgement: str
    active_deadline: int
    attempt: int
    completed_rounds: int
    configuration: Frozen
    contract: str
    limits: Limits
    mode: str
    provider_timeout_seconds: int
    reader: str
    runtime: str
    scope: Frozen
    selection: str
    source: Frozen
    task: str
    time_budget: str
    validator: str


class Registration(_Registration, total=False):
    verification: Verification


class Opened(TypedDict):
    opener: str
    run_id: str
    salt: str


class Counters(TypedDict):
    attempt: int
    commands: int
    completed_rounds: int
    input_tokens: int
    limits: Limits
    output_tokens: int
    requests: int
    source_reads: int
    tool_calls: int


class AppendReceipt(TypedDict):
    at: int
    first_seq: int
    hash: str
    last_seq: int


class VerificationReceipt(TypedDict):
    at: int
    code: str
    hash: str
    round: int
    seq: int
    state: str


class ClaimReceipt(TypedDict):
    attempt: int
    binding: str
    checkpoint: str
    claim_id: str
    contract: str
    counters: Counters
    expires_at: int
    fence: int
    fixture: bool
    hash: str
    registration: str
    request_id: str
    run: str
    seq: int
    ticket_version: int


class Claimed(TypedDict):
    claim: ClaimReceipt
    salt: str


class Work(TypedDict):
    pool: str
    request_id: str
    run_id: str


class Hold(TypedDict):
    code: str
    message: str
    next: str
    details: Any


class Candidate(TypedDict):
    attempt: int
    candidate_digest: str
    counters: Counters
    eligible: bool
    holds: list[Hold]
    journal_digest: str
    original_actor: str
    permitted_seconds: int
    policy_digest: str
    policy_revision: int
    run: str
    run_digest: str
    version: int


class Lease(TypedDict):
    claim_id: str
    expires_at: int
    fence: int
    granted: bool
    live: bool
    owner: str
    request_id: str


class Unknown(TypedDict):
    """Something of a run that may have happened, in the words in which a reconciliation names it."""

    number: int
    position: int
    request: int
    request_id: str
    seq: int
    subject: str


class VerificationShown(TypedDict):
    due: bool
    passed: bool
    round: int
    started: int
    state: str
    stopped: bool


class Run(TypedDict, total=False):
    counters: Counters
    custody_digest: str
    end: str
    holds: list[Hold]
    journal_digest: str
    lease: Lease
    now: int
    opener: str
    original_actor: str
    pool: str
    position: str
    registration: Registration
    rules: int
    run_id: str
    run_digest: str
    tickets: list[dict[str, Any]]
    unknown: list[Unknown]
    verification: VerificationShown


class Row(TypedDict, total=False):
    actor: str
    at: int
    blobs: list[str]
    cmd: int
    command: Any
    command_id: str
    command_name: str
    hash: str
    kind: str
    payload: dict[str, Any]
    seq: int


class Policy(TypedDict):
    allow_pre_admission_recovery: bool
    allow_readonly_observation_recovery: bool
    allow_unavailable_source_observations: bool
    enabled: bool
    max_pending_tickets: int
    max_tickets_per_run: int
    max_valid_for_seconds: int
    revision: int
    version: int


class ReviewedProviderRejectionV1(TypedDict):
    """A reviewer's assertion that the provider refused a request before it admitted anything. The four counts are 0."""

    admissions: int
    endpoint: str
    executable_identity: str
    executable_probe_report_digest: str
    jobs: int
    model: str
    principal: str
    provider_dispatches: int
    provider_epoch: str
    source_revision: str
    source_validator_report_digest: str
    tool_callbacks: int
    wire_digest: str
    wire_length: int


CallClass = Literal['evidence_read', 'source_observation', 'pure_read', 'write', 'command', 'network', 'unknown']
"""What running a tool may do. The two first are named by the catalogue and count as source reads."""
