"""What we have seen outside the cluster's API (databases, virtual hosts, Keystone), so that a no-op pass asks nobody.

A note that ``what`` holds a state with a certain fingerprint, kept in memory and good for a while: after it, and after
a restart, the state is observed again. Losing a note is always safe.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

from openstack_operator.runtime.controller import Scope

# The resync of controllers is 600 s: each one looks outside again.
GOOD_SECONDS = 590

_notes: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], tuple[str, float]]] = weakref.WeakKeyDictionary()


def is_current(scope: Scope[Any], what: str, fingerprint: str) -> bool:
    """Whether ``what`` of this object was seen with this fingerprint not long ago."""
    note = _notes.get(scope.manager, {}).get((scope.uid, what))
    return note is not None and note[0] == fingerprint and time.monotonic() - note[1] < GOOD_SECONDS


def note(scope: Scope[Any], what: str, fingerprint: str) -> None:
    _notes.setdefault(scope.manager, {})[(scope.uid, what)] = (fingerprint, time.monotonic())


def forget(scope: Scope[Any], what: str) -> None:
    _notes.get(scope.manager, {}).pop((scope.uid, what), None)
