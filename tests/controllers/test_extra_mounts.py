"""Users' own volumes in the pods of services, against a real API server."""

from __future__ import annotations

from typing import Any

from world import condition

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds

CA = {"mountPath": "/etc/ssl/mine", "secretName": "ca", "components": ["api"]}


async def test_a_mount_reaches_its_component_and_a_collision_changes_nothing(world: Any) -> None:
    async with world.operator("memcached", "placement") as operator:
        for resource in (ours.MARIADB, ours.KEYSTONE):
            await world.create(resource, resource.kind.lower(), {})
        await world.create(ours.MEMCACHED, "memcached", {"extraMounts": [{**CA, "components": []}]})
        urls = {"internalUrl": "http://keystone:5000/v3", "publicUrl": "http://192.0.2.1:30500/v3"}
        await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")
        await world.create(ours.PLACEMENT, "placement", {"extraMounts": [CA]})
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await world.until_ready(ours.MEMCACHED, "memcached")
        await operator.settle()

        def mounted(item: Any) -> list[str]:
            (container,) = item["spec"]["template"]["spec"]["containers"]
            return [one["mountPath"] for one in container["volumeMounts"]]

        before = await world.get(kinds.DEPLOYMENT, "placement-api")
        assert mounted(before)[-1] == "/etc/ssl/mine"
        assert mounted(await world.get(kinds.STATEFULSET, "memcached"))[-1] == "/etc/ssl/mine"
        (job,) = await world.all(kinds.JOB)
        assert "/etc/ssl/mine" not in mounted(job)

        bad = [{**CA, "mountPath": "/tmp"}]
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"extraMounts": bad}})
        item = await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady", "False", "MountCollision")
        assert condition(item, "DeploymentReady")[2] == (
            "extraMounts: /tmp collides with /tmp (scratch-0) in the pods of placement api"
        )
        assert condition(item, "Stalled")[0] == "True"
        await operator.settle()
        assert (await world.get(kinds.DEPLOYMENT, "placement-api"))["metadata"]["generation"] == (
            before["metadata"]["generation"]
        )
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"extraMounts": []}})
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        assert "/etc/ssl/mine" not in mounted(await world.get(kinds.DEPLOYMENT, "placement-api"))
