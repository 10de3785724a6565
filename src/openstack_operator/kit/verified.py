"""What we have seen outside the cluster's API (databases, virtual hosts, Keystone), so that a no-op pass asks nobody.

A note that ``what`` holds a state with a certain fingerprint, kept in memory and good for a while: after it, and after
a restart, the state is observed again. Losing a note is always safe.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from openstack_operator.runtime.controller import Scope

# The resync of controllers is 600 s: each one looks outside again.
GOOD_SECONDS = 590

FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.3, 10.0
"""What has just come up is there a moment later; what is not there by then may take long."""

_notes: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], tuple[str, float]]] = weakref.WeakKeyDictionary()
_waits: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], float]] = weakref.WeakKeyDictionary()


Told = Callable[[Scope[Any], str, str], None]
"""Hears of everything that was asked about: the scope, what, and its fingerprint."""

_assumed: weakref.WeakKeyDictionary[Any, Told] = weakref.WeakKeyDictionary()


def assume(manager: Any, told: Told) -> None:
    """For a manager that only plans: all that is outside counts as seen, and nothing outside is asked or changed."""
    _assumed[manager] = told


def is_assumed(scope: Scope[Any]) -> bool:
    """Whether nothing outside may be touched."""
    return scope.manager in _assumed


def is_current(scope: Scope[Any], what: str, fingerprint: str) -> bool:
    """Whether ``what`` of this object was seen with this fingerprint not long ago."""
    if told := _assumed.get(scope.manager):
        told(scope, what, fingerprint)
        return True
    note = _notes.get(scope.manager, {}).get((scope.uid, what))
    return note is not None and note[0] == fingerprint and time.monotonic() - note[1] < GOOD_SECONDS


def look_again(scope: Scope[Any], what: str) -> float:
    """Seconds until the next look at something that is not as it should be, and has no watch: each time twice as
    many, until it is noted."""
    waits = _waits.setdefault(scope.manager, {})
    seconds = waits.get((scope.uid, what), FIRST_LOOK_SECONDS)
    waits[(scope.uid, what)] = min(seconds * 2, LAST_LOOK_SECONDS)
    return seconds


def note(scope: Scope[Any], what: str, fingerprint: str) -> None:
    _waits.get(scope.manager, {}).pop((scope.uid, what), None)
    _notes.setdefault(scope.manager, {})[(scope.uid, what)] = (fingerprint, time.monotonic())


def forget(scope: Scope[Any], what: str) -> None:
    _notes.get(scope.manager, {}).pop((scope.uid, what), None)
