"""Nova and the kinds of its parts, from the requests to others down to the pods; what needs a real Nova is tested in
the embedded cloud. MariaDB's, RabbitMQ's, Memcached's and Keystone's part is played by the test."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import kubelet
import pytest
from aiohttp import web
from world import condition, decoded, states

from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import ini, labels
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import conditions, errors, kinds
from openstack_operator.services import nova
from openstack_operator.services.nova import children, removal, upgrade_check
from openstack_operator.services.nova import resources as nova_resources

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
        "HostMappingsReady",
        "APIReady",
        "ConductorReady",
        "SchedulerReady",
        "MetadataReady",
        "CatalogReady",
        "CellsReady",
        "CellRemovalReady",
        "HostRemovalReady",
        "HostsReady",
        "UpgradeCheckPassed",
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


async def told_of_hosts(world: Any) -> dict[str, dict[str, str]]:
    """Cells of hosts by the Job that was told of them."""
    found = {job["metadata"]["name"]: nova_resources.hosts_told(job) for job in await world.all(kinds.JOB)}
    return {name.rpartition("-")[0]: hosts for name, hosts in found.items()}


async def test_what_a_cells_own_servers_grant_wakes_the_nova(world: Any) -> None:
    await surroundings(world)
    await world.create(ours.MARIADB, "own-db", {})
    await world.create(ours.RABBITMQ, "own-mq", {})
    cell = {"databaseRef": {"name": "own-db"}, "messagingRef": {"name": "own-mq"}}
    async with operator(world):
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": cell}})
        await world.grant(ours.MARIADB, "databases", "mariadb", "nova_api", "nova_cell0")
        await world.grant(ours.RABBITMQ, "vhosts", "rabbitmq", "nova")
        for name in ("DatabasesReady", "MessagingReady"):
            await world.until(ours.NOVA, lambda item, name=name: "/own-" in condition(item, name)[2], "nova")
        # One after the other: each has to wake it by itself.
        await world.grant(ours.MARIADB, "databases", "own-db", "nova_cell1")
        await world.until_condition(ours.NOVA, "nova", "DatabasesReady", "True", "Ready")
        await world.grant(ours.RABBITMQ, "vhosts", "own-mq", "nova-cell1")
        await world.until_condition(ours.NOVA, "nova", "MessagingReady", "True", "Ready")


async def test_hosts_are_mapped_with_the_cells_and_later_ones_by_a_job_of_their_own(world: Any) -> None:
    """Case 53. Regression f2, h7."""
    first, second, third = (f"{name}.{world.namespace}" for name in ("first", "second", "third"))
    templates: Any = {
        cell: {"computes": {"compute": {"nodeSelector": {"test-cell": f"{world.namespace}-{cell}"}}}}
        for cell in ("cell1", "cell2")
    }
    templates["trial"] = {"computes": {"compute": {"driver": "Fake"}}}
    of_cell1, of_cell2 = (templates[cell]["computes"]["compute"]["nodeSelector"] for cell in ("cell1", "cell2"))
    await world.api.create(kinds.NODE, {"metadata": {"name": first, "labels": of_cell1}})
    async with operator(world) as running, asyncio.TaskGroup() as group:
        await surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": templates})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="2 hosts")
        from_the_start = {first: "cell1", "nova-trial-compute": "trial"}
        assert await told_of_hosts(world) == {"nova-cells": from_the_start}
        cells_job = await world.names(kinds.JOB)

        await world.api.create(kinds.NODE, {"metadata": {"name": third}})
        await world.api.create(kinds.NODE, {"metadata": {"name": second, "labels": of_cell2}})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="3 hosts")
        known = {"nova-cells": from_the_start, "nova-hosts": from_the_start | {second: "cell2"}}
        assert await told_of_hosts(world) == known
        assert set(cells_job) < set(await world.names(kinds.JOB))

        # Neither another label nor a node that goes is news for Nova.
        await world.patch(kinds.NODE, second, {"metadata": {"labels": {"rack": "7"}}})
        await world.api.delete(kinds.NODE, first)
        await world.patch(ours.NOVA, "nova", {"metadata": {"annotations": {"touched": "yes"}}})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="2 hosts")
        await running.settle()
        assert await told_of_hosts(world) == known

        world.node.hold("nova/hosts")
        await world.patch(kinds.NODE, second, {"metadata": {"labels": of_cell1}})
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", "False", "JobRunning")
        await world.node.release("nova/hosts")
        await world.until_condition(ours.NOVA, "nova", "HostMappingsReady")
        moved = {second: "cell1", "nova-trial-compute": "trial"}
        assert await told_of_hosts(world) == {"nova-cells": from_the_start, "nova-hosts": moved}
        assert set(cells_job) < set(await world.names(kinds.JOB)), "the schemas were not looked at again"
        playing.cancel()


class Computes:
    """A Keystone and a compute API that know the services and the servers of hosts."""

    def __init__(self) -> None:
        self.services: dict[str, str] = {}
        """State by host."""
        self.servers: dict[str, list[str]] = {}
        self.asked: set[str] = set()
        self.deleted: list[str] = []

    async def find(self, request: web.Request) -> web.Response:
        host = request.query["host"]
        self.asked.add(host)
        state = self.services.get(host)
        return web.json_response({"services": [{"id": f"service-{host}", "state": state}] if state else []})

    async def list(self, request: web.Request) -> web.Response:
        names = self.servers.get(request.query["host"], [])
        return web.json_response({"servers": [{"name": name} for name in names]})

    async def delete(self, request: web.Request) -> web.Response:
        host = request.match_info["id"].removeprefix("service-")
        del self.services[host]
        self.deleted.append(host)
        return web.Response(status=204)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/os-services", self.find),
            web.get("/servers", self.list),
            web.delete("/os-services/{id}", self.delete),
        ]


@contextlib.asynccontextmanager
async def compute_api(monkeypatch: pytest.MonkeyPatch, routes: Iterable[web.RouteDef]) -> AsyncIterator[None]:
    """A Keystone that lets everybody in, and a compute API on loopback; Novas of the test use them."""

    async def token(_: web.Request) -> web.Response:
        return web.json_response({}, status=201, headers={"X-Subject-Token": "t"})

    keystone, compute = web.Application(), web.Application()
    keystone.router.add_post("/auth/tokens", token)
    compute.add_routes(routes)
    app = web.Application()
    app.add_subapp("/v3", keystone)
    app.add_subapp("/v2.1", compute)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    monkeypatch.setattr(removal, "api_url", lambda scope: f"http://{host}:{port}/v2.1")
    monkeypatch.setitem(globals(), "KEYSTONE_URL", f"http://{host}:{port}/v3")
    try:
        yield
    finally:
        await runner.cleanup()


def compute_pod(namespace: str, node: str) -> Any:
    """A nova-compute of a DaemonSet on a node."""
    tags = labels.pod("nova", "nova-cell1-compute", "compute", ours.NOVA_COMPUTE.kind)
    container = {"name": "nova-compute", "image": "x"}
    metadata = {"name": "compute", "namespace": namespace, "labels": tags}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}


async def test_a_host_that_no_template_asks_for_is_forgotten_once_it_is_empty(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 99. Regression r80."""
    first, second, third = (f"{name}.{world.namespace}" for name in ("first", "second", "third"))
    tags = {"test-cell": world.namespace}
    templates = {"cell1": {"computes": {"compute": {"nodeSelector": tags}}}}
    nova_api = Computes()
    nova_api.services = {first: "up", second: "up", "hand-made": "down"}
    nova_api.servers = {second: ["web", "db"]}

    async def label(node: str, value: str | None) -> None:
        await world.patch(kinds.NODE, node, {"metadata": {"labels": {"test-cell": value}}})

    async def registered() -> dict[str, str]:
        return dict((await world.get(kinds.CONFIGMAP, "nova-mapped-hosts")).get("data") or {})

    async with compute_api(monkeypatch, nova_api.routes()), asyncio.TaskGroup() as group:
        playing = group.create_task(world.play_servers())
        for node in (first, second):
            await world.api.create(kinds.NODE, {"metadata": {"name": node, "labels": tags}})
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {"cellTemplates": templates})
        async with operator(world) as running:
            await world.until_condition(ours.NOVA, "nova", "HostRemovalReady")
            await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="2 hosts")
            assert await registered() == {first: "cell1", second: "cell1"}

            # First its nova-compute must have ended, then Nova must have noticed.
            await world.api.create(kinds.POD, compute_pod(world.namespace, second))
            await label(second, None)
            text = f"host {second} of cell cell1: its nova-compute ends"
            await world.until_condition(ours.NOVA, "nova", "HostRemovalReady", "Unknown", "HostsEnding", text=text)
            assert nova_api.asked == set()
            await world.delete(kinds.POD, "compute")
            path = kinds.POD.path(world.namespace, "compute")
            with contextlib.suppress(errors.ApiError):
                await world.api.request("DELETE", path, body={"gracePeriodSeconds": 0})
            await world.until_condition(
                ours.NOVA, "nova", "HostRemovalReady", "Unknown", "HostsEnding", text="reported a moment ago"
            )
            nova_api.services[second] = "down"
            item = await world.until_condition(ours.NOVA, "nova", "HostRemovalReady", "False", "HostsInUse")
            assert "2 servers are on it (web, db)" in condition(item, "HostRemovalReady")[2]
            assert condition(item, "Ready")[1] != "HostsInUse"

            # It comes back before it is empty, and goes again.
            await label(second, world.namespace)
            await world.until_condition(ours.NOVA, "nova", "HostRemovalReady")
            await label(second, None)
            await world.until_condition(ours.NOVA, "nova", "HostRemovalReady", "False", "HostsInUse")

            # A later Job does not know it.
            await world.api.create(kinds.NODE, {"metadata": {"name": third, "labels": tags}})
            await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="2 hosts")
            assert (await told_of_hosts(world))["nova-hosts"] == {first: "cell1", third: "cell1"}
            await running.settle()
            assert nova_api.deleted == []

        nova_api.servers.clear()
        async with operator(world):
            await world.until_condition(ours.NOVA, "nova", "HostRemovalReady")
            assert nova_api.deleted == [second]
            assert nova_api.asked == {second}
            assert set(nova_api.services) == {first, "hand-made"}
            assert await registered() == {first: "cell1", third: "cell1"}

            await label(second, world.namespace)
            await world.until_condition(ours.NOVA, "nova", "HostMappingsReady", text="3 hosts")
            assert (await told_of_hosts(world))["nova-hosts"] == {first: "cell1", second: "cell1", third: "cell1"}
            assert second in await registered()
            assert nova_api.deleted == [second]
        playing.cancel()


