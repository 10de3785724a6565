"""Memcached: servers under stable names."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds


async def test_servers_come_up_and_are_published_for_clients(world: Any) -> None:
    """Case 47."""
    world.node.hold("memcached/server")
    async with world.operator("memcached"):
        await world.create(ours.MEMCACHED, "cache", {"replicas": 2})
        item = await world.until_condition(ours.MEMCACHED, "cache", "DeploymentReady", "False", "RollingOut")
        dns = f"cache.{world.namespace}.svc:11211"
        assert item["status"]["servers"] == [f"cache-0.{dns}", f"cache-1.{dns}"], "before they are up"
        await world.node.release("memcached/server")
        item = await world.until_ready(ours.MEMCACHED, "cache")
    assert item["status"]["replicas"] == 2
    assert (await world.get(kinds.PDB, "cache"))["spec"]["maxUnavailable"] == 1
