"""Steps of a rollout as they are reached, and the state that it ends in, for comparing one rollout with another."""

from __future__ import annotations

import collections
import contextlib
import queue
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from clusters import Object, condition
from small_scene import SmallScene

from openstack_operator import controlplane
from openstack_operator.kit.service import Service
from openstack_operator.runtime.controller import Controller

Boundary = tuple[str, str]
"""Kind and condition."""

# What waits for pods or for a Job: it becomes True in a later write than what it needs.
WORK = ("DeploymentReady", "BootstrapReady", "DatabaseSyncReady")
ALWAYS = ("openstackcontrolplane", "mariadb", "rabbitmq", "memcached")
WATCH_SECONDS = 550
NEXT_SECONDS = 120
# What differs from one rollout to another: uids, hashes, ports and addresses that the cluster gives.
RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{8,64}\b|:3\d{4}\b"
    r"|\b10\.96\.\d+\.\d+\b|\b3[0-2]\d{3}\b|\b10\.244\.\d+\.\d+\b"
)
NODE_PORTS = range(30000, 32768)
OBSERVED = ("resourceVersion", "generation", "managedFields", "creationTimestamp", "ownerReferences", "uid")
OF_KUBERNETES = ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration")


def of(enabled: tuple[str, ...]) -> set[Boundary]:
    """Every step of the tables of these services, and of those that each cloud has."""
    return {
        (controller.kind.resource.kind, step.condition)
        for service in controlplane.EVERYTHING
        if service.name in (*ALWAYS, *enabled)
        for controller in service.controllers
        for step in controller.steps
    }


def least(enabled: tuple[str, ...]) -> int:
    """How many writes there are at least, one after the other, that make one of these conditions True: the longest way
    of needs through the tables, from one condition that waits for work in the cluster to the next, and one write before
    the first of them. What goes on beside that may become True in the moment in which another process is killed."""
    services = [one for one in controlplane.EVERYTHING if one.name in (*ALWAYS, *enabled)]
    by_kind = {kind.resource: one for one in services for kind in one.kinds}

    def of_table(controller: Controller[Any]) -> int:
        longest: dict[str, int] = {}
        for step in controller.steps:
            needs = tuple(longest) if step.needs is None else step.needs
            longest[step.condition] = (step.condition in WORK) + max((longest[one] for one in needs), default=0)
        return max(longest.values())

    def of_service(service: Service) -> int:
        own = max(map(of_table, service.controllers))
        return own + max((of_service(by_kind[kind]) for kind in service.needs if kind in by_kind), default=0)

    return 1 + max(of_service(one) for one in services)