OLD = "Current Nova version does not support computes older than Gazpacho"
VERDICTS = [["Cells v2", "Success", ""], ["Older than N-1 computes", "Failure", OLD], ["Policy", "Warning", "is JSON"]]


@pytest.mark.usefixtures("registered")
async def test_the_verdicts_of_novas_upgrade_check_are_told_and_ready_does_not_wait_for_them(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_check, "DELAY_SECONDS", 0)
    world.node.hold("nova/upgrade-check")
    async with operator(world) as running, asyncio.TaskGroup() as group:
        await surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {"computes": {}}}})
        await world.until_ready(ours.NOVA, "nova")
        item = await world.until_condition(ours.NOVA, "nova", "UpgradeCheckPassed", "Unknown", "JobRunning")
        assert "upgradeChecks" not in item["status"]

        world.node.statuses["nova/upgrade-check"] = said(json.dumps(VERDICTS))
        world.node.held.clear()
        for pod in await world.all(kinds.POD):
            if kubelet.component(pod) == "nova/upgrade-check":
                await world.patch(
                    kinds.POD, pod["metadata"]["name"], {"status": said(json.dumps(VERDICTS))(pod)}, "status"
                )
        item = await world.until_condition(ours.NOVA, "nova", "UpgradeCheckPassed", "False", "Failure")
        told = f"Older than N-1 computes: {OLD}; Policy: is JSON; passed: Cells v2"
        assert condition(item, "UpgradeCheckPassed")[2] == told
        assert condition(item, "Ready")[0] == "True"
        assert condition(item, "Reconciling")[0] == condition(item, "Stalled")[0] == "False"
        assert item["status"]["upgradeChecks"] == [
            {"name": "Cells v2", "verdict": "Success"},
            {"name": "Older than N-1 computes", "verdict": "Failure", "details": OLD},
            {"name": "Policy", "verdict": "Warning", "details": "is JSON"},
        ]

        # Not again while nothing changes, also where somebody removes pods that have ended; and again when what it
        # reads does.
        jobs = {job["metadata"]["uid"] for job in await world.all(kinds.JOB)}
        for pod in await world.all(kinds.POD):
            if kubelet.component(pod) == "nova/upgrade-check":
                await world.delete(kinds.POD, pod["metadata"]["name"])
        await world.patch(ours.NOVA, "nova", {"metadata": {"annotations": {"touched": "yes"}}})
        await running.settle()
        assert {job["metadata"]["uid"] for job in await world.all(kinds.JOB)} == jobs
        item = await world.get(ours.NOVA, "nova")
        assert condition(item, "UpgradeCheckPassed") == ("False", "Failure", told)
        assert len(item["status"]["upgradeChecks"]) == 3
        world.node.statuses["nova/upgrade-check"] = said(json.dumps(VERDICTS[:1]))
        text = "[service_user]\nauth_type = password\n[DEFAULT]\nstate_path = /elsewhere\n"
        await world.patch(ours.NOVA, "nova", {"spec": {"customServiceConfig": text}})
        item = await world.until_condition(ours.NOVA, "nova", "UpgradeCheckPassed", "True", "Success")
        assert condition(item, "UpgradeCheckPassed")[2] == "passed: Cells v2"
        assert len([name for name in await world.names(kinds.JOB) if "upgrade-check" in name]) == 1
        playing.cancel()


