"""What the operator would do: its own controllers at work on a copy of the cluster, with writes that change nothing.

    LISTs --> copies in memory --> the controllers' own steps --> writes: dry runs at the API server, kept in the copy
                     ^                                                   |
                     +--- workloads roll out, Jobs succeed, owners' children go: played here, one wave after another

What is outside the cluster's API (databases, message bus, Keystone) is not asked and counts as being as it should
(``kit/verified.py``); what would be done there is reported. Used by `plan`.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openstack_operator.cli import run
from openstack_operator.kit import kinds, labels, verified
from openstack_operator.runtime import client, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.informer import Informer, Key, key_of
from openstack_operator.runtime.kinds import Resource
from openstack_operator.runtime.manager import Manager
from openstack_operator.runtime.queue import Queue
from openstack_operator.runtime.runner import SETTLE_SECONDS
from openstack_operator.services.nova import removal

Place = tuple[Resource, str | None, str]
"""Resource, namespace and name."""

USER = "user"
"""Who changes an object by the file."""

MOST_WAVES = 40
"""More than any chain of things that wait for each other; a cycle ends here."""

MOST_PASSES = 2000

# Above every version of the server, so that caches take what comes from here for new.
FIRST_VERSION = 10**17

PLAYED = (built_in.DEPLOYMENT, built_in.STATEFULSET, built_in.DAEMONSET, built_in.JOB)


@dataclasses.dataclass(frozen=True)
class Act:
    """Something that would happen, in the wave in which it would."""

    wave: int
    verb: str
    """create, change, delete; roll (pods are replaced), start, stop, run (a Job)."""
    place: Place


class Due(Queue[Key]):
    """Keys that are due at once: time does not pass here. What only time would bring, does not come."""

    def add_after(self, key: Key, seconds: float) -> None:
        if seconds <= SETTLE_SECONDS:
            self.add(key)

    def retry(self, key: Key) -> float:
        return 0.0


class Dry(client.Client):
    """A client whose writes reach the copies only. The server says what would become of each of them."""

    simulation: Simulation

    async def apply(
        self, resource: Resource, body: Object, *, subresource: str | None = None, manager: str | None = None
    ) -> Object:
        return await self.simulation.apply(resource, body, subresource, manager or self.manager)

    async def dry_apply(self, resource: Resource, body: Object, manager: str, **parameters: str) -> Object:
        """Server-side apply without effect."""
        metadata = body["metadata"]
        found: Object = await self.request(
            "PATCH",
            resource.path(metadata.get("namespace"), metadata["name"]),
            params={"fieldManager": manager, "force": "true", "dryRun": "All", **parameters},
            body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
            content_type="application/apply-patch+yaml",
            resource=resource.plural,
        )
        return found

    async def merge(self, resource: Resource, name: str, namespace: str | None, patch: Object) -> Object:
        return self.simulation.merge((resource, namespace, name), patch)

    async def create(self, resource: Resource, body: Object) -> Object:
        # Events tell what happens; here nothing does.
        return body

    async def replace(self, resource: Resource, body: Object) -> Object:
        raise AssertionError(f"no controller replaces a {resource.kind}")

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        self.simulation.delete((resource, namespace, name))


class Copies(Manager):
    """The caches and controllers of an operator, filled once and never started."""

    client: Dry

    async def follow(self, resource: Resource, namespace: str, name: str, wake: Any, key: Key) -> Object | None:
        place = (resource, namespace, name)
        known = self.client.simulation.extra.get(place) or self.cached(*place)
        if known is not None:
            return known
        try:
            return await self.client.get(resource, name, namespace)
        except errors.ApiError as problem:
            if problem.status != 404:
                raise
            return None

    def unfollow(self, wake: Any, key: Key, keep: Any = ()) -> None:
        """Nothing is followed."""

    @property
    def caches(self) -> Mapping[Resource, Informer]:
        return self._informers


class Simulation:
    """The copy of one namespace, and what happens in it."""

    def __init__(self, api: Dry, namespace: str, services: Sequence[str] = ()) -> None:
        """With the controllers of some services only: the others' objects stay as they are."""
        self.api = api
        self.namespace = namespace
        api.simulation = self
        controllers = run.choose(services)
        self.manager = Copies(api, controllers, domain=kinds.DOMAIN, namespace=namespace, selectors=labels.selector_for)
        for runner in self.manager.runners:
            runner.queue = Due()
        self.acts: list[Act] = []
        self.outside: dict[tuple[str, str, str], str] = {}
        """Fingerprint of everything outside that was asked about, by kind, name, and what."""
        self.waves: dict[tuple[str, str, str], int] = {}
        """The wave in which each of them came to be as it is."""
        verified.assume(self.manager, self._told)
        self.extra: dict[Place, Object] = {}
        """Objects of the user's own that a change brings: they are in no cache."""
        self.before: dict[Place, Object] = {}
        """The objects as they were when the change came."""
        self.wave = 0
        self._versions = itertools.count(FIRST_VERSION)
        self._base: dict[Place, Object | None] = {}
        self._answers: dict[Place, dict[str, Object]] = {}
        self._unplayed: dict[Place, Object | None] = {}
        """Workloads that changed in this wave, as they were before it."""

    def _told(self, scope: Scope[Any], what: str, fingerprint: str) -> None:
        place = (scope.kind, scope.name, what)
        if self.outside.get(place) != fingerprint:
            self.waves[place] = self.wave
        self.outside[place] = fingerprint

    # --- the copy -------------------------------------------------------------------------------------------------

    async def fill(self) -> None:
        """Lists everything that the controllers look at. Raises what the requests raise."""
        await asyncio.gather(*(cache.fill() for cache in self.manager.caches.values()))
        self.manager.started.set()

    def get(self, place: Place) -> Object | None:
        return self.manager.cached(*place)

    def objects(self) -> Iterator[tuple[Place, Object]]:
        for resource, cache in self.manager.caches.items():
            for item in cache.items():
                yield (resource, *key_of(item)), item

    def keep(self, resource: Resource, item: Object) -> Object:
        """Puts an object into the copy, which wakes whoever it concerns."""
        item["metadata"]["resourceVersion"] = str(next(self._versions))
        self.manager.informer(resource).observe(item)
        return item

    def start(self) -> None:
        """From here on everything that happens is because of the change."""
        self.acts.clear()
        self.before = {place: copy.deepcopy(item) for place, item in self.objects()}
        self.wave = 0

    # --- writes ---------------------------------------------------------------------------------------------------

    async def apply(self, resource: Resource, body: Object, subresource: str | None, manager: str) -> Object:
        metadata = body["metadata"]
        place = (resource, metadata.get("namespace"), metadata["name"])
        present = self.get(place)
        if subresource is not None or manager.endswith("-finalizer"):
            if present is None:
                raise errors.ApiError(404, "NotFound", f"{resource.kind} {metadata['name']}")
            new = copy.deepcopy(present)
            if subresource is not None:
                new["status"] = body["status"]
            else:
                finalizers = new["metadata"].setdefault("finalizers", [])
                finalizers += [one for one in metadata["finalizers"] if one not in finalizers]
            return self.keep(resource, new)
        if place in self._base and self._base[place] is None and present is not None:
            # The server knows nothing of an object that is here only.
            answer: Object = _joined(present, body)
        else:
            answer = await self.api.dry_apply(resource, body, manager)
        return self.take(place, manager, answer)

    def take(self, place: Place, manager: str, answer: Object) -> Object:
        """What becomes of an object by an answer of the server, which does not know of other changes that are here."""
        present = self.get(place)
        answer["metadata"].pop("managedFields", None)
        self._base.setdefault(place, copy.deepcopy(present))
        base = self._base[place]
        self._answers.setdefault(place, {})[manager] = answer
        if base is None:
            new = copy.deepcopy(answer)
        else:
            new = copy.deepcopy(base)
            for one in self._answers[place].values():
                new = merged(base, one, new)
        if present is not None:
            # Status is what was played here; the server's is of before.
            new = {key: value for key, value in new.items() if key != "status"}
            if "status" in present:
                new["status"] = present["status"]
            new["metadata"]["generation"] = present["metadata"].get("generation", 1)
            for field in ("finalizers", "deletionTimestamp", "uid"):
                if field in present["metadata"]:
                    new["metadata"][field] = present["metadata"][field]
            if essence(new) == essence(present):
                return present
            if _without(new, "metadata", "status") != _without(present, "metadata", "status"):
                new["metadata"]["generation"] += 1
        self._happened("create" if present is None else "change", place)
        if place[0] in PLAYED:
            self._unplayed.setdefault(place, present)
        new.setdefault("apiVersion", place[0].api_version)
        new.setdefault("kind", place[0].kind)
        return self.keep(place[0], new)

    def merge(self, place: Place, patch: Object) -> Object:
        present = self.get(place)
        if present is None:
            raise errors.ApiError(404, "NotFound", f"{place[0].kind} {place[2]}")
        new: Object = _patched(present, patch)
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self._gone(place)
            return new
        if essence(new) != essence(present):
            self._happened("change", place)
        return self.keep(place[0], new)

    def delete(self, place: Place) -> None:
        present = self.get(place)
        if present is None or "deletionTimestamp" in present["metadata"]:
            return
        self._happened("delete", place)
        if present["metadata"].get("finalizers"):
            new = copy.deepcopy(present)
            new["metadata"]["deletionTimestamp"] = "2000-01-01T00:00:00Z"
            self.keep(place[0], new)
        else:
            self._gone(place)

    def _gone(self, place: Place) -> None:
        """The object is away, and what it owned goes."""
        present = self.get(place)
        assert present is not None
        self.manager.informer(place[0]).forget(place[1:])
        self._unplayed.pop(place, None)
        uid = present["metadata"]["uid"]
        for child, item in list(self.objects()):
            owners = item["metadata"].get("ownerReferences", [])
            if any(one["uid"] == uid for one in owners):
                self.delete(child)
            elif child[0] == built_in.POD and place[0] in PLAYED and _is_of(item, present):
                # Its owner is a ReplicaSet, which nobody here looks at.
                self.manager.informer(built_in.POD).forget(child[1:])

    def _happened(self, verb: str, place: Place) -> None:
        if place[0] != built_in.POD:
            self.acts.append(Act(self.wave, verb, place))

    # --- the run --------------------------------------------------------------------------------------------------

    def wake_all(self) -> None:
        """Looks at every object."""
        for runner in self.manager.runners:
            for item in self.manager.informer(runner.controller.kind.resource).items():
                runner.queue.add(key_of(item))

    async def settle(self) -> None:
        """Runs until nothing is left to do: wave after wave of what can happen at once."""
        for _ in range(MOST_WAVES):
            await self._pass()
            if not self._unplayed:
                return
            self._play()
            self.wave += 1

    async def _pass(self) -> None:
        for _ in range(MOST_PASSES):
            # Children before parents, who look at them again and again otherwise.
            runner = next((one for one in reversed(self.manager.runners) if len(one.queue)), None)
            if runner is None:
                return
            key = await runner.queue.get()
            try:
                await runner.reconcile(key)
            finally:
                runner.queue.done(key)

    def _play(self) -> None:
        """Kubernetes' part: what was applied in this wave rolls out, and Jobs succeed."""
        due, self._unplayed = self._unplayed, {}
        for place, before in due.items():
            item = self.get(place)
            if item is None:
                continue
            verb = what_happens(place[0], before, item)
            if verb:
                self.acts.append(Act(self.wave, verb, place))
            new = copy.deepcopy(item)
            new["status"] = self._status(place[0], item)
            self.keep(place[0], new)
            if place[0] == built_in.JOB:
                self.keep(built_in.POD, _ended(new))

    def _status(self, resource: Resource, item: Object) -> Object:
        """The status of a workload that has rolled out."""
        spec, seen = item["spec"], {"observedGeneration": item["metadata"].get("generation", 1)}
        if resource == built_in.JOB:
            return {"succeeded": 1}
        if resource == built_in.DAEMONSET:
            count = self.nodes(spec["template"]["spec"])
            status = {
                "desiredNumberScheduled": count,
                "currentNumberScheduled": count,
                "updatedNumberScheduled": count,
                "numberAvailable": count,
                "numberReady": count,
            }
            if spec.get("updateStrategy", {}).get("type") == "OnDelete":
                status["updatedNumberScheduled"] = item.get("status", {}).get("updatedNumberScheduled", count)
            return seen | status
        count = spec.get("replicas", 1)
        status = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), count)
        if resource == built_in.STATEFULSET:
            return seen | status | {"currentRevision": "new", "updateRevision": "new", "currentReplicas": count}
        return seen | status

    def nodes(self, pod: Object) -> int:
        """How many nodes have the labels that a pod of a DaemonSet asks for."""
        wanted = pod.get("nodeSelector", {})
        items = self.manager.informer(built_in.NODE).items()
        return sum(labels.matches(node["metadata"].get("labels", {}), wanted) for node in items)


