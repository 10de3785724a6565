"""What a condition says while it waits: the object that blocks, why, and since when. Pods' statuses are written as
kubelets write them; what cannot be made is refused by the real controllers of Kubernetes."""

from __future__ import annotations

import datetime
from typing import Any

import kubelet
from world import condition, decoded

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import conditions, kinds

QUOTA = kinds.Resource("", "v1", "resourcequotas", "ResourceQuota")
SERVER = "mariadb/server"


async def told(world: Any, *texts: str, name: str = "db", resource: kinds.Resource = ours.MARIADB) -> str:
    """The message of Ready, once it holds the last of the texts; it must hold the others too."""
    item = await world.until_condition(resource, name, "Ready", "False", text=texts[-1])
    found = conditions.find(item, "Ready")
    assert found is not None
    for text in texts:
        assert text in found["message"]
    since = datetime.datetime.fromisoformat(found["lastTransitionTime"])
    made = datetime.datetime.fromisoformat(item["metadata"]["creationTimestamp"])
    assert made <= since <= datetime.datetime.now(datetime.UTC)
    return str(found["message"])


async def test_a_quota_that_lets_no_pod_in_is_told_for_the_workload_that_wants_one(world: Any) -> None:
    await world.create(QUOTA, "none", {"hard": {"pods": "0"}})
    # The quota counts from its first status on.
    await world.until(QUOTA, lambda item: item and item.get("status", {}).get("hard"), "none")
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        message = await told(world, f"StatefulSet {world.namespace}/db: 0 of 1 pods ready: ", "exceeded quota: none")
        assert 'pods "db-0" is forbidden' in message
        await world.delete(QUOTA, "none")
        item = await world.until_condition(ours.MARIADB, "db", "DeploymentReady")
        assert condition(item, "DeploymentReady")[2] == ""


async def test_a_quota_that_stops_a_job_is_told_for_the_job(world: Any) -> None:
    async with world.operator("keystone"):
        await world.create(ours.MARIADB, "mariadb", {})
        await world.create(ours.MEMCACHED, "memcached", {})
        await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
        await world.create(QUOTA, "none", {"hard": {"pods": "0"}})
        await world.until(QUOTA, lambda item: item and item.get("status", {}).get("hard"), "none")
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        texts = (f"Job {world.namespace}/keystone-bootstrap-", "exceeded quota: none")
        await told(world, *texts, name="keystone", resource=ours.KEYSTONE)


async def test_a_crash_is_told_with_its_exit_code_and_last_words_and_without_a_secret(world: Any) -> None:
    world.node.hold(SERVER)
    async with world.operator("mariadb") as operator:
        await world.create(ours.MARIADB, "db", {})
        await told(world, "pod db-0: ")
        password = decoded(await world.get(kinds.SECRET, "db-root"))["password"]
        log = f"starting\n[ERROR] root said {password} to mysql://root:{password}@db\n[ERROR] Aborting\n"
        world.node.statuses[SERVER] = kubelet.crashing(log, 7)
        world.node.held.clear()
        await world.node.look()
        message = await told(
            world,
            "pod db-0: container mariadb: CrashLoopBackOff: exit code 7: [ERROR] root said *** to mysql://root:***@db",
        )
        assert password not in message
        await operator.settle()
        item = await world.get(ours.MARIADB, "db")
        assert password not in str(item["status"])
        assert password not in str(await world.all(kinds.EVENT))


async def test_a_volume_that_nobody_makes_is_told_with_its_class_and_provisioner(world: Any) -> None:
    message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    world.node.statuses[SERVER] = kubelet.unschedulable(message)
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        claim = f"PersistentVolumeClaim {world.namespace}/data-db-0"
        await told(world, f"pod db-0: {claim}: waits for a volume from example.com/none (StorageClass standard)")


async def test_a_cordoned_node_is_told_in_the_schedulers_words(world: Any) -> None:
    message = "0/1 nodes are available: 1 node(s) were unschedulable. preemption: not helpful for scheduling."
    world.node.statuses["memcached/server"] = kubelet.unschedulable(message)
    async with world.operator("memcached"):
        await world.create(ours.MEMCACHED, "cache", {})
        await told(world, f"pod cache-0: Unschedulable: {message}", name="cache", resource=ours.MEMCACHED)


async def test_a_server_that_hangs_is_told_with_what_its_probe_met_and_forgotten_when_it_answers(world: Any) -> None:
    async with world.operator("mariadb") as operator:
        await world.create(ours.MARIADB, "db", {})
        await world.until_condition(ours.MARIADB, "db", "DeploymentReady")
        world.node.statuses[SERVER] = kubelet.unready
        (pod,) = await world.all(kinds.POD)
        await world.api.create(kinds.EVENT, kubelet.unhealthy(pod, "Readiness probe failed: no greeting"))
        await world.node.look()
        await told(world, "pod db-0: container mariadb is not ready yet: Readiness probe failed: no greeting")
        world.node.statuses.clear()
        await world.node.look()
        await world.until_condition(ours.MARIADB, "db", "DeploymentReady")
        await operator.settle()
        item = await world.get(ours.MARIADB, "db")
        assert "greeting" not in str(condition(item, "DeploymentReady"))