async def test_a_nova_rolls_out_to_its_computes(world: Any, registered: set[str]) -> None:
    """Regression f4. What ends where Keystone refuses its login is not started before that knows it."""
    world.node.hold("nova/compute")
    registered.clear()
    async with operator(world) as running:
        await surroundings(world)
        await world.create(ours.NOVA, "nova", {"replicas": 2, "customServiceConfig": "[DEFAULT]\ndebug = true\n"})
        await granted(world)
        await world.until_ready(ours.NOVA_API, "nova-api")
        for resource, name in REFUSED:
            where = f"Nova {world.namespace}/nova is not CatalogReady: Keystone {world.namespace}/keystone is not Ready"
            await world.until_condition(resource, name, "DependenciesReady", "False", "DependencyNotReady", text=where)
            assert await world.find(kinds.DEPLOYMENT, name) is None
        registered.add("keystone")
        await set_condition(world, ours.KEYSTONE, "keystone", "Ready")
        await world.until_ready(ours.NOVA_SCHEDULER, "nova-scheduler")
        await world.until_ready(ours.NOVA_CONDUCTOR, "nova-conductor")
        await world.until_ready(ours.NOVA_METADATA, "nova-metadata")
        await world.until_ready(ours.NOVA_CONDUCTOR, "nova-cell1-conductor")
        await world.until_ready(ours.NOVA_NOVNCPROXY, "nova-cell1-novncproxy")
        await running.settle()

        nova_api = await world.get(ours.NOVA_API, "nova-api")
        assert nova_api["spec"]["replicas"] == 2
        (level,) = nova_api["spec"]["inheritedConfig"]
        assert (level["origin"], level["text"]) == (
            "spec.customServiceConfig of Nova nova",
            "[DEFAULT]\ndebug = true\n",
        )
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
            ours.NOVA_COMPUTE, "nova-cell1-compute", "DependenciesReady", "False", "DependencyNotReady", "Placement"
        )
        where = f"Placement {world.namespace}/placement is not Ready: no status yet"
        assert condition(compute, "DependenciesReady")[2] == where
        assert await world.find(kinds.DAEMONSET, "nova-cell1-compute") is None
        libvirt = await world.get(kinds.DAEMONSET, "nova-cell1-compute-libvirt")
        assert libvirt["spec"]["template"]["spec"]["nodeSelector"] == {"openstack.k8s.io/compute": "true"}
        assert libvirt["spec"]["template"]["spec"]["hostPID"] is True

        # Those that have started are not asked again.
        registered.clear()
        await set_condition(world, ours.KEYSTONE, "keystone", "Unheard")
        await world.until_condition(ours.NOVA, "nova", "CatalogReady", "False", "KeystoneNotReady")
        await set_condition(world, ours.PLACEMENT, "placement", "Ready")
        await world.until_condition(
            ours.NOVA_COMPUTE, "nova-cell1-compute", "DependenciesReady", "False", text="/nova is not CatalogReady"
        )
        for resource, name in REFUSED:
            await world.until_ready(resource, name)


