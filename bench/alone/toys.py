"""The same work for each of the operators: N objects with three children each, an idle minute, drift, a restart.

And what each of them holds with many children in its caches. Every operator has an API server of its own, empty when it
starts. Called by `operator_alone`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import toy

from alone import kubernetes, process, workloads
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import client, conditions, kinds

NAMESPACE = "bench"
AGENT = "operator-alone"
AT_ONCE = 8
"""Requests of the driver at a time."""

LIMIT_SECONDS = 900

Object = dict[str, Any]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Side:
    """One operator: the command that is followed by kubeconfig, namespace, Lease and user agent."""

    name: str
    command: tuple[str, ...]
    agents: tuple[str, ...] = (AGENT,)
    """Beginnings of the user agents in its requests."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    objects: int = 500
    children: int = 5000
    idle_seconds: float = 60


class Bench:
    """One API server and one operator on it."""

    def __init__(self, cluster: ControlPlane, side: Side, api: client.Client) -> None:
        self.cluster, self.side, self.api = cluster, side, api

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[process.Process]:
        arguments = (str(self.cluster.kubeconfig), NAMESPACE, "bench-lease", AGENT)
        log = self.cluster.directory / "operator.log"
        environment = {"KUBECONFIG": str(self.cluster.kubeconfig)}
        async with process.Process((*self.side.command, *arguments), log, environment) as running:
            yield running

    async def create(self, numbers: Iterable[int]) -> None:
        async def one(number: int) -> None:
            metadata = {"name": f"toy-{number}", "namespace": NAMESPACE}
            await self.api.create(toy.RESOURCE, {"metadata": metadata, "spec": {}})

        await at_once(one, numbers)

    async def until(self, resource: kinds.Resource, count: int, is_met: Callable[[Object], bool]) -> None:
        """Watches until so many objects are as wanted."""
        met: set[str] = set()
        async with asyncio.timeout(LIMIT_SECONDS):
            async for page in self.api.list_pages(resource, NAMESPACE, {}):
                version = page["metadata"]["resourceVersion"]
                met |= {item["metadata"]["name"] for item in page["items"] if is_met(item)}
            if len(met) >= count:
                return
            async with contextlib.aclosing(self.api.watch(resource, NAMESPACE, {}, version)) as stream:
                async for event in stream:
                    if event["type"] in ("ADDED", "MODIFIED") and is_met(event["object"]):
                        met.add(event["object"]["metadata"]["name"])
                    if len(met) >= count:
                        return
        raise RuntimeError(f"the watch of {resource.plural} ended")

    def requests(self, since: int) -> kubernetes.Counts:
        return kubernetes.requests(self.cluster, self.side.agents, since)


async def at_once(call: Callable[[T], Awaitable[None]], subjects: Iterable[T]) -> None:
    """Makes a call for each subject, some of them at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(subject: T) -> None:
        async with slots:
            await call(subject)

    await asyncio.gather(*map(one, subjects))


def is_ready(item: Object) -> bool:
    return conditions.is_ready(item)


@contextlib.asynccontextmanager
async def prepared(programs: Path, side: Side) -> AsyncIterator[Bench]:
    """An API server with the toys' kind and an empty namespace."""
    with kubernetes.started(programs) as cluster:
        cluster.apply(toy.crd())
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{toy.RESOURCE.full_name}", "--timeout=60s")
        cluster.request("POST", kinds.NAMESPACE.path(), {"metadata": {"name": NAMESPACE}})
        async with client.Client(client.Config.from_kubeconfig(cluster.kubeconfig), "user") as api:
            try:
                yield Bench(cluster, side, api)
            except BaseException:
                # It goes with its directory.
                print((cluster.directory / "operator.log").read_text(errors="replace")[-3000:], file=sys.stderr)
                raise


async def measure(programs: Path, side: Side, sizes: Sizes) -> Object:
    """One round of one operator."""
    async with prepared(programs, side) as bench:
        player = workloads.Workloads(bench.api, NAMESPACE, (kinds.DEPLOYMENT,), pods=False)
        playing = asyncio.ensure_future(player.run())
        try:
            return await _rounds(bench, sizes)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)


