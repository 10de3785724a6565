"""Cells that wait, move, or have nobody in a part of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import test_nova
from world import condition, decoded, states

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import errors, kinds

nova_installed = test_nova.nova_installed

FAKE = {"driver": "Fake"}
NODE = "openstack.k8s.io/compute"
PART = {
    "messagingSecretRef": {"name": "mq"},
    "serviceUserSecretRef": {"name": "user"},
    "authUrl": "http://keystone.test:5000/v3",
    "memcachedServers": "memcached:11211",
}


def computes(**labels: str) -> dict[str, Any]:
    return {"computes": {"compute": {"nodeSelector": labels}}}


@pytest.mark.usefixtures("registered")
async def test_a_cell_that_is_there_waits_for_cell0_and_may_lose_its_computes_meanwhile(world: Any) -> None:
    """Case 51. Regression f13, f15."""
    async with test_nova.operator(world), asyncio.TaskGroup() as group:
        await test_nova.surroundings(world)
        await world.create(ours.NOVA, "nova", {})
        await world.until(ours.MARIADB, lambda item: len(item["spec"].get("databases", [])) == 3, "mariadb")
        await world.grant(ours.MARIADB, "databases", "mariadb", without="nova_cell0")
        item = await world.until_condition(ours.NOVA, "nova", "DatabasesReady", "False", text="nova_cell0")
        assert "InternalError" not in str(states(item))
        assert await world.all(ours.NOVA_CELL) == []
        playing = group.create_task(world.play_servers())
        await world.until(ours.NOVA_COMPUTE, bool, "nova-cell1-compute")
        await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell1": {"computes": {"compute": None}}}}})
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-compute")
        await world.until_ready(ours.NOVA_CELL, "nova-cell1")
        playing.cancel()


async def test_what_a_map_has_by_default_can_be_taken_out_and_what_others_put_into_it_goes(world: Any) -> None:
    """Case 112: an entry that is there by default, removed; and one that somebody added to an object of ours.
    Regression f57."""
    async with test_nova.operator(world), asyncio.TaskGroup() as group:
        await test_nova.surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {"computes": {"compute": {}, "b": FAKE}}}})
        await world.until(ours.NOVA_COMPUTE, bool, "nova-cell1-b")
        await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell1": {"computes": {"b": None}}}}})
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-b")
        await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell1": {"computes": {"compute": None}}}}})
        await world.until(ours.NOVA_CELL, lambda item: item["spec"]["computes"] == {}, "nova-cell1")
        await world.patch(ours.NOVA_CELL, "nova-cell1", {"spec": {"computes": {"mine": FAKE}}})
        await world.until(ours.NOVA_CELL, lambda item: item["spec"]["computes"] == {}, "nova-cell1")
        playing.cancel()


async def test_twenty_hosts_at_once_are_told_by_one_job_and_nobody_else_looks_for_hosts(world: Any) -> None:
    """Case 53: of several who look for hosts all but one fail. Here one Job is told of all, and nothing polls.
    Regression r25."""
    tags = {"test-hosts": world.namespace}
    names = [f"host-{number}.{world.namespace}" for number in range(20)]
    templates = {"cell1": computes(**tags)}
    async with test_nova.operator(world) as operator, asyncio.TaskGroup() as group:
        await test_nova.surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": templates, "scheduler": {"replicas": 3}})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="0 hosts")
        for name in names:
            await world.api.create(kinds.NODE, {"metadata": {"name": name, "labels": tags}})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="20 hosts")
        await operator.settle()
        playing.cancel()
    told = await test_nova.told_of_hosts(world)
    assert told["nova-hosts"] == dict.fromkeys(names, "cell1")
    jobs = [job for job in await world.all(kinds.JOB) if job["metadata"]["name"].startswith("nova-hosts-")]
    assert len(jobs) == 1, "an older one would be at work beside it"
    scheduler = decoded(await world.get(kinds.SECRET, "nova-scheduler-config-secrets"))
    public = (await world.get(kinds.CONFIGMAP, "nova-scheduler-config-data"))["data"]
    assert "discover_hosts_in_cells_interval" not in str(scheduler) + str(public)


@pytest.mark.parametrize("second", [{}, computes(**{NODE: "true"})], ids=["by default", "by name"])
async def test_two_cells_that_want_the_same_nodes_are_refused(world: Any, second: Any) -> None:
    """Case 55: a node is in one cell."""
    async with test_nova.operator(world):
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {}, "cell2": second}})
        item = await world.until_condition(
            ours.NOVA, "nova", "Stalled", "True", text="cellTemplates.cell2.computes.compute"
        )
    assert condition(item, "Ready")[1] == "InvalidSpec"
    assert "is that of cellTemplates.cell1.computes.compute: a node serves one group" in condition(item, "Ready")[2]


async def test_a_node_that_serves_one_cell_is_not_taken_by_another_until_its_label_moves(world: Any) -> None:
    """Case 55: the cell of a node is what its labels say, and it changes when the old cell has let go."""
    name = f"node-{world.namespace}"
    rows = {"a": name, "b": name}
    await world.api.create(kinds.NODE, {"metadata": {"name": name, "labels": rows}})
    try:
        async with test_nova.operator(world):
            await world.create(ours.NOVA_COMPUTE, "first", {**PART, "nodeSelector": {"a": name}})
            await world.until_condition(ours.NOVA_COMPUTE, "first", "NodesReady")
            # Creation times have whole seconds.
            await asyncio.sleep(1.1)
            await world.create(ours.NOVA_COMPUTE, "second", {**PART, "nodeSelector": {"b": name}})
            text = f"node {name} serves NovaCompute {world.namespace}/first"
            await world.until_condition(ours.NOVA_COMPUTE, "second", "NodesReady", "False", "NodeInUse", text=text)
            assert await world.find(kinds.DAEMONSET, "second-libvirt") is None
            await world.patch(kinds.NODE, name, {"metadata": {"labels": {"a": None}}})
            await world.until_condition(ours.NOVA_COMPUTE, "second", "NodesReady")
            await world.until(kinds.DAEMONSET, bool, "second-libvirt")
    finally:
        await world.api.delete(kinds.NODE, name)


async def test_a_node_in_an_unknown_place_is_nobodys(world: Any) -> None:
    """Case 55: a cell without nodes waits for none, and says so."""
    async with test_nova.operator(world):
        await world.create(ours.NOVA_COMPUTE, "nowhere", {**PART, "nodeSelector": {"no": "node"}})
        item = await world.until_condition(ours.NOVA_COMPUTE, "nowhere", "LibvirtReady")
    assert condition(item, "NodesReady")[0] == "True"


@pytest.mark.usefixtures("registered")
async def test_a_conductor_with_no_replicas_counts_as_ready(world: Any) -> None:
    """Case 56: an explicit 0 stays 0. Regression f17."""
    async with test_nova.operator(world), asyncio.TaskGroup() as group:
        await test_nova.surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"conductor": {"replicas": 0}})
        await world.until_ready(ours.NOVA_CONDUCTOR, "nova-conductor")
        assert (await world.get(kinds.DEPLOYMENT, "nova-conductor"))["spec"]["replicas"] == 0
        await world.until_condition(ours.NOVA, "nova", "ConductorReady")
        playing.cancel()


async def test_a_cell_cannot_be_renamed(world: Any) -> None:
    """Case 55: what is in it would not move with the name."""
    await world.create(ours.NOVA_CELL, "one", {**PART, "cellName": "cell1", "cellDatabaseSecretRef": {"name": "x"}})
    with pytest.raises(errors.ApiError, match="cannot be changed"):
        await world.patch(ours.NOVA_CELL, "one", {"spec": {"cellName": "cell2"}})
