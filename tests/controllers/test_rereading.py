"""Mutable options of processes that read them again: which pods are replaced, and what is said of those that are not.

No container runs here, so that nobody can bring a text to one: the server refuses the exec, as it does for a pod whose
node is gone. What a process does with a text is tested in tests/kit and on a real cloud (tests/e2e).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from openstack_operator.cli import plan
from openstack_operator.kit import config, rereading
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client, conditions, drift, kinds
from openstack_operator.services import nova

DEBUG = "[DEFAULT]\ndebug = true\n"
QUIET = "[DEFAULT]\ndebug = false\n"
OTHER = "[DEFAULT]\nrpc_response_timeout = 90\n"
PROCESSES = {
    ours.NOVA_CONDUCTOR: "DeploymentReady",
    ours.NOVA_SCHEDULER: "DeploymentReady",
    ours.NOVA_COMPUTE: "ComputeReady",
}
REREADERS = (ours.NOVA_CONDUCTOR, ours.NOVA_COMPUTE)


def digest(value: str) -> str:
    return drift.digest({"nova.conf": {"DEFAULT/debug": [value]}})


@pytest.fixture
async def alone(world: Any) -> AsyncIterator[Any]:
    """A conductor, a scheduler and a nova-compute without a cloud around them."""
    for name in ("api", "cell", "bus", "user"):
        await world.secret(name, user=name, password="p", hostname="elsewhere.example")
    process = {
        "authUrl": "http://keystone:5000/v3",
        "memcachedServers": "memcached:11211",
        "serviceUserSecretRef": {"name": "user"},
        "messagingSecretRef": {"name": "bus"},
    }
    databases = {"cellDatabaseSecretRef": {"name": "cell"}, "apiDatabaseSecretRef": {"name": "api"}}
    async with world.operator("glance", controllers=nova.SERVICE.controllers) as operator:
        world.settle = operator.settle
        for resource in PROCESSES:
            spec = process | ({"driver": "Fake"} if resource == ours.NOVA_COMPUTE else databases)
            await world.create(resource, resource.kind.lower(), spec)
        await ready(world)
        yield world


async def ready(world: Any) -> None:
    for resource in PROCESSES:
        await world.until_ready(resource, resource.kind.lower())
    await world.settle()


async def write(world: Any, text: str) -> None:
    for resource in PROCESSES:
        await world.patch(resource, resource.kind.lower(), {"spec": {"customServiceConfig": text}})


async def template(world: Any, resource: kinds.Resource) -> dict[str, Any]:
    item = await world.get(kinds.DEPLOYMENT, resource.kind.lower())
    return item["spec"]["template"]


async def pods(world: Any, resource: kinds.Resource) -> list[Any]:
    tag = "app.kubernetes.io/instance"
    return [
        pod
        for pod in await world.all(kinds.POD)
        if pod["metadata"]["labels"][tag] == resource.kind.lower() and "deletionTimestamp" not in pod["metadata"]
    ]


async def read_again(world: Any, value: str) -> None:
    """What the operator notes when processes have read a text again."""
    for resource in REREADERS:
        for pod in await pods(world, resource):
            patch = {"metadata": {"annotations": {config.MUTABLE_HASH: digest(value)}}}
            await world.patch(kinds.POD, pod["metadata"]["name"], patch)


async def test_a_mutable_option_replaces_no_pod_of_those_that_read_it_again(alone: Any) -> None:
    before = {resource: await template(alone, resource) for resource in PROCESSES}
    names = {resource: [pod["metadata"]["name"] for pod in await pods(alone, resource)] for resource in PROCESSES}
    await write(alone, DEBUG)
    for resource in REREADERS:
        (name,) = names[resource]
        where = (resource, resource.kind.lower(), PROCESSES[resource], "False", rereading.NOT_REREAD)
        item = await alone.until_condition(*where, text=f"[DEFAULT] debug: pod {name}: ")
        assert not conditions.is_ready(item)
    await alone.until_ready(ours.NOVA_SCHEDULER, "novascheduler")
    assert {resource: before[resource] == await template(alone, resource) for resource in PROCESSES} == {
        ours.NOVA_CONDUCTOR: True,
        ours.NOVA_SCHEDULER: False,
        ours.NOVA_COMPUTE: True,
    }
    data = (await alone.get(kinds.CONFIGMAP, "novaconductor-config-data"))["data"]
    assert data["nova.conf.90-custom"].endswith(DEBUG), "a pod that starts reads it"

    await read_again(alone, "true")
    for resource in REREADERS:
        item = await alone.until_ready(resource, resource.kind.lower())
        found = conditions.find(item, PROCESSES[resource])
        assert found is not None
        assert "without a restart 1 pod read again: [DEFAULT] debug" in found["message"]
        assert [pod["metadata"]["name"] for pod in await pods(alone, resource)] == names[resource]
    await alone.settle()
    size = alone.cluster.audit_size()
    await alone.patch(ours.NOVA_CONDUCTOR, "novaconductor", {"metadata": {"labels": {"a": "b"}}})
    await alone.settle()
    assert alone.requests(size) == [], "a pass that changes nothing asks nobody"


async def test_another_option_replaces_them_and_the_mutable_one_goes_with_it(alone: Any) -> None:
    await write(alone, DEBUG + OTHER)
    await ready(alone)
    first = await template(alone, ours.NOVA_CONDUCTOR)
    assert first["metadata"]["annotations"][config.MUTABLE_HASH] == digest("true")

    # Both at once, and back: new pods have read all of it, and nobody is asked to read again.
    size = alone.cluster.audit_size()
    await write(alone, QUIET + OTHER.replace("90", "91"))
    await ready(alone)
    second = await template(alone, ours.NOVA_CONDUCTOR)
    assert first["metadata"]["annotations"][config.HASH] != second["metadata"]["annotations"][config.HASH]
    assert second["metadata"]["annotations"][config.MUTABLE_HASH] == digest("false")
    assert [one for one in alone.requests(size) if one[1] in ("pods/exec", "pods")] == []


async def test_a_pod_that_starts_after_the_change_is_asked_as_well(alone: Any) -> None:
    """It has read the new text, and carries the mark of the former one: only the pod itself can tell."""
    await write(alone, DEBUG)
    await alone.until_condition(ours.NOVA_CONDUCTOR, "novaconductor", "DeploymentReady", "False", rereading.NOT_REREAD)
    await read_again(alone, "true")
    await ready(alone)
    await alone.patch(ours.NOVA_CONDUCTOR, "novaconductor", {"spec": {"replicas": 2}})
    item = await alone.until_condition(
        ours.NOVA_CONDUCTOR, "novaconductor", "DeploymentReady", "False", rereading.NOT_REREAD
    )
    message = conditions.find(item, "DeploymentReady")["message"]  # type: ignore[index]
    (new,) = [
        pod["metadata"]["name"]
        for pod in await pods(alone, ours.NOVA_CONDUCTOR)
        if config.MUTABLE_HASH not in pod["metadata"].get("annotations", {})
    ]
    assert message.startswith(f"[DEFAULT] debug: pod {new}: ")


async def test_a_plan_says_what_is_applied_without_a_restart(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.logs, "configure", lambda *_: None)
    settings = client.Config.from_kubeconfig(alone.cluster.kubeconfig)
    documents = []
    for resource in PROCESSES:
        item = await alone.get(resource, resource.kind.lower())
        head = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": item["metadata"]["name"]},
        }
        documents.append(head | {"spec": item["spec"] | {"customServiceConfig": DEBUG}})
    services = ("nova",)

    async def planned() -> dict[str, str]:
        found = await plan.make(yaml.safe_dump_all(documents), settings, alone.namespace, services)
        shown = "\n".join(plan._text(found))
        assert "read again" in {one.verb for one in found.changes}
        assert "↻" in shown
        return {one.name: one.pods for one in found.changes if one.pods}

    size = alone.cluster.audit_size()
    assert await planned() == {
        "novaconductor": "applied without a restart in 1 pod: [DEFAULT] debug",
        "novascheduler": "replaces 1 pod",
        "novacompute": "applied without a restart in 1 pod: [DEFAULT] debug",
    }
    assert [one for one in alone.requests(size) if one[1] == "pods/exec"] == []
    documents[0]["spec"]["customServiceConfig"] += OTHER
    assert (await planned())["novaconductor"] == "replaces 1 pod"
