"""Conditions in metav1.Condition shape: merging what a reconcile found with what stands in status, and the summary.

Pure functions; ``status`` is the only caller that writes the result.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any, Literal

State = Literal["True", "False", "Unknown"]

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"

# Reasons of the runtime itself. Steps bring their own.
REASON_READY = "Ready"
"""Surfaces when a step, or all of them, found everything as it should be."""
REASON_BLOCKED = "Blocked"
"""Surfaces when a step has not run because a condition that it needs is not True."""
REASON_INTERNAL_ERROR = "InternalError"
"""Surfaces when a step failed in a way that nobody foresaw; the log has the traceback."""
REASON_API_ERROR = "ApiError"
"""Surfaces when the API server refused a request of a step."""
REASON_INVALID_SPEC = "InvalidSpec"
"""Surfaces when the stored spec does not fit the type any more."""
REASON_DELETING = "Deleting"
"""Surfaces while the finalizer cleans up."""
REASON_NAME_IN_USE = "NameInUse"
"""Surfaces when a child cannot be made because another object holds its name."""
REASON_SECRET_MISSING = "SecretMissing"
"""Surfaces when a Secret that the user names does not exist."""
REASON_SECRET_KEY_MISSING = "SecretKeyMissing"
"""Surfaces when a Secret that the user names has no such key."""
REASON_SECRET_EMPTY = "SecretEmpty"
"""Surfaces when the key of a Secret that the user names holds nothing."""
REASON_SECRET_NOT_TEXT = "SecretNotText"
"""Surfaces when the key of a Secret that the user names is not UTF-8."""

RESERVED = frozenset({READY, RECONCILING, STALLED})
"""Types that steps cannot have."""

# The API server refuses longer messages (32768); shorter ones keep status readable.
LONGEST_MESSAGE = 1024


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a step found: the condition's state, reason and message. ``stalled``: only the user can go on."""

    state: State
    reason: str
    message: str
    stalled: bool = False

    @property
    def is_true(self) -> bool:
        return self.state == "True"


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(outcomes: Sequence[tuple[str, Outcome]]) -> Outcome:
    """The Ready condition: True when all are; else the one to look at: a stalled one, then an error, then the first
    that waits, named so that the message alone says what is unmet."""

    def rank(entry: tuple[str, Outcome]) -> int:
        outcome = entry[1]
        if outcome.stalled:
            return 0
        if outcome.reason in (REASON_INTERNAL_ERROR, REASON_API_ERROR):
            return 1
        return 3 if outcome.reason == REASON_BLOCKED else 2

    unmet = [entry for entry in outcomes if not entry[1].is_true]
    if not unmet:
        return Outcome("True", REASON_READY, "")
    name, outcome = min(unmet, key=rank)
    return Outcome("False", outcome.reason, f"{name}: {outcome.message}", outcome.stalled)


def build(
    outcomes: Sequence[tuple[str, Outcome]], ready: Outcome, generation: int, previous: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The whole list: Ready, the steps in table order, then kstatus' Reconciling and Stalled.

    ``lastTransitionTime`` moves only where the state changed against ``previous``.
    """
    working = not ready.is_true and not ready.stalled
    everything = [
        (READY, ready),
        *outcomes,
        (RECONCILING, Outcome("True" if working else "False", ready.reason, ready.message if working else "")),
        (STALLED, Outcome("True" if ready.stalled else "False", ready.reason, ready.message if ready.stalled else "")),
    ]
    before = {condition["type"]: condition for condition in previous}
    moment = now()
    result = []
    for name, outcome in everything:
        old = before.get(name)
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == outcome.state else None
        result.append(
            {
                "type": name,
                "status": outcome.state,
                "reason": outcome.reason,
                "message": outcome.message[:LONGEST_MESSAGE],
                "observedGeneration": generation,
                "lastTransitionTime": since or moment,
            }
        )
    return result


def find(item: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """A condition of a cached object, or None."""
    found: list[dict[str, Any]] = (item or {}).get("status", {}).get("conditions") or []
    return next((condition for condition in found if condition["type"] == name), None)


def is_true(item: dict[str, Any] | None, name: str) -> bool:
    """Whether a condition of a cached object, of Kubernetes or ours, is True."""
    condition = find(item, name)
    return condition is not None and condition["status"] == "True"


def is_ready(item: dict[str, Any] | None) -> bool:
    """Whether an object of ours is Ready for the generation that stands in its spec."""
    condition = find(item, READY)
    return (
        item is not None
        and condition is not None
        and condition["status"] == "True"
        and condition.get("observedGeneration") == item["metadata"]["generation"]
        and "deletionTimestamp" not in item["metadata"]
    )