REFUSED = (
    (ours.NOVA_CONDUCTOR, "nova-conductor"),
    (ours.NOVA_SCHEDULER, "nova-scheduler"),
    (ours.NOVA_CONDUCTOR, "nova-cell1-conductor"),
)
"""Parts that end where Keystone does not know their user."""


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


@pytest.mark.usefixtures("registered")
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


def said(message: str) -> Any:
    """The end of a Job's pod that left this termination message."""

    def status(pod: Any) -> Any:
        found = kubelet.succeeded(pod)
        for container in found["containerStatuses"]:
            container["state"]["terminated"]["message"] = message
        return found

    return status


SERVER = ["5d7a5ab4-3b1f-4b5c-9f3e-4f5b3a1f3c11", "web"]
FOUND = json.dumps({"servers": [SERVER], "count": 3, "hosts": ["foreign.example"]})
TWO_CELLS = {"cell1": {}, "cell2": {"computes": {"compute": {"nodeSelector": {"cell": "2"}}}}}


@pytest.fixture
async def two_cells(world: Any, registered: set[str]) -> AsyncIterator[Any]:
    """A Nova with two cells whose parts work; MariaDB and RabbitMQ grant and drop whatever they are asked."""
    async with operator(world), asyncio.TaskGroup() as group:
        await surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": TWO_CELLS})
        for cell in TWO_CELLS:
            await world.until_ready(ours.NOVA_CONDUCTOR, f"nova-{cell}-conductor")
        await parts_ready(world)
        yield world
        playing.cancel()


