"""Nova and the kinds of its parts, from the requests to others down to the pods; what needs a real Nova is tested in
the embedded cloud. MariaDB's, RabbitMQ's, Memcached's and Keystone's part is played by the test."""

from __future__ import annotations

from typing import Any

import kubelet
import pytest
from world import condition, decoded, states

from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import ini
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import conditions, kinds
from openstack_operator.services import nova

CELL_DATABASES = ("nova_api", "nova_cell0", "nova_cell1")
PASSWORD = "$%@/#+\"':-x"
KEYSTONE_URL = "http://keystone-api.test.svc:5000/v3"


@pytest.fixture(scope="module", autouse=True)
def nova_installed(cluster: ControlPlane) -> None:
    crds = [kinds.crd(kind) for kind in nova.SERVICE.kinds]
    cluster.apply(*crds)
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


async def surroundings(world: Any) -> None:
    """Everything that a Nova needs, as far as it looks at it."""
    await world.create(ours.MARIADB, "mariadb", {})
    await world.create(ours.RABBITMQ, "rabbitmq", {})
    await world.create(ours.MEMCACHED, "memcached", {})
    await world.create(ours.KEYSTONE, "keystone", {})
    await world.create(ours.PLACEMENT, "placement", {})
    await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
    urls = {"internalUrl": KEYSTONE_URL, "publicUrl": "http://192.0.2.1:30500/v3"}
    await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")
    await world.secret("neutron-metadata", secret="shared")


async def granted(world: Any, *cells: str) -> None:
    databases = ("nova_api", "nova_cell0", *(f"nova_{cell}" for cell in cells or ("cell1",)))
    vhosts = ("nova", *(f"nova-{cell}" for cell in cells or ("cell1",)))
    await world.grant(ours.MARIADB, "databases", "mariadb", *databases)
    await world.grant(ours.RABBITMQ, "vhosts", "rabbitmq", *vhosts)


async def set_condition(world: Any, resource: kinds.Resource, name: str, kind: str) -> None:
    item = await world.get(resource, name)
    found = {
        "type": kind,
        "status": "True",
        "reason": "Ready",
        "message": "",
        "observedGeneration": item["metadata"]["generation"],
        "lastTransitionTime": conditions.now(),
    }
    kept = [one for one in item.get("status", {}).get("conditions", []) if one["type"] != kind]
    await world.patch(resource, name, {"status": {"conditions": [*kept, found]}}, "status")


async def bound(world: Any, daemon_set: str, component: str, node: str) -> list[Any]:
    """The pods of a DaemonSet, after the scheduler's part was played: each on the node."""

    def is_scheduled(item: Any) -> bool:
        return bool(item and item.get("status", {}).get("currentNumberScheduled"))

    await world.until(kinds.DAEMONSET, is_scheduled, daemon_set)
    found = [one for one in await world.all(kinds.POD) if kubelet.component(one) == component]
    for pod in found:
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await world.api.request("POST", kinds.POD.path(world.namespace, name, "binding"), body=binding)
    return found


def operator(world: Any) -> Any:
    # Another service by name, because without any name all of them run.
    return world.operator("glance", controllers=nova.SERVICE.controllers)


async def test_conditions_stand_in_the_order_of_the_rollout(world: Any) -> None:
    async with operator(world) as running:
        await world.create(ours.NOVA, "nova", {})
        await running.settle()
        item = await world.get(ours.NOVA, "nova")
    assert [name for name, _, _ in states(item)] == [
        "Ready",
        "ConfigValid",
        "CredentialsReady",
        "DatabasesReady",
        "MessagingReady",
        "SurroundingsReady",
        "ConfigReady",
        "CellMappingsReady",
        "APIReady",
        "ConductorReady",
        "SchedulerReady",
        "MetadataReady",
        "CatalogReady",
        "CellsReady",
        "HostsReady",
        "Reconciling",
        "Stalled",
    ]
    assert condition(item, "DatabasesReady")[2] == f"MariaDB {world.namespace}/mariadb does not exist"


async def test_schemas_are_made_before_the_message_bus_is_there(world: Any) -> None:
    world.node.hold("nova/cells")
    async with operator(world):
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", *CELL_DATABASES)
        item = await world.until_condition(ours.NOVA, "nova", "CellMappingsReady", "False", "JobRunning")
        assert condition(item, "MessagingReady")[:2] == ("False", "NotGranted")


