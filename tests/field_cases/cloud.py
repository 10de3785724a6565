"""A Glance and a Placement whose servers (MariaDB, Memcached, Keystone) are played by the test."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds

HASH = "openstack.k8s.io/config-hash"


async def surroundings(world: Any) -> None:
    """The objects that services ask, with what their controllers would publish."""
    await world.create(ours.MARIADB, "mariadb", {})
    await world.create(ours.MEMCACHED, "memcached", {})
    await world.create(ours.KEYSTONE, "keystone", {})
    servers = {"status": {"servers": [f"memcached-0.memcached.{world.namespace}.svc:11211"]}}
    await world.patch(ours.MEMCACHED, "memcached", servers, "status")
    await publish(world, f"http://keystone-api.{world.namespace}.svc:5000/v3")


async def publish(world: Any, internal: str, public: str = "http://192.0.2.1:30500/v3") -> None:
    """Keystone's URLs."""
    status = {"status": {"internalUrl": internal, "publicUrl": public}}
    await world.patch(ours.KEYSTONE, "keystone", status, "status")


async def rolled_out(world: Any, resource: kinds.Resource, **spec: Any) -> Any:
    """A Glance or a Placement whose pods run; Keystone does not, so it is not registered. Returns it."""
    name = resource.kind.lower()
    await world.create(resource, name, spec)
    await world.grant(ours.MARIADB, "databases", "mariadb", name)
    return await world.until_condition(resource, name, "DeploymentReady")


async def config_hash(world: Any, resource: kinds.Resource, name: str) -> str:
    """What rolls the pods of a workload."""
    workload = await world.get(resource, name)
    return str(workload["spec"]["template"]["metadata"]["annotations"][HASH])


async def writes(world: Any, since: int) -> list[tuple[str, str, str, int]]:
    """Requests of the operator that change something."""
    return [one for one in world.requests(since) if one[0] not in ("get", "list", "watch")]
