"""Rollouts in a row on one cluster, each with a fault that is drawn by lot at a moment that is drawn by lot: each of
them ends Ready, and none leaves anything behind.

OPENSTACK_OPERATOR_FAULTS_ROLLOUTS says how many there are, OPENSTACK_OPERATOR_FAULTS_SEED which lots are drawn, and
with OPENSTACK_OPERATOR_FAULTS_SIZE=small they are rollouts of a small cloud.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import clouds
import leftovers
import machinery
import operators
import pytest
import records
import scene as whole
import session
from clouds import CONTROL_PLANE, Cloud
from clusters import MANAGED, ClusterError, Object

GROUP = "rollouts"
COUNT = int(os.environ.get("OPENSTACK_OPERATOR_FAULTS_ROLLOUTS", "10"))
SEED = int(os.environ.get("OPENSTACK_OPERATOR_FAULTS_SEED", "1"))
IS_SMALL = os.environ.get("OPENSTACK_OPERATOR_FAULTS_SIZE") == "small"
LONGEST_WAIT_SECONDS = 15 if IS_SMALL else 60
READY_SECONDS = 420
GONE_SECONDS = 240
SETTLE_SECONDS = 150
# A kubelet removes what is left of pods that are gone once a minute.
STEADY_SECONDS = 75

Fault = Callable[[Cloud, random.Random], str]
"""Breaks something, and says what."""


def _operator(cloud: Cloud, lots: random.Random) -> str:
    machinery.kill(machinery.main_process(operators.the_pod(cloud.cluster)))
    return "operator killed with -9"


def _all_pods(cloud: Cloud, lots: random.Random) -> str:
    cloud.cluster.kubectl("delete", "pods", "--all", "-n", cloud.namespace, "--grace-period=0", "--force")
    return "all pods deleted"


def _one_pod(cloud: Cloud, lots: random.Random) -> str:
    names = sorted(cloud.pods())
    if not names:
        return _operator(cloud, lots)
    name = lots.choice(names)
    try:
        machinery.kill_pod(cloud.cluster, cloud.namespace, name)
    except (ClusterError, AssertionError, KeyError):
        return f"{name.rpartition('-')[0]} killed, and it had ended"
    return f"a pod of {name.rpartition('-')[0]} killed with -9"


def _database(cloud: Cloud, lots: random.Random) -> str:
    where = ("-n", cloud.namespace, "--grace-period=0", "--force", "--ignore-not-found")
    cloud.cluster.kubectl("delete", "pod", "mariadb-0", "rabbitmq-0", *where)
    return "mariadb-0 and rabbitmq-0 deleted"


def _daemon(cloud: Cloud, lots: random.Random) -> str:
    name = lots.choice(("kubelet", "containerd", "kube-proxy", "kube-apiserver", "etcd", "kube-controller-manager"))
    machinery.kill_daemons(name)
    machinery.start_again()
    return f"{name} killed with -9 and started again"


def _connections(cloud: Cloud, lots: random.Random) -> str:
    operators.cut_connections(cloud.cluster)
    return "connections of the operator reset"


def _delete_of(kind: str) -> Fault:
    def delete(cloud: Cloud, lots: random.Random) -> str:
        names = sorted(one["metadata"]["name"] for one in cloud.cluster.items(kind, cloud.namespace, MANAGED))
        if not names:
            return _operator(cloud, lots)
        name = lots.choice(names)
        cloud.cluster.delete(kind, name, cloud.namespace)
        return f"one of {kind} deleted"

    return delete


FAULTS: tuple[Fault, ...] = (
    _operator,
    _all_pods,
    _one_pod,
    _database,
    _daemon,
    _connections,
    *map(_delete_of, ("secrets", "configmaps", "jobs", "deployments", "statefulsets", "services")),
)


@pytest.fixture
def rolled(seen: list[records.Record], tmp_path: Path) -> Iterator[tuple[Cloud, list[Object]]]:
    """The cloud that is rolled out again and again, and the objects that it is made of; Ready when it is given and
    when it is given back."""
    session.start()
    cluster = session.cluster()
    if IS_SMALL:
        cloud = Cloud(cluster, "faults-rollouts", "small", clouds_yaml=tmp_path / "clouds.yaml")
        objects = clouds.small(cluster, cloud.namespace)
        cluster.apply(*objects)
        cloud.until_ready()
        yield cloud, objects[1:]
        clouds.remove_namespace(cluster, cloud.namespace)
        return
    cloud = Cloud(cluster, "openstack", "openstack", clouds_yaml=tmp_path / "clouds.yaml")
    found = cloud.object
    metadata = {key: found["metadata"][key] for key in ("name", "namespace")}
    yield cloud, [{key: found[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata}]
    # The first VM, which went with its cloud, is there again for whoever comes next.
    done = session.up("--release", clouds.RELEASE)
    assert done.returncode == 0, done.stdout[-3000:]


def test_rollouts_in_a_row_end_ready_and_leave_nothing(
    rolled: tuple[Cloud, list[Object]], seen: list[records.Record]
) -> None:
    cloud, objects = rolled
    lots = random.Random(SEED)
    # The first one takes with it what users made; after that one is like the other.
    _roll(cloud, objects, None, lots)
    before, (process, resident) = _settled(cloud, {}), leftovers.memory(cloud.cluster)
    deck: list[Fault] = []
    for number in range(1, COUNT + 1):
        if not deck:
            deck = lots.sample(FAULTS, len(FAULTS))
        name, began, back, replaced = _roll(cloud, objects, deck.pop(), lots)
        print(f"seed {SEED}, rollout {number}: {name}: well {back.at - began:.1f} s after it", flush=True)
        seen.append(_record(name, back.at - began, replaced, back.waited(began)))
    after, (process_now, resident_now) = _settled(cloud, before), leftovers.memory(cloud.cluster)
    print(f"operator {process}: {resident} KiB, {process_now}: {resident_now} KiB; {after}")
    assert after == before
    # What the first rollout made it load stays; ten more add caches, and no objects that are gone.
    assert resident_now < 1.25 * resident


def _roll(
    cloud: Cloud, objects: list[Object], fault: Fault | None, lots: random.Random
) -> tuple[str, float, whole.Whole, int]:
    """One rollout: what was broken, when, since when everything is well, and how many of the pods that ran are
    others."""
    cluster, namespace = cloud.cluster, cloud.namespace
    cluster.delete(CONTROL_PLANE, cloud.name, namespace)
    cluster.until_gone(CONTROL_PLANE, cloud.name, namespace, GONE_SECONDS)
    assert cluster.ours(namespace) == []
    cluster.apply(*objects)
    name, pods = "nothing broken", dict[str, tuple[str, int]]()
    if fault is not None:
        time.sleep(lots.uniform(0.5, LONGEST_WAIT_SECONDS))
        pods = cloud.pods()
        name = fault(cloud, lots)
    began = time.monotonic()

    def diagnosis() -> str:
        return f"{name}\n{cluster.diagnosis(namespace)}\n{cluster.operator_log()}"

    def missing() -> list[str]:
        try:
            ready = [] if clouds_ready(cloud) else ["the control plane is not Ready"]
        except (ClusterError, ValueError) as problem:
            ready = [str(problem)]
        return ready + whole.unwell(cluster, namespace)

    back = whole.until_whole(missing, diagnosis, READY_SECONDS)
    assert cloud.token()
    return name, began, back, records.replaced(pods, cloud.pods())


def clouds_ready(cloud: Cloud) -> bool:
    found = cloud.cluster.find(CONTROL_PLANE, cloud.name, cloud.namespace)
    return whole.is_ready(found)


def _settled(cloud: Cloud, wanted: dict[str, int]) -> dict[str, int]:
    """What is counted when nothing is on its way any more, Jobs that follow later included: as wanted, or what stays
    so."""
    cloud.until_all_is_told(READY_SECONDS)
    found, since = _counted(cloud), time.monotonic()
    end = since + SETTLE_SECONDS
    while found != wanted and time.monotonic() < (end if wanted else min(end, since + STEADY_SECONDS)):
        time.sleep(2)
        now = _counted(cloud)
        if now != found:
            found, since = now, time.monotonic()
    return found


def _counted(cloud: Cloud) -> dict[str, int]:
    # Pods of Jobs that are done stay with their Job, unless all pods were deleted: nobody makes them again.
    cloud.cluster.kubectl("delete", "pods", "--all-namespaces", "--field-selector=status.phase=Succeeded")
    return leftovers.counted(cloud.cluster)


def _record(name: str, recovery: float, replaced: int, waited: dict[str, float]) -> records.Record:
    """Without what nobody looks at: there is no reader of `status`, no client and no VM."""
    return records.Record(
        group=GROUP, name=f"rollout: {name}", stage=records.SMALL if IS_SMALL else records.ROLLED, blamed=None, told="",
        is_named=False, lasted=0.0, recovery=round(recovery, 1), failed=None, problems=[], lost=None, silence=None,
        pods=replaced, waited=waited,
    )  # fmt: skip