async def test_a_nova_rolls_out_to_its_computes(world: Any) -> None:
    world.node.hold("nova/compute")
    async with operator(world) as running:
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {"replicas": 2, "customServiceConfig": "[DEFAULT]\ndebug = true\n"})
        await granted(world)
        await world.until_ready(ours.NOVA_API, "nova-api")
        await world.until_ready(ours.NOVA_SCHEDULER, "nova-scheduler")
        await world.until_ready(ours.NOVA_CONDUCTOR, "nova-conductor")
        await world.until_ready(ours.NOVA_METADATA, "nova-metadata")
        await world.until_ready(ours.NOVA_CONDUCTOR, "nova-cell1-conductor")
        await world.until_ready(ours.NOVA_NOVNCPROXY, "nova-cell1-novncproxy")
        await running.settle()

        nova_api = await world.get(ours.NOVA_API, "nova-api")
        assert nova_api["spec"]["replicas"] == 2
        assert nova_api["spec"]["customServiceConfig"] == "[DEFAULT]\ndebug = true\n"
        assert set(nova_api["spec"]["registeredCells"]) == {"cell1"}
        assert nova_api["status"]["internalUrl"] == f"http://nova-api.{world.namespace}.svc:8774/v2.1"
        assert await world.names(kinds.SERVICE) == ["nova-api", "nova-cell1-novncproxy", "nova-metadata"]
        cell = await world.get(ours.NOVA_CELL, "nova-cell1")
        assert cell["spec"]["cellDatabaseSecretRef"] == {"name": "nova-cell1-db"}
        assert cell["spec"]["messagingSecretRef"] == {"name": "nova-cell1-mq"}
        assert decoded(await world.get(kinds.SECRET, "nova-cell1-db"))["database"] == "nova_cell1"
        assert decoded(await world.get(kinds.SECRET, "nova-cell1-mq"))["vhost"] == "nova-cell1"

        secret = decoded(await world.get(kinds.SECRET, "nova-cell1-conductor-config-secrets"))
        assert "nova_api" not in str(secret), "a cell's conductor does not see the API database"
        assert "[database]" not in str(decoded(await world.get(kinds.SECRET, "nova-cell1-compute-config-secrets")))

        compute = await world.until_condition(
            ours.NOVA_COMPUTE, "nova-cell1-compute", "DependenciesReady", "False", "DependencyNotReady"
        )
        assert condition(compute, "DependenciesReady")[2] == "Placement placement is not Ready: no status yet"
        assert await world.find(kinds.DAEMONSET, "nova-cell1-compute") is None
        libvirt = await world.get(kinds.DAEMONSET, "nova-cell1-compute-libvirt")
        assert libvirt["spec"]["template"]["spec"]["nodeSelector"] == {"openstack.k8s.io/compute": "true"}
        assert libvirt["spec"]["template"]["spec"]["hostPID"] is True

        await set_condition(world, ours.PLACEMENT, "placement", "Ready")
        compute = await world.until_condition(
            ours.NOVA_COMPUTE, "nova-cell1-compute", "DependenciesReady", "False", text="Nova nova is not CatalogReady"
        )
        item = await world.get(ours.NOVA, "nova")
        assert condition(item, "CatalogReady")[1] == "KeystoneNotReady"


async def test_the_virtualisation_is_read_from_what_the_init_container_said(world: Any) -> None:
    def said(pod: Any) -> Any:
        status = kubelet.running(pod)
        ended = {"exitCode": 0, "message": "qemu: there is no /dev/kvm\n", "startedAt": conditions.now()}
        names = [container["name"] for container in pod["spec"]["initContainers"]]
        status["initContainerStatuses"] = [
            {"name": name, "image": "x", "imageID": "", "ready": True, "restartCount": 0}
            | ({"state": {"terminated": ended}} if name == "node-config" else {})
            for name in names
        ]
        return status

    world.node.hold("nova/compute")
    node = f"node-{world.namespace}"
    await world.api.create(kinds.NODE, {"metadata": {"name": node, "labels": {"test": world.namespace}}})
    # The taint of a node whose kubelet has not said anything yet.
    tolerations = [{"operator": "Exists"}]
    async with operator(world):
        await world.secret("user", user="nova", password=PASSWORD)
        await world.secret("bus", user="compute", password="p@ss", hostname="bus.example")
        spec = {
            "authUrl": KEYSTONE_URL,
            "memcachedServers": "memcached:11211",
            "serviceUserSecretRef": {"name": "user"},
            "messagingSecretRef": {"name": "bus"},
            "nodeSelector": {"test": world.namespace},
            "tolerations": tolerations,
        }
        await world.create(ours.NOVA_COMPUTE, "alone", spec)
        (pod,) = await bound(world, "alone", "nova/compute", node)
        await world.patch(kinds.POD, pod["metadata"]["name"], {"status": said(pod)}, "status")
        item = await world.until_ready(ours.NOVA_COMPUTE, "alone")
        assert item["status"]["virtType"] == "qemu"
        assert item["status"]["hosts"] == [{"name": node, "virtType": "qemu", "reason": "there is no /dev/kvm"}]
        assert condition(item, "ComputeReady")[2] == "servers run with qemu (there is no /dev/kvm)"
        text = decoded(await world.get(kinds.SECRET, "alone-config-secrets"))["nova.conf.20-secret"]
        assert "transport_url = rabbit://compute:p%40ss@bus.example:5672/compute\n" in text
        written = ini.literal(PASSWORD, ini.fact("service_user", "password", "service_user.password"))
        assert f"password = {written}\n" in text