async def parts_ready(world: Any) -> None:
    await world.until_ready(ours.NOVA_API, "nova-api")
    await world.until_ready(ours.NOVA_SCHEDULER, "nova-scheduler")
    await world.until_ready(ours.NOVA_CONDUCTOR, "nova-conductor")
    await world.until_ready(ours.NOVA_METADATA, "nova-metadata")


async def uids(world: Any, prefix: str) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in await world.all(kinds.POD)
        if pod["metadata"]["labels"]["app.kubernetes.io/instance"].startswith(prefix)
    }


async def asked(world: Any) -> tuple[list[str], list[str]]:
    """Databases and virtual hosts that are asked for."""
    mariadb, rabbitmq = await world.get(ours.MARIADB, "mariadb"), await world.get(ours.RABBITMQ, "rabbitmq")
    return (
        sorted(one["name"] for one in mariadb["spec"]["databases"]),
        sorted(one["name"] for one in rabbitmq["spec"]["vhosts"]),
    )


async def test_a_removed_cell_goes_and_the_other_notices_nothing(two_cells: Any) -> None:
    world = two_cells
    world.node.statuses["nova/remove-cell2"] = said("gone")
    before = await uids(world, "nova-cell1-")
    assert before
    await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell2": None}}})
    await world.until_gone(ours.NOVA_CELL, "nova-cell2")
    await world.until_gone(kinds.SECRET, "nova-cell2-db")
    await world.until_gone(kinds.SECRET, "nova-cell2-mq")
    item = await world.until_condition(ours.NOVA, "nova", "CellRemovalReady")
    assert set(item["status"]["registeredCells"]) == {"cell1"}
    await parts_ready(world)
    assert set((await world.get(ours.NOVA_API, "nova-api"))["spec"]["registeredCells"]) == {"cell1"}
    assert await asked(world) == (["nova_api", "nova_cell0", "nova_cell1"], ["nova", "nova-cell1"])
    assert list((await world.get(kinds.CONFIGMAP, "nova-cells"))["data"]) == ["cell1"]
    assert await uids(world, "nova-cell1-") == before

    # It comes back under the same name.
    await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell2": TWO_CELLS["cell2"]}}})
    await world.until_ready(ours.NOVA_CONDUCTOR, "nova-cell2-conductor")
    assert await uids(world, "nova-cell1-") == before
    assert await uids(world, "nova-cell2-")


