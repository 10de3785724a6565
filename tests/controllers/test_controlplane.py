"""OpenStackControlPlane: the objects of the services, their state mirrored upwards, one control plane in a namespace.

The services' part is played by the test, as by operators of their own (seed 003), but for the tests that say so.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import kubelet
from world import condition, decoded, states

from openstack_operator.controlplane import types
from openstack_operator.kit import kinds as ours
from openstack_operator.kit.types import Entry
from openstack_operator.runtime import kinds
from openstack_operator.services import SERVICES

INFRASTRUCTURE = ("mariadb", "rabbitmq", "memcached")


def only(*services: str, **spec: Any) -> dict[str, Any]:
    """The spec of a control plane without the services that are not named."""
    fields = types.OpenStackControlPlaneSpec.model_fields
    for name in ("openstackclient", *(service.name for service in SERVICES)):
        default = fields[name].default
        if name not in services and isinstance(default, Entry):
            spec[name] = {**spec.get(name, {}), "enabled": False}
    return spec


async def test_every_service_is_asked_for_at_once_with_what_the_control_plane_says_to_all(world: Any) -> None:
    spec = {
        "region": "Wonderland",
        "storageClass": "fast",
        "images": {"registry": "registry.example:5000", "prefix": "kolla", "tag": "t1"},
        "publicEndpoint": {"type": "NodePort", "host": "cloud.example"},
        "mariadb": {"storageSize": "2Gi", "storageClass": "slow"},
        "memcached": {"replicas": 2, "cacheMebibytes": 32},
        "keystone": {"replicas": 3, "publicEndpoint": {"type": "ClusterIP"}, "customServiceConfig": "[a]\nb = c\n"},
    }
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, "keystone", **spec))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "Ready", "False", "Reconciling")
        await operator.settle()
    images = {"registry": "registry.example:5000", "prefix": "kolla", "tag": "t1", "overrides": {}}
    mariadb = (await world.get(ours.MARIADB, "mariadb"))["spec"]
    assert mariadb == {
        "openstackRelease": "2026.1",
        "images": images,
        "replicas": 1,
        "maxConnections": 1000,
        "bufferPoolMebibytes": 256,
        "storageSize": "2Gi",
        "storageClass": "slow",
        "storageRetention": "Delete",
        "nodeSelector": {},
        "tolerations": [],
        "topologySpreadConstraints": [],
        "resources": {"requests": {}, "limits": {}},
        "extraMounts": [],
    }
    rabbitmq = (await world.get(ours.RABBITMQ, "rabbitmq"))["spec"]
    assert (rabbitmq["storageClass"], rabbitmq["images"]) == ("fast", images)
    memcached = (await world.get(ours.MEMCACHED, "memcached"))["spec"]
    assert (memcached["replicas"], memcached["cacheMebibytes"], memcached["images"]) == (2, 32, images)
    keystone = (await world.get(ours.KEYSTONE, "keystone"))["spec"]
    assert (keystone["region"], keystone["replicas"], keystone["images"]) == ("Wonderland", 3, images)
    assert keystone["publicEndpoint"] == {"type": "ClusterIP"}, "a service's own setting wins"
    assert keystone["customServiceConfig"] == "[a]\nb = c\n"
    assert "enabled" not in keystone


async def test_the_message_at_the_top_names_what_blocks_at_the_bottom(world: Any) -> None:
    """Regression r38, r59, r76."""
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, "keystone"))
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "MariaDBReady", "False", "Reconciling")
        assert condition(item, "MariaDBReady")[2] == f"MariaDB {world.namespace}/mariadb is not reconciled yet"
        assert item["status"]["phase"] == "Infrastructure"

        why = "DeploymentReady: StatefulSet x/mariadb: 0 of 1 pods ready: pod mariadb-0: ImagePullBackOff"
        await world.set_ready(ours.MARIADB, "mariadb", "False", "RollingOut", why)
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "MariaDBReady", "False", "RollingOut")
        assert condition(item, "Ready")[2] == f"MariaDBReady: MariaDB {world.namespace}/mariadb: {why}"
        assert condition(item, "Reconciling")[0] == "True"

        for resource, name in ((ours.MARIADB, "mariadb"), (ours.RABBITMQ, "rabbitmq"), (ours.MEMCACHED, "memcached")):
            await world.set_ready(resource, name)
        stalled = "ConfigReady: spec.customServiceConfig: line 2: no"
        await world.set_ready(ours.KEYSTONE, "keystone", "Stalled", "InvalidConfig", stalled)
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "KeystoneReady", "False", "InvalidConfig")
        message = f"KeystoneReady: Keystone {world.namespace}/keystone: {stalled}"
        assert condition(item, "Stalled") == ("True", "InvalidConfig", message)
        assert item["status"]["phase"] == "Identity"

        status = {
            "publicUrl": "http://cloud:5000/v3",
            "internalUrl": "http://i:5000/v3",
            "adminSecret": "keystone-admin",
        }
        await world.patch(ours.KEYSTONE, "keystone", {"status": status}, "status")
        await world.set_ready(ours.KEYSTONE, "keystone")
        item = await world.until_ready(ours.CONTROL_PLANE, "cloud")
        await operator.settle()
        item = await world.get(ours.CONTROL_PLANE, "cloud")
    found = {key: item["status"].get(key) for key in ("phase", "identityUrl", "adminSecret")}
    assert found == {"phase": "Ready", "identityUrl": "http://cloud:5000/v3", "adminSecret": "keystone-admin"}
    assert [name for name, _, _ in states(item)][:7] == [
        "Ready",
        "Accepted",
        "ConfigValid",
        "MariaDBReady",
        "RabbitMQReady",
        "MemcachedReady",
        "KeystoneReady",
    ]
    assert {status for _, status, _ in states(item)[:-2]} == {"True"}


async def test_the_client_pod_gets_its_login_from_a_secret_and_is_not_made_without_keystone(world: Any) -> None:
    async with world.operator("openstackcontrolplane", "keystone", "memcached"):
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, "keystone", "openstackclient"))
        playing = asyncio.ensure_future(world.play_servers())
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "KeystoneReady", "False", "KeystoneUnreachable")
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
        assert condition(item, "ClientReady")[1:] == ("Blocked", "waits for KeystoneReady")
        assert await world.find(kinds.DEPLOYMENT, "openstackclient") is None
    async with world.operator("openstackcontrolplane"):
        await world.set_ready(ours.KEYSTONE, "keystone")
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "ClientReady")
        secret = decoded(await world.get(kinds.SECRET, "openstackclient"))
        password = decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"]
        assert f"password: {password}\n" in secret["clouds.yaml"]
        assert f"auth_url: http://keystone-api.{world.namespace}.svc:5000/v3" in secret["clouds.yaml"]
        deployment = await world.get(kinds.DEPLOYMENT, "openstackclient")
        assert password not in str(deployment)
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"openstackclient": {"enabled": False}}})
        await world.until_gone(kinds.DEPLOYMENT, "openstackclient")


async def test_of_two_control_planes_the_older_wins_and_the_younger_goes_on_when_it_is_gone(world: Any) -> None:
    async with world.operator("openstackcontrolplane"):
        await world.create(ours.CONTROL_PLANE, "b-older", only(*INFRASTRUCTURE))
        first = await world.until_condition(ours.CONTROL_PLANE, "b-older", "Accepted")
        # Ages are told in seconds; of two of one second the name decides.
        second = await world.create(ours.CONTROL_PLANE, "c-younger", only(*INFRASTRUCTURE))
        item = await world.until_condition(ours.CONTROL_PLANE, "c-younger", "Accepted", "False", "NamespaceTaken")
        message = (
            f"OpenStackControlPlane {world.namespace}/b-older is in this namespace already; "
            "delete one of the two or use another namespace"
        )
        assert condition(item, "Accepted")[2] == message
        assert condition(item, "Stalled")[0] == "True"
        assert condition(item, "MariaDBReady")[1] == "Blocked"
        first_uid = first["metadata"]["uid"]
        owners = (await world.get(ours.MARIADB, "mariadb"))["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [first_uid], "the older one's objects are not touched"

        await world.delete(ours.CONTROL_PLANE, "b-older")
        await world.until_condition(ours.CONTROL_PLANE, "c-younger", "Accepted")
        taken = await world.until(
            ours.MARIADB,
            lambda item: item and item["metadata"]["ownerReferences"][0]["name"] == "c-younger",
            "mariadb",
        )
        assert taken["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]


async def test_a_disabled_service_loses_its_object_and_gets_it_back(world: Any) -> None:
    async with world.operator("openstackcontrolplane"):
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, "keystone"))
        await world.until(ours.KEYSTONE, lambda item: item is not None, "keystone")
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"keystone": {"enabled": False}}})
        await world.until_gone(ours.KEYSTONE, "keystone")
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "KeystoneReady")
        assert condition(item, "KeystoneReady")[0] == "True"
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"keystone": {"enabled": True}}})
        await world.until(ours.KEYSTONE, lambda item: item is not None, "keystone")


async def test_a_control_plane_deleted_half_way_takes_everything_with_it(world: Any) -> None:
    world.node.hold("mariadb/server")
    services = ("openstackcontrolplane", *INFRASTRUCTURE, "keystone")
    async with world.operator(*services):
        spec = only(*INFRASTRUCTURE, "keystone", mariadb={"replicas": 1})
        await world.create(ours.CONTROL_PLANE, "cloud", spec)
        await world.until_condition(ours.KEYSTONE, "keystone", "DatabaseReady", "False", "NotGranted")
        await world.delete(ours.CONTROL_PLANE, "cloud")
        await world.until_gone(ours.CONTROL_PLANE, "cloud")
        for resource, name in (
            (ours.KEYSTONE, "keystone"),
            (ours.MARIADB, "mariadb"),
            (kinds.STATEFULSET, "mariadb"),
            (kinds.STATEFULSET, "rabbitmq"),
            (kinds.SECRET, "mariadb-root"),
            (kinds.SECRET, "keystone-fernet-keys"),
            (kinds.CONFIGMAP, "keystone-config-data"),
            (kinds.SERVICE, "mariadb"),
        ):
            await world.until_gone(resource, name)
        # And again in the same namespace.
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.node.release("mariadb/server")
        item = await world.until_ready(ours.CONTROL_PLANE, "cloud")
    assert item["status"]["phase"] == "Ready"


async def test_a_control_plane_that_goes_says_what_it_waits_for(world: Any) -> None:
    async with world.operator("openstackcontrolplane", "keystone", "memcached"):
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, "keystone"))
        await world.until(ours.KEYSTONE, lambda item: item and item["metadata"].get("finalizers"), "keystone")
        keep = {"metadata": {"finalizers": ["example.org/keep", "openstack.k8s.io/keystone"]}}
        await world.patch(ours.KEYSTONE, "keystone", keep)
        await world.delete(ours.CONTROL_PLANE, "cloud")
        item = await world.until_condition(
            ours.CONTROL_PLANE, "cloud", "Ready", "False", "Deleting", text="waits for the end of Keystone keystone"
        )
        assert item["status"]["phase"] == "Deleting"
        await world.patch(ours.KEYSTONE, "keystone", {"metadata": {"finalizers": None}})
        await world.until_gone(ours.CONTROL_PLANE, "cloud")


async def test_images_can_be_named_by_registry_prefix_tag_or_each(world: Any) -> None:
    images = {
        "registry": "registry.example:5000",
        "prefix": "",
        "tag": "t1",
        "overrides": {"memcached": "docker.io/library/memcached:1.6"},
    }
    spec = only(*INFRASTRUCTURE, images=images, rabbitmq={"containerImage": "localhost/mine:2"})
    async with world.operator("openstackcontrolplane", *INFRASTRUCTURE):
        await world.create(ours.CONTROL_PLANE, "cloud", spec)
        await world.until_ready(ours.CONTROL_PLANE, "cloud")
        pods = {kubelet.component(pod): pod["spec"] for pod in await world.all(kinds.POD)}
        found = {
            what: {one["image"] for one in (*pod.get("initContainers", []), *pod["containers"])}
            for what, pod in pods.items()
        }
    assert found == {
        "mariadb/server": {"registry.example:5000/mariadb-server:t1"},
        "rabbitmq/server": {"localhost/mine:2"},
        "memcached/server": {"docker.io/library/memcached:1.6"},
    }


async def test_a_change_of_one_service_rolls_that_service_alone(world: Any) -> None:
    async def generations() -> dict[str, int]:
        return {one["metadata"]["name"]: one["metadata"]["generation"] for one in await world.all(kinds.STATEFULSET)}

    async with world.operator("openstackcontrolplane", *INFRASTRUCTURE) as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.until_ready(ours.CONTROL_PLANE, "cloud")
        await operator.settle()
        before = await generations()
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"mariadb": {"maxConnections": 99}}})
        await world.until(kinds.STATEFULSET, lambda item: item["metadata"]["generation"] > 1, "mariadb")
        await world.until_ready(ours.CONTROL_PLANE, "cloud")
        await operator.settle()
        assert await generations() == {**before, "mariadb": before["mariadb"] + 1}


async def test_maps_that_are_emptied_are_emptied_in_the_services_objects(world: Any) -> None:
    """Of a map whose last key we take out server-side apply makes null, which no schema takes."""
    logging = "[loggers]\nkeys=\n[handlers]\nkeys=\n[formatters]\nkeys=\n"
    full = {"defaultConfigOverwrite": {"logging.conf": logging}, "nodeSelector": {"a": "b"}}
    images = {"overrides": {"placement-api": "localhost/mine:1"}}
    async with world.operator("openstackcontrolplane"):
        await world.create(ours.CONTROL_PLANE, "cloud", {"placement": full, "images": images})
        await world.until(ours.PLACEMENT, lambda item: item is not None, "placement")
        emptied = {"placement": dict.fromkeys(full), "images": {"overrides": None}}
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": emptied})

        def is_empty(item: Any) -> bool:
            spec = item["spec"]
            return (spec["defaultConfigOverwrite"], spec["nodeSelector"], spec["images"]["overrides"]) == ({}, {}, {})

        await world.until(ours.PLACEMENT, is_empty, "placement")