async def test_users_text_that_nobody_can_parse_stops_before_anything_is_written(world: Any) -> None:
    async with operator(world):
        await surroundings(world)
        cells = {"cell1": {"computes": {"gpu": {"customServiceConfig": "[DEFAULT]\nnonsense\n"}}}}
        await world.create(ours.NOVA, "nova", {"cellTemplates": cells})
        await granted(world)
        item = await world.until_condition(ours.NOVA, "nova", "Stalled", "True", "InvalidConfig")
        message = condition(item, "ConfigValid")[2]
        assert message.startswith("spec.cellTemplates.cell1.computes.gpu.customServiceConfig: line 2:")
        assert await world.names(kinds.JOB) == []


async def test_a_deleted_nova_ends_its_parts_before_it_gives_databases_back(world: Any) -> None:
    async with operator(world):
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {})
        await granted(world)
        await world.until_condition(ours.NOVA, "nova", "ConductorReady")
        await world.delete(ours.NOVA, "nova")
        await world.until_gone(ours.NOVA_CELL, "nova-cell1")
        await world.until_condition(ours.NOVA, "nova", "Ready", "False", "Deleting", text="NotDropped")
        for resource, field in ((ours.MARIADB, "databases"), (ours.RABBITMQ, "vhosts")):
            name = resource.kind.lower()
            await world.until(resource, lambda item, field=field: not item["spec"].get(field), name)
            await world.patch(resource, name, {"status": {field: []}}, "status")
        await world.until_gone(ours.NOVA, "nova")
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-compute")


async def test_nodes_are_cleaned_before_a_deleted_nova_is_gone(world: Any) -> None:
    """Field case: a nova-compute refuses to start where libvirt still has guests of a cloud that is gone."""
    world.node.hold("nova/cleanup")
    node = f"node-{world.namespace}"
    await world.api.create(kinds.NODE, {"metadata": {"name": node, "labels": {"test": world.namespace}}})

    async def heart_beats() -> None:
        now = conditions.now()
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        await world.patch(kinds.NODE, node, {"status": {"conditions": [ready]}}, "status")

    group = {"nodeSelector": {"test": world.namespace}, "tolerations": [{"operator": "Exists"}]}
    async with operator(world):
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {"computes": {"compute": group}}}})
        await granted(world)
        libvirt = "nova-cell1-compute-libvirt"
        await bound(world, libvirt, "nova/libvirt", node)
        await heart_beats()
        await world.delete(ours.NOVA, "nova")
        await world.until_condition(
            ours.NOVA, "nova", "Ready", "False", "Deleting", text="NovaCompute nova-cell1-compute"
        )
        await world.until_gone(kinds.DAEMONSET, libvirt)
        (pod,) = [one for one in await world.all(kinds.POD) if kubelet.component(one) == "nova/libvirt"]
        await heart_beats()
        path = kinds.POD.path(world.namespace, pod["metadata"]["name"])
        await world.api.request("DELETE", path, body={"gracePeriodSeconds": 0})
        text = f"removes guests on {node}"
        await world.until_condition(ours.NOVA_COMPUTE, "nova-cell1-compute", "Ready", "False", "Deleting", text=text)
        await bound(world, "nova-cell1-compute-cleanup", "nova/cleanup", node)
        await world.node.release("nova/cleanup")
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-compute")
        await world.until_condition(ours.NOVA, "nova", "Ready", "False", "Deleting", text="NotDropped")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"cell0": {}}, "cell0 belongs to Nova itself"),
        ({"Cell_1": {}}, "names must have 1 to 16 characters"),
        ({"cell1": {"computes": {"a.b": {}}}}, "names must have 1 to 16 characters"),
    ],
)
async def test_names_of_cells_that_no_object_can_have_are_refused(world: Any, cells: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        await world.create(ours.NOVA, "nova", {"cellTemplates": cells})