async def test_the_database_stands_until_nova_has_forgotten_the_cell(two_cells: Any) -> None:
    """Nova answers every list of servers with an error while it knows a cell without a database."""
    world = two_cells
    world.node.statuses["nova/remove-cell2"] = said("gone")
    world.node.hold("nova/api")
    await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell2": None}}})
    await world.until_gone(ours.NOVA_CELL, "nova-cell2")
    await world.until_condition(ours.NOVA, "nova", "CellRemovalReady", "False", text="NovaAPI")
    assert "nova_cell2" in (await asked(world))[0]
    await world.node.release("nova/api")
    await world.until_condition(ours.NOVA, "nova", "CellRemovalReady")
    assert "nova_cell2" not in (await asked(world))[0]


@pytest.fixture
async def compute_api_answers(world: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[set[str]]:
    """A Keystone and a compute API that know the servers in this set, and that every host is up."""
    servers = {SERVER[0]}

    async def find(request: web.Request) -> web.Response:
        uuid = request.query["uuid"]
        return web.json_response({"servers": [{"id": uuid}] if uuid in servers else []})

    async def services(_: web.Request) -> web.Response:
        return web.json_response({"services": [{"state": "up"}]})

    monkeypatch.setattr(removal, "LOOK_AGAIN_SECONDS", 0.2)
    async with compute_api(monkeypatch, [web.get("/servers", find), web.get("/os-services", services)]):
        yield servers


async def test_a_cell_with_servers_stays_until_they_are_gone(compute_api_answers: set[str], two_cells: Any) -> None:
    """Case 99."""
    world = two_cells
    world.node.statuses["nova/remove-cell2"] = said(FOUND)
    before = await uids(world, "nova-")
    await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell2": None}}})
    item = await world.until_condition(ours.NOVA, "nova", "CellRemovalReady", "False", "CellInUse")
    message = condition(item, "CellRemovalReady")[2]
    assert "servers web (5d7a5ab4-3b1f-4b5c-9f3e-4f5b3a1f3c11) and 2 more; hosts foreign.example" in message
    assert set(item["status"]["registeredCells"]) == {"cell1", "cell2"}
    assert await world.find(ours.NOVA_CELL, "nova-cell2") is not None
    assert await uids(world, "nova-") >= before

    world.node.statuses["nova/remove-cell2"] = said("gone")
    compute_api_answers.clear()
    await world.until_gone(ours.NOVA_CELL, "nova-cell2")
    await world.until_condition(ours.NOVA, "nova", "CellRemovalReady")
    assert "nova_cell2" not in (await asked(world))[0]


@pytest.mark.usefixtures("registered")
async def test_a_cell_that_cannot_go_holds_up_no_other(compute_api_answers: set[str], world: Any) -> None:
    """Regression f8: the first deletion that failed ended the pass, and no later cell was ever looked at."""
    world.node.statuses["nova/remove-cell2"] = said(FOUND)
    world.node.statuses["nova/remove-cell3"] = kubelet.failed("Access denied for user")
    world.node.statuses["nova/remove-cell4"] = said("gone")
    own = {cell: {"computes": {"x": {"nodeSelector": {"cell": cell}}}} for cell in ("cell2", "cell3", "cell4")}
    async with operator(world), asyncio.TaskGroup() as group:
        await surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {}} | own})
        for cell in own:
            await world.until_ready(ours.NOVA_CONDUCTOR, f"nova-{cell}-conductor")
        await parts_ready(world)
        await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": dict.fromkeys(own)}})
        await world.until_gone(ours.NOVA_CELL, "nova-cell4")
        await world.until_gone(kinds.SECRET, "nova-cell4-db")
        item = await world.until_condition(ours.NOVA, "nova", "CellRemovalReady", "False", text="servers web")
        assert set(item["status"]["registeredCells"]) == {"cell1", "cell2", "cell3"}
        for cell in ("cell2", "cell3"):
            assert await world.find(ours.NOVA_CELL, f"nova-{cell}") is not None
        playing.cancel()


async def test_a_cell_goes_by_force_with_what_is_in_it(two_cells: Any) -> None:
    world = two_cells
    modes = []

    def answer(pod: Any) -> Any:
        modes.append(pod["spec"]["containers"][0]["command"][4])
        return said("gone")(pod)

    world.node.statuses["nova/remove-cell2"] = answer
    change = {"cellTemplates": {"cell2": None}, "forcedCellRemovals": ["cell2"]}
    await world.patch(ours.NOVA, "nova", {"spec": change})
    await world.until_gone(kinds.SECRET, "nova-cell2-db")
    await world.until_condition(ours.NOVA, "nova", "CellRemovalReady")
    assert set(modes) == {"force"}
    with pytest.raises(Exception, match="must not be in cellTemplates"):
        await world.patch(ours.NOVA, "nova", {"spec": {"cellTemplates": {"cell2": {}}}})


