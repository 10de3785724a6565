"""The work queue under every order of additions, workers and time: no key twice at once, no addition lost."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openstack_operator.runtime.queue import Queue

KEYS = st.integers(0, 3)


@dataclasses.dataclass
class Alarm:
    """A timer of the clock below."""

    due: float
    ring: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def when(self) -> float:
        return self.due


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.alarms: list[Alarm] = []

    def later(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        self.alarms.append(Alarm(self.now + seconds, ring))
        return self.alarms[-1]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = sorted((a for a in self.alarms if a.due <= self.now), key=Alarm.when)
        self.alarms = [alarm for alarm in self.alarms if alarm.due > self.now]
        for alarm in due:
            if not alarm.is_cancelled:
                alarm.ring()


def take(queue: Queue[int]) -> int | None:
    """The next key, or None when a worker would have to wait."""
    if queue._ready.empty():
        return None
    try:
        queue.get().send(None)
    except StopIteration as found:
        key: int = found.value
        return key
    raise AssertionError("a key is there, and getting it waits")


class Orders(RuleBasedStateMachine):
    """Compares the queue with what must hold: `due` maps each key that was added to when it must be handed out at the
    latest."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue: Queue[int] = Queue(later=self.clock.later)
        self.due: dict[int, float] = {}
        self.busy: set[int] = set()

    def expect(self, key: int, when: float) -> None:
        self.due[key] = min(when, self.due.get(key, when))

    @rule(key=KEYS)
    def add(self, key: int) -> None:
        self.queue.add(key)
        self.expect(key, self.clock.now)

    @rule(key=KEYS, seconds=st.floats(0, 100))
    def add_after(self, key: int, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.expect(key, self.clock.now + seconds)
        self.clock.advance(0)

    @rule(key=KEYS)
    def retry(self, key: int) -> None:
        self.expect(key, self.clock.now + self.queue.retry(key))

    @rule(seconds=st.floats(0, 50))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def work(self) -> None:
        key = take(self.queue)
        available = {key for key, when in self.due.items() if when <= self.clock.now} - self.busy
        if key is None:
            assert not available, "an addition was lost"
            return
        assert key in available, "handed out twice, too early, or for no addition"
        del self.due[key]
        self.busy.add(key)

    @rule(key=KEYS)
    def finish(self, key: int) -> None:
        if key in self.busy:
            self.busy.discard(key)
            self.queue.done(key)

    @invariant()
    def counts_are_right(self) -> None:
        assert self.queue.busy == len(self.busy)
        assert len(self.queue) == len([when for when in self.due.values() if when <= self.clock.now])

    def teardown(self) -> None:
        """In the end everything that was added is handed out."""
        for key in self.busy:
            self.queue.done(key)
        self.busy.clear()
        self.clock.advance(1000)
        while (key := take(self.queue)) is not None:
            del self.due[key]
            self.queue.done(key)
        assert not self.due, "an addition was lost"


Orders.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
test_no_key_is_worked_on_twice_at_once_and_no_addition_is_lost = Orders.TestCase


def test_delays_grow_up_to_a_cap_and_start_anew_after_a_success() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(base=1, cap=10, later=clock.later)
    delays = [queue.retry("a") for _ in range(6)]
    for delay, expected in zip(delays, [1, 2, 4, 8, 10, 10], strict=True):
        assert delay == pytest.approx(expected, rel=0.101)
    queue.forget("a")
    assert queue.retry("a") == pytest.approx(1, rel=0.101)


def test_an_event_does_not_wait_for_the_end_of_a_back_off() -> None:
    clock = Clock()
    queue: Queue[int] = Queue(later=clock.later)
    queue.add_after(1, 300)
    queue.add_after(1, 0.02)
    clock.advance(0.02)
    assert take(queue) == 1
    queue.done(1)
    clock.advance(1000)
    assert take(queue) is None, "the longer delay was replaced"


def test_a_closed_queue_hands_out_nothing_and_takes_nothing() -> None:
    clock = Clock()
    queue: Queue[int] = Queue(later=clock.later)
    queue.add(1)
    queue.add_after(2, 1)
    queue.close()
    queue.add(3)
    queue.add_after(4, 1)
    clock.advance(10)
    assert take(queue) is None


async def test_it_is_idle_when_no_worker_holds_a_key() -> None:
    queue: Queue[int] = Queue()
    await queue.idle()
    queue.add(1)
    queue.add(2)
    held = [await queue.get(), await queue.get()]
    waiting = asyncio.ensure_future(queue.idle())
    queue.done(held[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(held[1])
    await waiting
