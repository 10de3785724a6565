"""The operator, the webhook and the API server: killed, away, hanging, slow. The cloud serves on, and what was asked
for meanwhile is done when they are back.
"""

from __future__ import annotations

import datetime
import time
import zlib
from pathlib import Path

import boundaries
import clocks
import lines
import machinery
import operators
import proxies
import pytest
import session
import small_scene
from clouds import CONTROL_PLANE
from clusters import Object, condition, is_ready
from scene import QUIET, Scene
from small_scene import SmallScene

pytestmark = pytest.mark.usefixtures("again")

GROUP = "operator"
# All that a second cloud on one machine can have: an OVN network needs a node whose switch is its own, and everything
# else needs one.
ENABLED = ("keystone", "glance", "placement")
NOT_SEEN = lines.of("openstack-operator", namespace=operators.OPERATOR_NAMESPACE)
DAEMONS = {
    ("kube-apiserver",): lines.NO_API,
    ("etcd",): lines.NO_STORE,
    ("kube-apiserver", "etcd"): lines.NO_API,
}
AWAY_SECONDS = 15
MOST_RUNS_OF_A_JOB = 1


@pytest.fixture(scope="module")
def undisturbed(seen: list) -> boundaries.End:
    """How a rollout ends that nobody disturbs."""
    session.start()
    with small_scene.played(session.cluster(), "faults-undisturbed", []) as found, boundaries.Watched(found) as watched:
        found.make(ENABLED)
        found.until_whole(time.monotonic())
        return boundaries.End.of(found, watched)


def test_an_operator_killed_at_every_step_ends_the_same(undisturbed: boundaries.End, fresh: SmallScene) -> None:
    """The first process to see a condition become True is killed at that moment, for each one of all the tables."""
    cluster = fresh.cluster
    wanted, killed = boundaries.of(ENABLED), list[str]()
    with (
        boundaries.Watched(fresh) as watched,
        fresh.rollout("operator killed with -9 at every step of a rollout", group=GROUP) as fault,
    ):
        pod = operators.the_pod(cluster)
        pid = machinery.main_process(pod)
        fresh.make(ENABLED)
        left = set(wanted)
        while left and (reached := watched.next()):
            if not left & reached:
                continue
            operators.kill(cluster, pod, pid)
            # It is back after the last one.
            fault.mend()
            killed.append(", ".join(f"{kind} {what}" for kind, what in sorted(left & reached)))
            # What was written before the process ended, and is seen only now, was its last word too.
            left -= reached | watched.so_far()
            pod = operators.the_pod(cluster)
            pid = machinery.main_process(pod)
        fault.counted = f"{len(killed)} kills"
    print(f"killed {len(killed)} times:", *killed, sep="\n  ")
    assert len(killed) >= boundaries.least(ENABLED), killed
    assert left == set(), "these conditions were never seen to become True"
    end = boundaries.End.of(fresh, watched)
    assert {name: count for name, count in end.jobs.items() if count > MOST_RUNS_OF_A_JOB} == {}
    assert end.differences(undisturbed) == []


def test_another_replica_takes_over_from_a_dead_leader(small: SmallScene, again: int) -> None:
    """Within the time of the Lease, and with what was changed meanwhile."""
    cluster = small.cluster
    with operators.scaled(cluster, 2):
        leader = operators.holder(cluster)
        pod = cluster.get("pods", leader, operators.OPERATOR_NAMESPACE)
        lease = cluster.get(*operators.LEASE)["spec"]["leaseDurationSeconds"]
        seconds = 3600 + 60 * (again + 1)
        with small.fault("leader of two operators killed", group=GROUP):
            machinery.kill(machinery.main_process(pod))
            cluster.kubectl("delete", "pod", leader, "-n", operators.OPERATOR_NAMESPACE, "--grace-period=0", "--force")
            small.cloud.set(keystone={"token": {"expirationSeconds": seconds}})
            _until_next_leader(small, leader, 2 * lease)
            _until_configured(small, f"expiration = {seconds}")