def what_happens(resource: Resource, before: Object | None, after: Object) -> str:
    """What a change of a workload does to its pods; empty for nothing."""
    if resource == built_in.JOB:
        return "run" if before is None else ""
    count = after["spec"].get("replicas", 1)
    if before is None:
        return "start" if count else ""
    if before["spec"]["template"] != after["spec"]["template"] and count:
        is_by_hand = after["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
        return "mark" if is_by_hand else "roll"
    if before["spec"].get("replicas", 1) != count:
        return "scale"
    return ""


def _is_of(pod: Object, workload: Object) -> bool:
    wanted = workload["spec"].get("selector", {}).get("matchLabels")
    return bool(wanted) and labels.matches(pod["metadata"].get("labels", {}), wanted)


def _ended(job: Object) -> Object:
    """The pod of a Job that succeeded. A Job that looks for something says that it found nothing."""
    template, metadata = job["spec"]["template"], job["metadata"]
    state = {"terminated": {"exitCode": 0, "message": removal.GONE}}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-simulated",
            "namespace": metadata["namespace"],
            "uid": f"{metadata['uid']}-pod",
            "labels": template["metadata"].get("labels", {}),
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": one["name"], "state": state} for one in template["spec"]["containers"]],
        },
    }


# --- objects --------------------------------------------------------------------------------------------------------