async def test_another_password_of_a_cell_rolls_the_cell_and_what_reads_its_mapping(two_cells: Any) -> None:
    """Case 52."""
    world = two_cells
    cell1, metadata = await uids(world, "nova-cell1-"), await uids(world, "nova-cell2-")
    known = (await world.get(ours.NOVA_API, "nova-api"))["spec"]["registeredCells"]
    new = base64.b64encode(b"another").decode()
    await world.patch(kinds.SECRET, "nova-cell2-db", {"data": {"password": new}})
    await world.grant(ours.MARIADB, "databases", "mariadb", "nova_cell2")

    def is_changed(item: Any) -> bool:
        return bool(item["spec"]["registeredCells"]["cell2"] != known["cell2"])

    nova_api = await world.until(ours.NOVA_API, is_changed, "nova-api")
    assert nova_api["spec"]["registeredCells"]["cell1"] == known["cell1"]
    await parts_ready(world)
    await world.until_ready(ours.NOVA_CONDUCTOR, "nova-cell2-conductor")
    secret = decoded(await world.get(kinds.SECRET, "nova-config-secrets"))["cell-cell2.conf.20-secret"]
    assert "nova_cell2:another@" in secret
    assert "nova_cell2:another@" in str(decoded(await world.get(kinds.SECRET, "nova-cell2-conductor-config-secrets")))
    assert await uids(world, "nova-cell1-") == cell1
    assert await uids(world, "nova-cell2-") != metadata


@pytest.mark.usefixtures("registered")
async def test_cells_with_names_that_look_alike_do_not_meet(world: Any) -> None:
    """Regression f6."""
    computes = {"computes": {"a-x": {"driver": "Fake"}, "x": {"driver": "Fake"}}}
    cells = {"cell1": computes, "cell10": computes, "cell1-0": computes, "cell1-a": computes}
    async with operator(world), asyncio.TaskGroup() as group:
        await surroundings(world)
        playing = group.create_task(world.play_servers())
        await world.create(ours.NOVA, "nova", {"cellTemplates": cells})
        await world.until_condition(ours.NOVA, "nova", "ConductorReady")
        for cell in cells:
            name = children.name("nova", cell)
            await world.until_ready(ours.NOVA_CONDUCTOR, f"{name}-conductor")
            for part in computes["computes"]:
                await world.until(ours.NOVA_COMPUTE, bool, children.name(name, part))
        databases, vhosts = await asked(world)
        assert len(databases) == len(set(databases)) == 6
        assert len(vhosts) == len(set(vhosts)) == 5
        assert len(await world.all(ours.NOVA_COMPUTE)) == 8
        playing.cancel()


async def test_each_part_works_alone_from_secrets(world: Any) -> None:
    """Seed 000: each service can be deployed with nothing but Secrets with user, password and hostname."""
    for name in ("api-database", "cell-database", "bus"):
        await world.secret(name, user=name, password=PASSWORD, hostname="elsewhere.example")
    await world.secret("user", user="nova", password=PASSWORD)
    await world.secret("shared", secret="shared")
    process = {
        "authUrl": KEYSTONE_URL,
        "memcachedServers": "memcached:11211",
        "serviceUserSecretRef": {"name": "user"},
        "messagingSecretRef": {"name": "bus"},
    }
    cell = process | {"cellDatabaseSecretRef": {"name": "cell-database"}}
    top = cell | {"apiDatabaseSecretRef": {"name": "api-database"}}
    specs = {
        ours.NOVA_API: top,
        ours.NOVA_SCHEDULER: top,
        ours.NOVA_CONDUCTOR: cell,
        ours.NOVA_METADATA: cell | {"metadataSecretRef": {"name": "shared"}},
        ours.NOVA_NOVNCPROXY: cell,
        ours.NOVA_COMPUTE: process | {"driver": "Fake"},
        ours.NOVA_CELL: cell
        | {
            "cellName": "cell7",
            "metadataSecretRef": {"name": "shared"},
            "metadata": {"enabled": True},
            "computes": {"compute": {"driver": "Fake"}},
            "publicEndpoint": {"type": "LoadBalancer", "host": "consoles.example"},
        },
    }
    async with operator(world):
        for resource, spec in specs.items():
            await world.create(resource, f"alone-{resource.kind.lower().removeprefix('nova')}", spec)
        for resource in specs:
            await world.until_ready(resource, f"alone-{resource.kind.lower().removeprefix('nova')}")
        made = [resource for resource in (ours.NOVA, ours.MARIADB, ours.RABBITMQ) if await world.all(resource)]
        assert made == []