def _until_next_leader(small: SmallScene, leader: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while operators.holder(small.cluster) in ("", leader):
        assert time.monotonic() < end, f"nobody took over from {leader} within {seconds} s"
        time.sleep(0.1)


def _until_configured(small: SmallScene, line: str, seconds: float = 60) -> None:
    small.cluster.until(
        "configmaps", "keystone-config-data", small.namespace, lambda item: line in str(item), f"with {line}", seconds
    )


def test_what_is_asked_for_while_the_operator_is_away_is_done_when_it_is_back(small: SmallScene, again: int) -> None:
    """New objects, changes and deletions: nobody is refused for the webhook's sake."""
    cluster, namespace = small.cluster, small.namespace
    cluster.apply(_memcached(namespace, "goes"))
    cluster.until_ready("memcacheds", "goes", namespace)
    seconds = 3600 + 7 * (again + 1)
    with small.fault("operator away, webhook with it", group=GROUP, blames=NOT_SEEN) as fault:
        with operators.scaled(cluster, 0):
            small.cloud.set(keystone={"token": {"expirationSeconds": seconds}})
            cluster.apply(_memcached(namespace, "comes"))
            cluster.delete("memcacheds", "goes", namespace)
            fault.until_blamed()
            time.sleep(AWAY_SECONDS)
            assert small.api.failed(fault.began, time.monotonic()) == []
            fault.mend()
        _until_configured(small, f"expiration = {seconds}")
        cluster.until_ready("memcacheds", "comes", namespace)
        cluster.until_gone("memcacheds", "goes", namespace)
    cluster.delete("memcacheds", "comes", namespace, wait=True)


def _memcached(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "Memcached", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize("daemons", DAEMONS, ids=" and ".join)
def test_the_api_server_and_its_store_may_be_killed(scene: Scene, daemons: tuple[str, ...]) -> None:
    """Case 121. The cloud needs neither to serve, and the operator waits for them where it is."""
    restarts = operators.restarts(scene.cluster)
    name = f"{' and '.join(daemons)} killed with -9, and started again"
    with scene.fault(name, group=GROUP, blames=DAEMONS[daemons], silence=QUIET) as fault:
        machinery.kill_daemons(*daemons)
        try:
            fault.until_blamed()
            time.sleep(AWAY_SECONDS)
            failed = scene.apis.failed(fault.began, time.monotonic())
        finally:
            fault.mend()
            machinery.start_again()
        assert failed == {}
    assert operators.restarts(scene.cluster) == restarts


def test_all_watches_may_be_cut(small: SmallScene, again: int) -> None:
    """What changes right after that is seen all the same, and nobody starts again."""
    restarts = operators.restarts(small.cluster)
    seconds = 3600 + 11 * (again + 1)
    with small.fault("connections of the operator to the API server reset", group=GROUP):
        assert operators.cut_connections(small.cluster) > 5
        small.cloud.set(keystone={"token": {"expirationSeconds": seconds}})
        _until_configured(small, f"expiration = {seconds}")
    assert operators.restarts(small.cluster) == restarts


def test_a_rollout_through_an_api_server_that_refuses_a_fifth_of_all_requests(fresh: SmallScene) -> None:
    """429 with Retry-After, 500 and 503: the rollout ends, nobody starts again, and nobody asks without end."""
    cluster, counts = fresh.cluster, []
    for part in (0.0, 0.2):
        with proxies.Proxy(part, seed=number_of(fresh)) as proxy:
            container = {"name": "operator", "env": proxy.environment}
            with operators.changed(cluster, {"containers": [container]}):
                restarts, before = operators.restarts(cluster), proxy.total
                name = f"API server refuses {part:.0%} of the operator's requests during a rollout"
                with fresh.rollout(name, group=GROUP):
                    fresh.make()
                    fresh.cloud.until_ready()
                assert operators.restarts(cluster) == restarts
                counts.append(proxy.total - before)
                print(f"{part:.0%}: {counts[-1]} requests, answers {dict(proxy.counts)}")
                print(*proxy.by_request.most_common(12), sep="\n")
                cluster.delete(CONTROL_PLANE, small_scene.CLOUD, fresh.namespace, wait=True)
    # The undisturbed one is not a rollout of the table.
    del fresh.records[-2]
    assert counts[1] < 3 * counts[0]


def number_of(scene: SmallScene) -> int:
    """A seed that is another one for each namespace, and the same in each run."""
    return zlib.crc32(scene.namespace.encode())


def test_an_operator_that_hangs_is_ended_by_its_probe(small: SmallScene, again: int) -> None:
    """Stopped in the middle of its work: its Lease expires, its probe ends it, and it goes on where it was."""
    seconds = 3600 + 13 * (again + 1)
    pid = machinery.main_process(operators.the_pod(small.cluster))
    with small.fault("operator hangs", group=GROUP, blames=NOT_SEEN) as fault:
        with machinery.stopped(pid):
            small.cloud.set(keystone={"token": {"expirationSeconds": seconds}})
            fault.until_blamed()
            _until_configured(small, f"expiration = {seconds}", 240)
    assert is_ready(small.cluster.get(CONTROL_PLANE, small_scene.CLOUD, small.namespace))


@pytest.mark.parametrize("seconds", [300, -300], ids=["ahead", "behind"])
def test_the_clock_of_the_operator_may_be_wrong(fresh: SmallScene, tmp_path: Path, seconds: int) -> None:
    """Case 130. By five minutes: its Lease, its tokens and its times to wait hold, and a rollout takes no longer."""
    cluster, where = fresh.cluster, "ahead" if seconds > 0 else "behind"
    with clocks.moved(cluster, tmp_path, seconds):
        restarts = operators.restarts(cluster)
        with fresh.rollout(f"clock of the operator 5 minutes {where} during a rollout", group=GROUP):
            fresh.make()
            fresh.cloud.until_ready()
        ready = condition(fresh.cloud.object, "Ready")["lastTransitionTime"]
        off = datetime.datetime.fromisoformat(ready) - datetime.datetime.now(datetime.UTC)
        assert abs(off.total_seconds() - seconds) < 100, "its clock was not wrong"
        assert operators.restarts(cluster) == restarts
        holder = operators.holder(cluster)
    # The next one has the right clock, and takes the Lease at once, since it is given back.
    assert operators.holder(cluster) != holder