_OWN_METADATA = ("resourceVersion", "generation", "managedFields", "creationTimestamp", "uid", "selfLink")


def _without(item: Object, *names: str) -> Object:
    return {key: value for key, value in item.items() if key not in names}


def essence(item: Object) -> Object:
    """An object without what the server alone decides on, and without its status."""
    return _without(item, "status", "apiVersion", "kind") | {"metadata": _without(item["metadata"], *_OWN_METADATA)}


def _by_name(value: Any) -> dict[str, Any] | None:
    """The entries of a list that is a map by name, as the server merges them."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        return {one["name"]: one for one in value}
    return None


_ABSENT: Any = object()


def merged(base: Any, theirs: Any, ours: Any) -> Any:
    """``ours`` with what ``theirs`` changed of ``base``."""
    if theirs == base:
        return ours
    if ours == base:
        return theirs
    named = [_by_name(one) for one in (base, theirs, ours)]
    if isinstance(theirs, list) and isinstance(ours, list) and named[1] is not None and named[2] is not None:
        found = merged(named[0] or {}, named[1], named[2])
        return list(found.values())
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs
    before = base if isinstance(base, dict) else {}
    result = {}
    for key in dict.fromkeys((*ours, *theirs)):
        value = merged(before.get(key, _ABSENT), theirs.get(key, _ABSENT), ours.get(key, _ABSENT))
        if value is not _ABSENT:
            result[key] = value
    return result


def _joined(present: Any, body: Any) -> Any:
    """What server-side apply makes of an object and more fields of it; entries of lists are told apart by name."""
    named, more = _by_name(present), _by_name(body)
    if named is not None and more is not None:
        return list(_joined(named, more).values())
    if not isinstance(present, dict) or not isinstance(body, dict):
        return body
    return present | {key: _joined(present.get(key), value) for key, value in body.items()}


def _patched(present: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(present) if isinstance(present, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _patched(result.get(key), value)
    return result
