"""The work queue of one controller: a key is never worked on twice at once, and no addition is ever lost.

    add_after -> (timer) -> add -> dirty -> (worker) busy -> done
                                    ^                 |
                                    +---- added again while busy: queued when done

Used by ``runner`` only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

BACKOFF_BASE_SECONDS = 0.2
BACKOFF_CAP_SECONDS = 300.0


class Timer(Protocol):
    """What the queue needs of ``asyncio.TimerHandle``; tests bring a clock of their own."""

    def cancel(self) -> None: ...

    def when(self) -> float: ...


class Queue(Generic[K]):
    """Keys to reconcile, with delays and per-key exponential back-off."""

    def __init__(
        self,
        base: float = BACKOFF_BASE_SECONDS,
        cap: float = BACKOFF_CAP_SECONDS,
        later: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        self._base, self._cap = base, cap
        self._later = later
        self._closed = False
        self._dirty: set[K] = set()
        self._busy: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, Timer] = {}
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._dirty)

    @property
    def busy(self) -> int:
        """How many keys workers hold."""
        return len(self._busy)

    @property
    def delayed(self) -> int:
        """How many additions are to come later."""
        return len(self._timers)

    def soon(self, seconds: float) -> int:
        """How many delayed additions are due within so many seconds."""
        limit = asyncio.get_running_loop().time() + seconds
        return sum(timer.when() <= limit for timer in self._timers.values())

    def is_quiet(self, seconds: float) -> bool:
        """Nothing is worked on, and nothing is due within so many seconds."""
        return not self._dirty and not self._busy and not self.soon(seconds)

    def add(self, key: K) -> None:
        """Queues a key now; a pending delayed addition is replaced."""
        if self._closed:
            return
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key not in self._dirty:
            self._dirty.add(key)
            if key not in self._busy:
                self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queues a key later. Of two delayed additions the earlier one counts: an event does not wait for the end of
        a back-off."""
        if self._closed or key in self._dirty:
            return

        def due() -> None:
            self._timers.pop(key, None)
            self.add(key)

        later = self._later or asyncio.get_running_loop().call_later
        timer, pending = later(seconds, due), self._timers.get(key)
        if pending is not None and pending.when() <= timer.when():
            timer.cancel()
            return
        if pending is not None:
            pending.cancel()
        self._timers[key] = timer

    def retry(self, key: K) -> float:
        """Queues a key after its next back-off delay (seconds, with jitter), which is returned."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        # min() on the exponent: 2 ** 1000 would overflow a float long before the cap applies.
        delay = min(self._cap, self._base * 2.0 ** min(count, 32)) * random.uniform(0.9, 1.1)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts at the shortest delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; it is busy until ``done``. Never returns once the queue is closed."""
        key = await self._ready.get()
        self._dirty.discard(key)
        self._busy.add(key)
        self._idle.clear()
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key; additions made meanwhile are due now."""
        self._busy.discard(key)
        if key in self._dirty:
            self._ready.put_nowait(key)
        if not self._busy:
            self._idle.set()

    def close(self) -> None:
        """No key is handed out or taken in any more; what workers hold goes on."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._dirty.clear()
        while not self._ready.empty():
            self._ready.get_nowait()

    async def idle(self) -> None:
        """Returns when no worker holds a key."""
        await self._idle.wait()
