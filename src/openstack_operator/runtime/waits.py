"""What objects of one kind wait for, and how long: the metrics of it. Used by ``runner``, once for each pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from openstack_operator.runtime import metrics

OTHER = "other"
"""What a wait for something without a kind is counted as: an outside service, a clock."""


class Waits:
    """Of each object, by uid, the conditions that wait now, with the kind that each waits for and since when."""

    def __init__(self, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._kind, self._clock = kind, clock
        self._open: dict[str, dict[str, tuple[str, float]]] = {}

    def observe(self, uid: str, found: Mapping[str, str]) -> None:
        """A pass found these conditions waiting for these kinds. What waits no longer, or for another kind, has ended:
        its seconds are counted."""
        before, now = self._open.get(uid, {}), self._clock()
        after = {name: before.get(name, ("", now)) for name in found}
        after = {name: (on, since) if on == found[name] else (found[name], now) for name, (on, since) in after.items()}
        for name, (on, since) in before.items():
            if after.get(name) != (on, since):
                metrics.WAIT_SECONDS.labels(self._kind, on).observe(now - since)
                metrics.WAITING.labels(self._kind, on).dec()
        for name, (on, since) in after.items():
            if before.get(name) != (on, since):
                metrics.WAITING.labels(self._kind, on).inc()
        self._open[uid] = after

    def forget(self, uid: str) -> None:
        """The object is gone: its waits never ended, so they are not counted."""
        for on, _ in self._open.pop(uid, {}).values():
            metrics.WAITING.labels(self._kind, on).dec()
