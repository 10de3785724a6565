"""Several OVN networks in one cluster: which of them has a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from world import condition

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds


@pytest.fixture
async def node(world: Any) -> AsyncIterator[str]:
    """A node with two labels, `a` and `b`."""
    name = f"node-{world.namespace}"
    await world.api.create(kinds.NODE, {"metadata": {"name": name, "labels": {"a": name, "b": name}}})
    yield name
    await world.api.delete(kinds.NODE, name)


async def on_nodes(world: Any) -> list[str]:
    """Networks that run something on nodes."""
    found = [one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in await world.all(kinds.DAEMONSET)]
    return sorted(set(found))


@pytest.mark.parametrize("field", ["nodeSelector", "gatewayNodeSelector"])
async def test_a_node_that_serves_one_network_is_not_taken_by_another_until_its_label_moves(
    world: Any, node: str, field: str
) -> None:
    """Case 113: there is one Open vSwitch on a node. A gateway is a node as well."""
    nowhere = {"nodeSelector": {"no": "node"}, "gatewayNodeSelector": {"no": "node"}}
    async with world.operator("ovn") as operator:
        await world.create(ours.OVN_NETWORK, "first", {**nowhere, "nodeSelector": {"a": node}})
        await world.until_condition(ours.OVN_NETWORK, "first", "NodesReady")
        await world.until(kinds.DAEMONSET, bool, "first-openvswitch")
        # Creation times have whole seconds.
        await asyncio.sleep(1.1)
        await world.create(ours.OVN_NETWORK, "second", {**nowhere, field: {"b": node}})
        item = await world.until_condition(ours.OVN_NETWORK, "second", "NodesReady", "False", "NodeInUse")
        message = f"spec.{field}: node {node} serves OVNNetwork {world.namespace}/first; choose other labels"
        assert condition(item, "NodesReady")[2] == message
        assert condition(item, "Stalled")[:2] == ("True", "NodeInUse")
        await operator.settle()
        assert await on_nodes(world) == ["first"]
        assert condition(await world.get(ours.OVN_NETWORK, "first"), "NodesReady")[0] == "True"
        await world.patch(kinds.NODE, node, {"metadata": {"labels": {"a": None}}})
        await world.until_condition(ours.OVN_NETWORK, "second", "NodesReady")
        await world.until(kinds.DAEMONSET, bool, "second-openvswitch")


async def test_the_younger_network_takes_the_node_when_the_older_one_has_gone(world: Any, node: str) -> None:
    """Case 113."""
    spec = {"nodeSelector": {"a": node}, "gatewayNodeSelector": {"b": node}}
    async with world.operator("ovn"):
        await world.create(ours.OVN_NETWORK, "first", spec)
        await world.until_condition(ours.OVN_NETWORK, "first", "NodesReady")
        # Creation times have whole seconds.
        await asyncio.sleep(1.1)
        await world.create(ours.OVN_NETWORK, "second", spec)
        await world.until_condition(ours.OVN_NETWORK, "second", "NodesReady", "False", "NodeInUse")
        await world.delete(ours.OVN_NETWORK, "first")
        await world.until_condition(ours.OVN_NETWORK, "second", "NodesReady")
        await world.until(kinds.DAEMONSET, bool, "second-openvswitch")