class Watched:
    """Conditions of our kinds, and Jobs, of a namespace: what became True, in the order in which it did."""

    def __init__(self, scene: SmallScene) -> None:
        self._scene = scene
        self._reached: queue.Queue[set[Boundary]] = queue.Queue()
        self._known: set[Boundary] = set()
        self.jobs: set[tuple[str, str]] = set()
        """Name and uid of every Job that ever was."""
        self._watches = contextlib.ExitStack()

    def __enter__(self) -> Self:
        kinds = {one.resource for service in controlplane.EVERYTHING for one in service.kinds}
        for name in (*sorted(f"{one.plural}.{one.group}" for one in kinds), "jobs"):
            watch = self._scene.cluster.watch(name, "-n", self._scene.namespace, seconds=WATCH_SECONDS)
            threading.Thread(target=self._read, args=(self._watches.enter_context(watch),), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._watches.close()

    def _read(self, events: Iterator[tuple[str, Object]]) -> None:
        # At the end of all, the pipe is closed while it is read.
        with contextlib.suppress(ValueError):
            for _, item in events:
                self._note(item)

    def _note(self, item: Object) -> None:
        metadata = item["metadata"]
        if item["kind"] == "Job":
            self.jobs.add((metadata["name"], metadata["uid"]))
            return
        conditions = item.get("status", {}).get("conditions", [])
        true = {(item["kind"], one["type"]) for one in conditions if one["status"] == "True"}
        new = {one for one in true - self._known if condition(item, one[1])["status"] == "True"}
        if new:
            self._known |= new
            self._reached.put(new)

    def next(self) -> set[Boundary]:
        """What became True next; nothing where that takes too long."""
        try:
            return self._reached.get(timeout=NEXT_SECONDS)
        except queue.Empty:
            return set()

    def so_far(self) -> set[Boundary]:
        """Everything that has become True and was not told yet."""
        # The last writes of a process are on their way for a moment.
        time.sleep(0.2)
        found: set[Boundary] = set()
        while not self._reached.empty():
            found |= self._reached.get()
        return found


@dataclass
class End:
    """What a rollout ends in."""

    objects: dict[str, Any]
    jobs: dict[str, int]
    """How many Jobs there ever were, by name without its hash."""
    inside: dict[str, Any] = field(default_factory=dict)
    """What stands in databases, message bus and Keystone."""

    @classmethod
    def of(cls, scene: SmallScene, watched: Watched) -> End:
        objects = {}
        for item in scene.cloud.children():
            name = _plain(scene, item["metadata"]["name"])
            objects[f"{item['kind']} {name}"] = _plain(scene, _meaning(item))
        jobs = collections.Counter(name.rpartition("-")[0] for name, _ in watched.jobs)
        restarts = {
            f"{name} (restarts)": count
            for name, (_, count) in scene.cloud.pods().items()
            if count and not name.startswith("memcached")
        }
        return cls(objects, {**jobs, **restarts}, _inside(scene))

    def differences(self, other: End) -> list[str]:
        """Paths with both values."""
        found = _differences(other.objects, self.objects, "")
        return found + _differences(other.inside, self.inside, "") + _differences(other.jobs, self.jobs, "Jobs")


def _plain(scene: SmallScene, value: Any) -> Any:
    """Without what is another one in each rollout."""
    if isinstance(value, dict):
        return {_plain(scene, key): _plain(scene, one) for key, one in value.items()}
    if isinstance(value, list):
        found = [_plain(scene, one) for one in value]
        # Entries with a name of their own stand in the order in which they came, which means nothing.
        is_named = all(isinstance(one, dict) and "name" in one for one in found)
        return sorted(found, key=lambda one: str(one["name"])) if is_named else found
    if isinstance(value, str):
        return RANDOM.sub("#", value.replace(scene.namespace, "NAMESPACE"))
    return "#" if type(value) is int and value in NODE_PORTS else value


def _meaning(item: Object) -> Object:
    out = {key: value for key, value in item.items() if key != "status"}
    out["metadata"] = {key: value for key, value in item["metadata"].items() if key not in OBSERVED}
    notes = {key: value for key, value in item["metadata"].get("annotations", {}).items() if key not in OF_KUBERNETES}
    out["metadata"]["annotations"] = notes
    if item["kind"] == "Secret":
        # Every one has passwords of its own.
        out["data"] = sorted(item.get("data") or {})
    return out


def _inside(scene: SmallScene) -> dict[str, Any]:
    inventory = scene.inventory()
    services = collections.Counter(kind for kind, _ in inventory["services"])
    return {
        "users": inventory["users"],
        "projects": inventory["projects"],
        "services": dict(services),
        "endpoints": len(inventory["endpoints"]),
        "databases": scene.cloud.mariadb("SHOW DATABASES"),
        "database users": scene.cloud.mariadb("SELECT User, Host FROM mysql.user"),
        "vhosts": scene.cloud.rabbitmqctl("list_vhosts"),
        "bus users": scene.cloud.rabbitmqctl("list_users"),
    }


def _differences(wanted: Any, found: Any, path: str) -> list[str]:
    if wanted == found:
        return []
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted({*wanted, *found})
        return [line for key in keys for line in _differences(wanted.get(key), found.get(key), f"{path}.{key}")]
    return [f"{path}: {str(wanted)[:300]} is {str(found)[:300]}"]
