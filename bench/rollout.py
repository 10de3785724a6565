"""The operator's side of `bring_up.py`: what happens when, seen by watches, and who uses the processors meanwhile."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bare.processes import accounting, cpu_seconds
from openstack_operator.embedded import addresses, cloud, node, processes
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client, informer, kinds
from openstack_operator.services import SERVICES

Object = dict[str, Any]

TICKS = os.sysconf("SC_CLK_TCK")
KUBERNETES = {
    "apiserver and etcd": ("kube-apiserver", "etcd"),
    "controllers and scheduler": ("kube-controller-manager", "kube-scheduler", "provisioner"),
    "kubelet and containerd": ("kubelet", "containerd", "kube-proxy"),
}


@dataclass
class Timeline:
    """When each object was first seen, and when each of its conditions became true; seconds since the clock."""

    seen: dict[str, float] = field(default_factory=dict)
    reached: dict[str, dict[str, float]] = field(default_factory=dict)

    def note(self, name: str, now: float, conditions: Iterator[str]) -> None:
        self.seen.setdefault(name, now)
        known = self.reached.setdefault(name, {})
        for one in conditions:
            known.setdefault(one, now)


def states(item: Object) -> Iterator[str]:
    """What an object has reached: its true conditions; of a pod also that its containers run."""
    status = item.get("status", {})
    for one in status.get("conditions", []):
        if one["status"] == "True" and one["type"] != "Reconciling":
            yield one["type"]
    if status.get("containerStatuses") and all(one.get("started") for one in status["containerStatuses"]):
        yield "Started"
    for one in status.get("containerStatuses", []):
        if one.get("state", {}).get("running"):
            yield "Running"
        if one.get("restartCount"):
            yield f"Restarted {one['restartCount']}"
    if status.get("phase") == "Succeeded":
        yield "Succeeded"


@asynccontextmanager
async def watched(target: cloud.Cloud, clock: Callable[[], float]) -> Any:
    """A ``Timeline`` that fills while the block runs: six watches of one connection each cost a few milliseconds."""
    timeline = Timeline()

    def take(kind: str, new: Object | None, _: Object | None) -> None:
        if new is not None:
            timeline.note(f"{kind} {new['metadata']['name']}", clock(), states(new))

    config = client.Config.load(str(target.kubeconfig))
    resources = [ours.CONTROL_PLANE, *(kind.resource for one in SERVICES for kind in one.kinds), kinds.POD, kinds.JOB]
    async with client.Client(config, "openstack-operator-bench") as api:
        caches = [informer.Informer(api, resource, target.namespace) for resource in resources]
        for cache in caches:
            cache.subscribe(functools.partial(take, cache.resource.kind))
        watching = [asyncio.create_task(cache.run()) for cache in caches]
        try:
            await asyncio.gather(*(cache.synced.wait() for cache in caches))
            yield timeline
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)


class Cpu:
    """CPU seconds by part since ``Cpu`` was made."""

    def __init__(self, parts: Callable[[], Mapping[str, float]]) -> None:
        self._parts, self._before = parts, parts()

    def used(self) -> dict[str, float]:
        return {name: round(value - self._before.get(name, 0), 1) for name, value in self._parts().items()}


def machine_seconds() -> float:
    """CPU time of the whole machine that was not idle."""
    user, nice, system, _, _, irq, soft, *_ = (int(text) for text in Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft) / TICKS


def process_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended."""
    fields = processes.stat_fields(pid)
    return sum(int(text) for text in fields[11:15]) / TICKS if fields else 0.0


def operator_parts(cluster: node.Node, target: cloud.Cloud) -> dict[str, float]:
    """CPU time by part of the cluster with its operator and its cloud."""
    found = {
        name: sum(process_seconds(pid) for one in daemons if (pid := cluster.daemons.pid(one)) is not None)
        for name, daemons in KUBERNETES.items()
    }
    found["kubelet and containerd"] += sum(process_seconds(pid) for pid in shims())
    text = cloud.kubectl(target, "get", "pods", "-A", "-o", "json")
    pods = {one["metadata"]["uid"]: one for one in json.loads(text)["items"]}
    below = accounting() / addresses.POD_CGROUP
    groups = {path.name.removeprefix("pod"): path for path in below.rglob("pod*-*-*-*-*")}
    found["operator"] = found["cluster DNS and policy"] = services = 0.0
    for uid, pod in pods.items():
        used = cpu_seconds(groups[uid]) if uid in groups else 0.0
        if pod["metadata"]["namespace"] == cloud.SYSTEM_NAMESPACE:
            found["operator"] += used
        elif pod["metadata"]["namespace"] == target.namespace:
            services += used
        else:
            found["cluster DNS and policy"] += used
    found["services"] = services
    everything = cpu_seconds(addresses.POD_CGROUP)
    found["Jobs"] = everything - services - found["operator"] - found["cluster DNS and policy"]
    found["guest"] = cpu_seconds(addresses.GUEST_CGROUP)
    found["whole machine"] = machine_seconds()
    return found


def shims() -> Iterator[int]:
    """containerd's process for each pod."""
    for entry in processes.PROC.iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text().startswith("containerd-shim"):
                    yield int(entry.name)
            except OSError:
                continue


def operator_memory() -> float:
    """Resident memory of the operator's process, in MB (10^6 bytes)."""
    for entry in processes.PROC.iterdir():
        if entry.name.isdigit():
            try:
                if b"openstack_operator.cli.run" in (entry / "cmdline").read_bytes().split(b"\0"):
                    status = (entry / "status").read_text()
                    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6
            except OSError:
                continue
    raise LookupError("the operator does not run on this node")


def monotonic_since(begin: float) -> Callable[[], float]:
    return lambda: time.monotonic() - begin
