"""Users' own volumes in the pods of services, against a real API server."""

from __future__ import annotations

from typing import Any

from world import condition

from openstack_operator import controlplane
from openstack_operator.cli import origins, simulation
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import labels
from openstack_operator.kit.types import PodSettings
from openstack_operator.runtime import client, kinds
from openstack_operator.runtime.client import Object

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


KEYS = {2: "cell1", 4: "compute"}
"""Of the maps on the way to a cell's parts, by their depth."""


def places() -> dict[str, tuple[tuple[str, ...], type[PodSettings]]]:
    """Path and type of everything in a control plane that has extraMounts, by the name of a ConfigMap for it."""
    found = {}
    for path, model in origins.positions(OpenStackControlPlaneSpec):
        if issubclass(model, PodSettings):
            named = tuple(KEYS[depth] if part == origins.ANY else part for depth, part in enumerate(path))
            found["at-" + "-".join(named).lower()] = (named, model)
    return found


async def test_the_components_of_a_type_are_those_of_the_pods_that_get_its_mounts(world: Any) -> None:
    everything = places()
    spec: Object = {}
    for name, (path, _) in everything.items():
        here = spec
        for part in path:
            here = here.setdefault(part, {})
        here["extraMounts"] = [{"mountPath": f"/mine/{name}", "configMapName": name}]
    spec["nova"]["cellTemplates"]["cell1"]["metadata"]["enabled"] = True
    found: dict[str, set[str]] = {name: set() for name in everything}
    async with simulation.Dry(client.Config.from_kubeconfig(world.cluster.kubeconfig), "test") as api:
        copy = simulation.Simulation(api, world.namespace)
        await copy.fill()
        metadata = {"name": "cloud", "namespace": world.namespace}
        answer = await api.dry_apply(ours.CONTROL_PLANE, {"metadata": metadata, "spec": spec}, "test")
        copy.take((ours.CONTROL_PLANE, world.namespace, "cloud"), simulation.USER, answer)
        await copy.settle()
        for _, item in copy.objects():
            workload = item["spec"]["jobTemplate"] if item["kind"] == "CronJob" else item
            template = workload.get("spec", {}).get("template", {})
            for volume in template.get("spec", {}).get("volumes", []):
                if (name := volume.get("configMap", {}).get("name")) in found:
                    found[name].add(template["metadata"]["labels"][labels.COMPONENT])
    assert found == {name: set(model.components) for name, (_, model) in everything.items()}
    assert len(found) > 20
    assert all(found.values())


def test_the_types_of_all_kinds_say_which_components_they_have() -> None:
    models = {
        model
        for service in controlplane.EVERYTHING
        for kind in service.kinds
        for model in (kind.spec, *(model for _, model in origins.positions(kind.spec)))
        if issubclass(model, PodSettings)
    }
    assert [model.__name__ for model in models if not model.components] == []
