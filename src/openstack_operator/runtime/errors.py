"""The one tree of errors that steps raise and the runner turns into conditions (STYLE E1).

Raised by steps and by ``client``; caught only by ``runner`` (conditions, requeue) and by the command line.
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the errors below."""


class ApiError(OperatorError):
    """The API server answered with an error status.

    ``status`` is the HTTP code, ``reason`` the machine-readable word of the Status object ("NotFound", "Invalid", …).
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_rejection(self) -> bool:
        """Whether the server finds the request itself wrong, so that the same request can never succeed."""
        # A field that the type does not have is answered with 500 by server-side apply.
        return self.status in (400, 422) or "failed to create typed patch object" in self.message

    @property
    def is_denial(self) -> bool:
        """Whether a policy or a webhook of the cluster's own refused it: it may allow the same request later, and
        nothing tells us."""
        return "denied request" in self.message or "denied the request" in self.message

    @property
    def is_of_ending_namespace(self) -> bool:
        """Whether nothing new can be made in the namespace any more, because it is being deleted."""
        return self.status == 403 and "because it is being terminated" in self.message

    @property
    def is_of_ending_object(self) -> bool:
        """Whether a finalizer was to be added to an object that is being deleted."""
        return self.status == 422 and "no new finalizers can be added if the object is being deleted" in self.message


class ApiUnreachableError(OperatorError):
    """The API server did not answer: refused, cut, silent, or something else answered in its place."""


class WatchSilentError(ApiUnreachableError):
    """An open watch brought nothing for so long that its connection may be dead: it is opened anew, nothing is lost."""


class StepError(OperatorError):
    """An outcome of a step that has a reason (CamelCase) and a message (one line: what, where, for which input)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Waiting(StepError):  # noqa: N818 - an outcome, raised to end a step; nothing went wrong
    """Normal: something else must happen first, and its watch wakes us.

    ``retry_after`` (seconds) is only for things that no watch tells about; it is a promise to look again, not a poll
    inside a step. ``on`` is the kind of the object that is waited for, where it is one.
    """

    def __init__(self, reason: str, message: str, retry_after: float | None = None, *, on: str = "") -> None:
        super().__init__(reason, message)
        self.retry_after = retry_after
        self.on = on


class Stalled(StepError):  # noqa: N818 - an outcome
    """The user must change something: nothing is retried until the object or a watched input changes."""


class Unavailable(StepError):  # noqa: N818 - an outcome
    """An outside service (database, message bus, Keystone) did not answer: retried with exponential back-off."""