LIBVIRT = "nova-cell1-compute-libvirt"


async def heart_beats(world: Any, node: str) -> None:
    now = conditions.now()
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await world.patch(kinds.NODE, node, {"status": {"conditions": [ready]}}, "status")


async def deleted_with_a_node(world: Any) -> str:
    """A Nova that is being deleted, and waits for libvirt's pod on a node to end; returns the node."""
    node = f"node-{world.namespace}"
    await world.api.create(kinds.NODE, {"metadata": {"name": node, "labels": {"test": world.namespace}}})
    group = {"nodeSelector": {"test": world.namespace}, "tolerations": [{"operator": "Exists"}]}
    await surroundings(world)
    await world.create(ours.NOVA, "nova", {"cellTemplates": {"cell1": {"computes": {"compute": group}}}})
    await granted(world)
    await bound(world, LIBVIRT, "nova/libvirt", node)
    await heart_beats(world, node)
    await world.delete(ours.NOVA, "nova")
    text = "NovaCompute nova-cell1-compute"
    await world.until_condition(ours.NOVA, "nova", "Ready", "False", "Deleting", text=text)
    await world.until_gone(kinds.DAEMONSET, LIBVIRT)
    return node


async def end_libvirt(world: Any, node: str) -> None:
    (pod,) = [one for one in await world.all(kinds.POD) if kubelet.component(one) == "nova/libvirt"]
    await heart_beats(world, node)
    path = kinds.POD.path(world.namespace, pod["metadata"]["name"])
    await world.api.request("DELETE", path, body={"gracePeriodSeconds": 0})


async def test_nodes_are_cleaned_before_a_deleted_nova_is_gone(world: Any) -> None:
    """Field case: a nova-compute refuses to start where libvirt still has guests of a cloud that is gone.
    Regression r14, r28."""
    world.node.hold("nova/cleanup")
    async with operator(world):
        node = await deleted_with_a_node(world)
        await end_libvirt(world, node)
        text = f"removes guests on {node}"
        await world.until_condition(ours.NOVA_COMPUTE, "nova-cell1-compute", "Ready", "False", "Deleting", text=text)
        await bound(world, "nova-cell1-compute-cleanup", "nova/cleanup", node)
        await world.node.release("nova/cleanup")
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-compute")
        await world.until_condition(ours.NOVA, "nova", "Ready", "False", "Deleting", text="NotDropped")


async def test_a_namespace_is_not_held_up_by_nodes_that_nobody_can_clean_any_more(world: Any) -> None:
    """In a namespace that is being deleted no pod can be made that would remove guests."""
    async with operator(world):
        node = await deleted_with_a_node(world)
        await world.api.delete(kinds.NAMESPACE, world.namespace, None)
        await end_libvirt(world, node)
        await world.until_gone(ours.NOVA_COMPUTE, "nova-cell1-compute")
    assert [one["metadata"]["name"] for one in await world.all(kinds.DAEMONSET)] == []


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"cell0": {}}, "cell0 belongs to Nova itself"),
        ({"api": {}}, "names of other parts of Nova"),
        ({"cell1": {"computes": {"conductor": {}}}}, "names of other parts of the cell"),
        ({"Cell_1": {}}, "names must have 1 to 16 characters"),
        ({"cell1": {"computes": {"a.b": {}}}}, "names must have 1 to 16 characters"),
    ],
)
async def test_names_of_cells_that_no_object_can_have_are_refused(world: Any, cells: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        await world.create(ours.NOVA, "nova", {"cellTemplates": cells})
