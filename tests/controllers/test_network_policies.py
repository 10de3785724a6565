"""NetworkPolicies of a control plane as a real API server stores them. What they do to connections: tests/e2e."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from test_controlplane import INFRASTRUCTURE, only

from openstack_operator.controlplane import resources
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds
from openstack_operator.services import SERVICES

NAMES = sorted(body["metadata"]["name"] for body in resources.network_policies("cloud", SERVICES, []))


@contextlib.asynccontextmanager
async def node(world: Any, name: str, address: str) -> AsyncIterator[None]:
    await world.api.create(kinds.NODE, {"metadata": {"name": name}})
    try:
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        await world.patch(kinds.NODE, name, {"status": status}, "status")
        yield
    finally:
        await world.api.delete(kinds.NODE, name)


def admitted(policy: Any) -> set[str]:
    """The CIDRs that a policy admits."""
    peers = [peer for rule in policy["spec"].get("ingress", ()) for peer in rule.get("from", ())]
    return {peer["ipBlock"]["cidr"] for peer in peers if "ipBlock" in peer}


async def test_every_component_has_its_policy_and_the_rest_is_closed(world: Any) -> None:
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        cloud = await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        await operator.settle()
        found = {item["metadata"]["name"]: item for item in await world.all(kinds.NETWORKPOLICY)}
    assert sorted(found) == NAMES
    for name, item in found.items():
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (cloud["metadata"]["uid"], True), name
        assert item["spec"]["policyTypes"] == ["Ingress"], name
    assert "ingress" not in found["cloud-closed"]["spec"]
    assert {name for name, item in found.items() if "ingress" not in item["spec"]} == {"cloud-closed"}


async def test_a_pass_without_a_change_makes_no_request(world: Any) -> None:
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        await operator.settle()
        size = world.cluster.audit_size()
        await world.patch(ours.CONTROL_PLANE, "cloud", {"metadata": {"labels": {"a": "b"}}})
        await operator.settle()
        assert world.requests(size) == []
    # Another operator has only what the server says.
    size = world.cluster.audit_size()
    async with world.operator("openstackcontrolplane") as operator:
        await operator.settle()
        assert [one for one in world.requests(size) if one[0] not in ("get", "list")] == []


async def test_switched_off_they_go_and_switched_on_they_are_back(world: Any) -> None:
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        for enabled, expected in ((False, []), (True, NAMES)):
            await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"networkPolicies": {"enabled": enabled}}})
            await operator.settle()
            assert await world.names(kinds.NETWORKPOLICY) == expected


@pytest.mark.parametrize("act", ["changed", "deleted"])
async def test_what_somebody_changes_by_hand_is_put_right(world: Any, act: str) -> None:
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        await operator.settle()
        before = (await world.get(kinds.NETWORKPOLICY, "mariadb-server"))["spec"]
        if act == "deleted":
            await world.delete(kinds.NETWORKPOLICY, "mariadb-server")
        else:
            await world.patch(kinds.NETWORKPOLICY, "mariadb-server", {"spec": {"ingress": [{}]}})
        await world.until(kinds.NETWORKPOLICY, lambda item: item and item["spec"] == before, "mariadb-server")


async def test_a_policy_of_the_users_own_stays(world: Any) -> None:
    await world.create(kinds.NETWORKPOLICY, "backup", {"podSelector": {}, "ingress": [{}]})
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, networkPolicies={"enabled": False}))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        await operator.settle()
    assert [item["metadata"]["name"] for item in await world.all(kinds.NETWORKPOLICY)] == ["backup"]


async def test_agents_of_a_new_node_are_admitted_where_they_must_be_and_nowhere_else(world: Any) -> None:
    spec = only(*INFRASTRUCTURE, networkPolicies={"nodeCidrs": ["10.42.0.0/16"]})
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", spec)
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "NetworkPoliciesReady")
        async with node(world, f"node-{world.namespace}", "192.0.2.77"):
            await world.until(kinds.NETWORKPOLICY, lambda item: "192.0.2.77/32" in admitted(item), "rabbitmq-server")
            await operator.settle()
            found = {item["metadata"]["name"]: admitted(item) for item in await world.all(kinds.NETWORKPOLICY)}
        await world.until(kinds.NETWORKPOLICY, lambda item: "192.0.2.77/32" not in admitted(item), "rabbitmq-server")
    assert {name for name, cidrs in found.items() if cidrs} == {"rabbitmq-server", "ovn-nb", "ovn-sb", "nova-metadata"}
    assert found["ovn-sb"] >= {"10.42.0.0/16", "192.0.2.77/32"}
