"""The operator with all its controllers: one cloud, then more and more of them, then clouds of many cells.

Each cloud is a control plane with defaults in a namespace of its own; its computes keep servers in memory, as there are
no nodes. Called by `operator_alone`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from alone import assuming, kubernetes, process, workloads
from openstack_operator import controlplane
from openstack_operator.embedded.apiserver import ControlPlane, free_ports
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import storage
from openstack_operator.runtime import client, conditions, errors, kinds

AGENT = "openstack-operator"
NAME = "openstack"
LIMIT_SECONDS = 300
STEP = 10
"""Clouds that are added at a time."""

Object = dict[str, Any]

STORAGE_CLASS = {
    "apiVersion": kinds.STORAGECLASS.api_version,
    "kind": kinds.STORAGECLASS.kind,
    "metadata": {"name": "standard", "annotations": {storage.DEFAULT: "true"}},
    "provisioner": "example.com/none",
}


class Clouds:
    """An API server, the operator on it, and the clouds that were asked for."""

    def __init__(self, cluster: ControlPlane, api: client.Client, running: process.Process) -> None:
        self.cluster, self.api, self.running = cluster, api, running
        self.count = 0

    async def add(self, number: int, cells: int = 1) -> Object:
        """Asks for so many clouds at once and waits until they are Ready and the operator has nothing left to do; what
        that cost."""
        names = [_name(self.count + one) for one in range(number)]
        self.count += number
        templates = {f"cell{one}": {"computes": {"compute": {"driver": "Fake"}}} for one in range(1, cells + 1)}
        place, cpu, began = self.cluster.audit_size(), self.running.cpu(), time.monotonic()
        for name in names:
            await self.api.create(kinds.NAMESPACE, {"metadata": {"name": name}})
            ovn = {"nodeSelector": {workloads.NODE_LABEL: name}}
            spec = {"ovn": ovn, "nova": {"cellTemplates": templates}}
            body = {"metadata": {"name": NAME, "namespace": name}, "spec": spec}
            await self.api.create(ours.CONTROL_PLANE, body)
        await self._until_ready(names)
        seconds = time.monotonic() - began
        await self.running.quiet(self.cluster.audit_size)
        counts = kubernetes.requests(self.cluster, (AGENT,), place)
        return {
            "clouds": self.count,
            "added": number,
            "seconds per cloud": round(seconds / number, 2),
            "cpu per cloud": round((self.running.cpu() - cpu) / number, 3),
            "requests per cloud": round(kubernetes.work(counts) / number, 1),
            "events per cloud": round(kubernetes.events(counts) / number, 1),
            "requests": counts,
            "memory": self.running.memory(),
            "peak": self.running.peak(),
        }

    async def _until_ready(self, names: Sequence[str]) -> None:
        left = set(names)
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self._follow(left)
        except TimeoutError:
            name = min(left)
            item = await self.api.get(ours.CONTROL_PLANE, NAME, name)
            ready = conditions.find(item, conditions.READY) or {}
            why = ready.get("message", "it has no status")
            raise RuntimeError(f"{len(left)} clouds are not Ready after {LIMIT_SECONDS} s; {name}: {why}") from None

    async def _follow(self, left: set[str]) -> None:
        """Takes out who is Ready, until nobody is left."""
        while left:
            async for page in self.api.list_pages(ours.CONTROL_PLANE, None, {}):
                version = page["metadata"]["resourceVersion"]
                left -= {item["metadata"]["namespace"] for item in page["items"] if conditions.is_ready(item)}
            with contextlib.suppress(errors.ApiUnreachableError):
                async with contextlib.aclosing(self.api.watch(ours.CONTROL_PLANE, None, {}, version)) as stream:
                    async for event in stream:
                        if conditions.is_ready(event["object"] if event["type"] == "MODIFIED" else None):
                            left.discard(event["object"]["metadata"]["namespace"])
                        if not left:
                            return

    async def idle(self, seconds: float) -> Object:
        """What the operator does when nothing happens."""
        place, cpu = self.cluster.audit_size(), self.running.cpu()
        await asyncio.sleep(seconds)
        counts = kubernetes.requests(self.cluster, (AGENT,), place)
        return {
            "seconds": seconds,
            "cpu": round(self.running.cpu() - cpu, 2),
            "requests": counts,
            "work": kubernetes.work(counts) + kubernetes.events(counts),
        }


@contextlib.asynccontextmanager
async def operator(cluster: ControlPlane, python: str) -> AsyncIterator[process.Process]:
    """The whole operator with its webhook, once its caches are filled."""
    health, webhook = free_ports(2)
    command = (
        python, assuming.__file__, f"--kubeconfig={cluster.kubeconfig}", f"--health-port={health}",
        "--metrics-port=0", f"--webhook-port={webhook}",
    )  # fmt: skip
    async with process.Process(command, cluster.directory / "operator.log") as running:
        async with aiohttp.ClientSession() as session, asyncio.timeout(120):
            while True:
                running.check()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{health}/readyz") as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.1)
        yield running


def _name(number: int) -> str:
    return f"cloud-{number}"


@contextlib.asynccontextmanager
async def _started(programs: Path, python: str, most: int) -> AsyncIterator[Clouds]:
    """With nodes for so many clouds: one that comes later is looked at by everything that there is."""
    with kubernetes.started(programs) as cluster:
        crds = [kinds.crd(kind) for service in controlplane.EVERYTHING for kind in service.kinds]
        cluster.apply(*crds, STORAGE_CLASS)
        names = [f"crd/{crd['metadata']['name']}" for crd in crds]
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        async with client.Client(client.Config.from_kubeconfig(cluster.kubeconfig), "user") as api:
            for number in range(most):
                await api.create(kinds.NODE, workloads.node(_name(number)))
            playing = asyncio.ensure_future(workloads.Workloads(api, None, workloads.WORKLOADS, pods=True).run())
            try:
                async with operator(cluster, python) as running:
                    await running.quiet(cluster.audit_size)
                    yield Clouds(cluster, api, running)
            except BaseException:
                # It goes with its directory.
                print((cluster.directory / "operator.log").read_text(errors="replace")[-3000:], file=sys.stderr)
                raise
            finally:
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)


async def measure_growth(programs: Path, python: str, most: int, idle_seconds: float) -> Object:
    """One cloud, ten of them, then ten more at a time."""
    async with _started(programs, python, most) as clouds:
        empty = clouds.running.memory()
        one = await clouds.add(1)
        idle = await clouds.idle(idle_seconds)
        steps = []
        while clouds.count < most:
            # The second step brings the number to ten.
            steps.append(
                await clouds.add(min(STEP if clouds.count >= STEP else STEP - clouds.count, most - clouds.count))
            )
            print(f"{clouds.count} clouds: {steps[-1]['cpu per cloud']} CPU s each", file=sys.stderr, flush=True)
        return {"empty": {"memory": empty}, "one": one, "idle": idle, "steps": steps}


async def measure_cells(programs: Path, python: str, cells: int, number: int) -> Object:
    """Clouds of many cells, after one that has warmed everything up."""
    async with _started(programs, python, number + 1) as clouds:
        await clouds.add(1)
        return {"cells": cells} | await clouds.add(number, cells)
