"""What can go wrong, one type for each thing that a caller does next."""

from __future__ import annotations

from typing import Any, Callable


class ForgeError(Exception):
    """The base of every error of this package."""


class ArgumentRefused(ForgeError, ValueError):
    """An argument that the server would refuse. Nothing was sent. ``argument`` names it, ``code`` is the server's code."""

    def __init__(self, argument: str, message: str, code: str = 'request_malformed'):
        super().__init__(f'{argument}: {message}')
        self.argument = argument
        self.message = message
        self.code = code


class RefusedError(ForgeError):
    """A refusal of the server (RFC 9457): a definite no.

    ``code`` is stable (docs/REFUSALS.md), ``message`` says what is so, ``next`` what can be done, ``details`` are facts by
    name, always text. ``status`` is the HTTP status and ``retry_after`` the seconds of that header, if there was one.
    """

    def __init__(self, *, code: str, message: str, next: str, details: dict[str, str], status: int,
                 retry_after: float | None = None):
        facts = ', '.join(f'{name}={value}' for name, value in sorted(details.items()))
        super().__init__(f'{code}: {message}' + (f' ({facts})' if facts else ''))
        self.code = code
        self.message = message
        self.next = next
        self.details = details
        self.status = status
        self.retry_after = retry_after


class UncertainError(ForgeError):
    """A command was sent, or may have been, and its answer did not arrive: it may or may not stand.

    The client never sends anything twice by itself. ``read_back()`` reads what stands under the same id (a coroutine for
    the async client): the saved answer, or ``None`` if nothing is there *yet*. ``None`` is no leave to choose another id;
    whether to send the identical command again is the caller's decision. ``problem`` is the server's own admission that
    it cannot tell, if that is what arrived.
    """

    def __init__(self, what: str, read_back: Callable[[], Any] | None = None, problem: RefusedError | None = None):
        super().__init__(f'{what}: the answer did not arrive, so whether the command stands is not known')
        self.what = what
        self.problem = problem
        self._read_back = read_back

    def read_back(self) -> Any:
        """Reads what stands under the command's id. For the async client the result has to be awaited."""
        if self._read_back is None:
            raise ForgeError('this command leaves nothing that can be read back; its effect shows in the run')
        return self._read_back()


class UnreachableError(ForgeError):
    """The server did not answer a read, or no connection was made at all: nothing was asked for."""


class UnexpectedAnswer(ForgeError):
    """An answer that no Forge server gives, such as a proxy's page. ``status`` is its HTTP status."""

    def __init__(self, what: str, status: int):
        super().__init__(what)
        self.status = status


class Stopped(ForgeError):
    """The agent must not go on. ``code`` says why, in the words of docs/REFUSALS.md where the server has one:

    ``fence_lost``, ``lease_expired``, ``server_unreachable``, ``allowance_exhausted``, ``sdk_disagrees``,
    ``contract_changed``, ``restore_version_mismatch``, ``unknown_effect``, ``rejected_evidence_read``, ``second_request``,
    ``history_unsupported``, ``round_trip_loss``, ``released``, ``model_unsupported`` or any refusal of an append.
    """

    def __init__(self, code: str, message: str, details: dict[str, str] | None = None):
        facts = ', '.join(f'{name}={value}' for name, value in sorted((details or {}).items()))
        super().__init__(f'{code}: {message}' + (f' ({facts})' if facts else ''))
        self.code = code
        self.message = message
        self.details = dict(details or {})

    @classmethod
    def by(cls, refusal: RefusedError) -> 'Stopped':
        """Returns the stop that a refused append means."""
        return cls(refusal.code, refusal.message, refusal.details)
