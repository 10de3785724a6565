"""What the status of a real cloud goes through, recorded by watches: from nothing to Ready, in a rollout, and while
its database hangs. On a small cloud of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import clouds
import pytest
from clusters import Cluster, Object, condition
from recorder import Recorder

import recording
from openstack_operator.kit import kinds

KINDS = (kinds.CONTROL_PLANE, kinds.MARIADB, kinds.RABBITMQ, kinds.MEMCACHED, kinds.KEYSTONE)
HANGING_SECONDS = 90


@pytest.fixture(scope="module")
def rollout(cluster: Cluster) -> Iterator[tuple[clouds.Cloud, Recorder]]:
    """A cloud that has just got Ready, and what was seen of it until then."""
    name = f"e2e-{uuid.uuid4().hex[:12]}"
    namespace, control_plane = clouds.small(cluster, name)
    cluster.apply(namespace)
    cloud, recorder = clouds.Cloud(cluster, name, "small"), Recorder(cluster, name, KINDS)
    with recorder.running():
        cluster.apply(control_plane)
        cloud.until_ready()
    yield cloud, recorder
    clouds.remove_namespace(cluster, name, wait=False)


def moved(recorder: Recorder) -> dict[recording.Place, list[str]]:
    """The conditions that did not stay as they were."""
    return {place: states for place, states in recorder.seen.states.items() if len(states) > 1}


def test_a_cloud_that_comes_up_goes_forward_only_and_tells_each_step_once(
    rollout: tuple[clouds.Cloud, Recorder],
) -> None:
    _, recorder = rollout
    assert {kind for kind, _, _ in recorder.seen.states} == {one.kind for one in KINDS}
    assert recorder.seen.flaps() == {}
    assert recorder.seen.unfinished() == []
    assert recorder.events == recorder.seen.steps()


def test_in_a_rollout_what_rolls_goes_down_and_up_once_and_nothing_else_moves(
    rollout: tuple[clouds.Cloud, Recorder],
) -> None:
    cloud, _ = rollout
    recorder = Recorder(cloud.cluster, cloud.namespace, KINDS)
    with recorder.running():
        cloud.set(keystone={"customServiceConfig": "[token]\nallow_expired_window = 4242\n"})
        cloud.cluster.until_ready("keystones", "keystone", cloud.namespace, clouds.READY_SECONDS)
        cloud.until_settled()
    up, down = ["True", "False", "True"], ["False", "True", "False"]
    found = moved(recorder)
    assert ("Keystone", "keystone", "DeploymentReady") in found
    # The client pod needs Keystone.
    rolls = {"Keystone": None, "OpenStackControlPlane": {"Ready", "KeystoneReady", "ClientReady", "Reconciling"}}
    for (kind, name, condition_type), states in found.items():
        assert kind in rolls, (kind, name, condition_type, states)
        assert condition_type in (rolls[kind] or {condition_type}), (kind, name, condition_type, states)
        # What needs a condition that is not True is Unknown meanwhile.
        plain = [state for state, _ in itertools.groupby("False" if one == "Unknown" else one for one in states)]
        assert plain == (down if condition_type == "Reconciling" else up), (kind, name, condition_type, states)


def _pid(pod: Object, program: str) -> int:
    """The process of a pod on this machine."""
    uid = pod["metadata"]["uid"]
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "comm").read_text().strip() == program:
                groups = (process / "cgroup").read_text()
                if uid in groups or uid.replace("-", "_") in groups:
                    return int(process.name)
    raise AssertionError(f"no {program} of pod {pod['metadata']['name']}")


def test_a_database_that_hangs_is_named_by_the_cloud_and_nothing_else_is_blamed(
    rollout: tuple[clouds.Cloud, Recorder],
) -> None:
    cloud, _ = rollout
    cloud.until_ready()
    server = _pid(cloud.cluster.get("pods", "mariadb-0", cloud.namespace), "mariadbd")
    recorder = Recorder(cloud.cluster, cloud.namespace, KINDS)
    with recorder.running():
        os.kill(server, signal.SIGSTOP)
        try:
            item = cloud.cluster.until(
                clouds.CONTROL_PLANE, cloud.name, cloud.namespace,
                lambda found: "does not answer" in condition(found, "Ready")["message"],
                "Ready names what hangs", HANGING_SECONDS,
            )  # fmt: skip
        finally:
            os.kill(server, signal.SIGCONT)
        cloud.until_ready()
    message = condition(item, "Ready")["message"]
    assert message.startswith(f"MariaDBReady: MariaDB {cloud.namespace}/mariadb: DeploymentReady: ")
    assert "pod mariadb-0: container mariadb is not ready yet: Readiness probe failed: port 3306" in message
    assert {place[0] for place in moved(recorder)} == {"MariaDB", "OpenStackControlPlane"}
    assert {name for kind, _, name in moved(recorder) if kind == "OpenStackControlPlane"} == {
        "Ready", "MariaDBReady", "Reconciling",
    }  # fmt: skip