async def _rounds(bench: Bench, sizes: Sizes) -> Object:
    out: Object = {}
    size = bench.cluster.audit_size
    async with bench.operator() as running:
        # The first one also shows that the operator is up.
        await bench.create([0])
        await bench.until(toy.RESOURCE, 1, is_ready)
        await running.quiet(size)
        place, cpu, began = size(), running.cpu(), time.monotonic()
        await bench.create(range(1, sizes.objects))
        await bench.until(toy.RESOURCE, sizes.objects, is_ready)
        seconds = time.monotonic() - began
        await running.quiet(size)
        counts = bench.requests(place)
        made = sizes.objects - 1
        out["create"] = {
            "seconds": round(seconds, 1),
            "cpu": round(running.cpu() - cpu, 2),
            "peak": running.peak(),
            "requests": counts,
            "requests per object": round(kubernetes.work(counts) / made, 2),
            "events per object": round(kubernetes.events(counts) / made, 2),
        }
        place, cpu = size(), running.cpu()
        await asyncio.sleep(sizes.idle_seconds)
        counts = bench.requests(place)
        out["idle"] = {
            "seconds": sizes.idle_seconds,
            "cpu": round(running.cpu() - cpu, 2),
            "requests": counts,
            "work": kubernetes.work(counts) + kubernetes.events(counts),
        }
        out["drift"] = await _drift(bench, running, sizes)
    place = size()
    async with bench.operator() as running:
        await asyncio.sleep(3)
        await running.quiet(size)
        counts = bench.requests(place)
        out["restart"] = {
            "cpu": round(running.cpu(), 2),
            "memory": running.memory(),
            "requests": counts,
            "lists": kubernetes.lists(counts),
            "work": kubernetes.work(counts),
        }
    return out


async def _drift(bench: Bench, running: process.Process, sizes: Sizes) -> Object:
    """Each ConfigMap is edited, and all are as before in the end."""
    edited: set[str] = set()

    def is_repaired(item: Object) -> bool:
        return item["metadata"]["name"] in edited and item["data"].get("text") == "hello"

    async def edit(number: int) -> None:
        name = f"toy-{number}"
        path = kinds.CONFIGMAP.path(NAMESPACE, name)
        body = {"data": {"text": "edited"}}
        await bench.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        edited.add(name)

    place, cpu, began = bench.cluster.audit_size(), running.cpu(), time.monotonic()
    await at_once(edit, range(sizes.objects))
    await bench.until(kinds.CONFIGMAP, sizes.objects, is_repaired)
    seconds = time.monotonic() - began
    await running.quiet(bench.cluster.audit_size)
    counts = bench.requests(place)
    return {
        "seconds": round(seconds, 1),
        "cpu": round(running.cpu() - cpu, 2),
        "requests": counts,
        "requests per object": round(kubernetes.work(counts) / sizes.objects, 2),
    }


# --- many children ----------------------------------------------------------------------------------------------------


async def measure_memory(programs: Path, sides: Sequence[Side], sizes: Sizes) -> Object:
    """Megabytes of each operator with so many Deployments in its cache, as big as those of OpenStack's services."""
    out: Object = {}
    async with prepared(programs, sides[0]) as bench:
        await bench.create([0])
        owner = await bench.api.get(toy.RESOURCE, "toy-0", NAMESPACE)

        async def create(number: int) -> None:
            await bench.api.create(kinds.DEPLOYMENT, big_deployment(owner, number))

        await at_once(create, range(sizes.children))
        stored = await bench.api.get(kinds.DEPLOYMENT, "child-0", NAMESPACE)
        out["bytes each"] = len(client.encode(stored))
        for side in sides:
            alone = Bench(bench.cluster, side, bench.api)
            async with alone.operator() as running:
                await asyncio.sleep(5)
                await running.quiet(bench.cluster.audit_size)
                out[side.name] = {
                    "memory": running.memory(),
                    "peak": running.peak(),
                    "cpu": round(running.cpu(), 2),
                }
    return out


def big_deployment(owner: Object, number: int) -> Object:
    """A container and an init container with probes, environment and mounts: about what a service's API has."""
    name = f"child-{number}"
    labels = {f"example.org/label-{one}": f"{name}-{one}" for one in range(6)}

    def container(role: str) -> Object:
        return {
            "name": role,
            "image": f"registry.example.org/openstack/{role}:{number % 7}",
            "command": ["/bin/sh", "-ec", f"exec /usr/bin/{role} --config-file /etc/{name}/{role}.conf"],
            "env": [{"name": f"VARIABLE_{one}", "value": f"value {one} of {name}"} for one in range(10)],
            "volumeMounts": [
                {"name": f"volume-{one}", "mountPath": f"/etc/{name}/{one}", "readOnly": True} for one in range(8)
            ],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
            "securityContext": {"runAsUser": 42435, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
            "livenessProbe": {"httpGet": {"path": "/healthcheck", "port": 8778}, "periodSeconds": 10},
        }

    pod = {
        "initContainers": [{**container("merge"), "livenessProbe": None}],
        "containers": [container("api")],
        "volumes": [{"name": f"volume-{one}", "secret": {"secretName": f"{name}-{one}"}} for one in range(8)],
    }
    reference = {
        "apiVersion": toy.RESOURCE.api_version,
        "kind": toy.RESOURCE.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        # The label is what the operator on kopf selects its children by.
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": labels | {"made-by": "peer"}, "ownerReferences": [reference],
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels | {"app": name}}, "spec": pod},
        },
    }  # fmt: skip
