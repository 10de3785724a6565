"""What is measured: waits by what is waited for, conditions up to a limit."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY

import watching
from openstack_operator.runtime import metrics, waits


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"openstack_operator_{name}", labels)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_is_counted_by_both_kinds_from_its_first_pass_to_the_one_that_finds_it_over() -> None:
    clock = Clock()
    found = waits.Waits("WaitingKind", clock)
    labels = {"kind": "WaitingKind", "on": "MariaDB"}
    found.observe("uid", {"DatabaseReady": "MariaDB"})
    assert value("waiting", **labels) == 1
    clock.now = 3
    found.observe("uid", {"DatabaseReady": "MariaDB"})
    assert (value("waiting", **labels), value("wait_seconds_count", **labels)) == (1, None)
    clock.now = 7
    found.observe("uid", {"DeploymentReady": "Deployment"})
    assert (value("waiting", **labels), value("wait_seconds_sum", **labels)) == (0, 7)
    assert value("waiting", kind="WaitingKind", on="Deployment") == 1


def test_a_wait_for_another_kind_is_another_wait() -> None:
    clock = Clock()
    found = waits.Waits("TurningKind", clock)
    found.observe("uid", {"Ready": "Job"})
    clock.now = 2
    found.observe("uid", {"Ready": "Deployment"})
    clock.now = 5
    found.observe("uid", {})
    sums = [value("wait_seconds_sum", kind="TurningKind", on=kind) for kind in ("Job", "Deployment")]
    assert sums == [2, 3]


def test_what_a_deleted_object_waited_for_is_not_counted() -> None:
    found = waits.Waits("GoneKind")
    found.observe("uid", {"Ready": "Job"})
    found.forget("uid")
    found.forget("never seen")
    labels = {"kind": "GoneKind", "on": "Job"}
    assert (value("waiting", **labels), value("wait_seconds_count", **labels)) == (0, None)


def test_conditions_are_shown_up_to_a_limit_and_the_rest_is_counted() -> None:
    shown = metrics.Conditions(most=2)
    one, two = ("ns", "one"), ("ns", "two")

    def states(kind: str = "LimitedKind") -> dict[tuple[str, str], float]:
        conditions, _ = shown.collect()
        return {
            (sample.labels["name"], sample.labels["condition"]): sample.value
            for sample in conditions.samples
            if sample.labels["kind"] == kind
        }

    def left_out() -> float:
        _, (sample, *_) = (family.samples for family in shown.collect())
        return sample.value

    shown.show("LimitedKind", one, {"Ready": True})
    shown.show("LimitedKind", two, {"Ready": False, "Stalled": True})
    assert states() == {("one", "Ready"): 1, ("two", "Ready"): 0}
    assert left_out() == 1
    shown.show("LimitedKind", one, {})
    shown.show("LimitedKind", two, {"Ready": True, "Stalled": False})
    assert states() == {("two", "Ready"): 1, ("two", "Stalled"): 0}
    assert left_out() == 0
    shown.show("LimitedKind", two, {})
    assert states() == {}


def test_conditions_stand_among_the_metrics_while_their_object_is_there() -> None:
    metrics.CONDITIONS.show("ShownKind", ("ns", "one"), {"Ready": True})
    name = "openstack_operator_condition"
    labels = {"kind": "ShownKind", "namespace": "ns", "name": "one", "condition": "Ready"}
    assert REGISTRY.get_sample_value(name, labels) == 1
    metrics.CONDITIONS.show("ShownKind", ("ns", "one"), {})
    assert REGISTRY.get_sample_value(name, labels) is None


async def test_an_operators_contact_watches_and_waits_can_be_read_from_it(world: Any) -> None:
    async with world.operator():
        await world.create(replicas=1)
        await world.until_ready(status="False")
        assert (value("api_last_contact_timestamp_seconds") or 0) > 0
        assert value("leader") == 1
        await watching.eventually(lambda: value("queue_depth", kind="Toy") == 0, "the queue is empty")
