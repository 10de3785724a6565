"""What a cloud looks like right now, as a tree of plain values, and the one object that everything in it waits for.

`status` fills it from the API server and draws it. Pure functions of objects: control plane, service objects, workloads
and pods, put together by their owner references.

An object waits for its children that are not ready and for objects that its conditions name ("MariaDB openstack/db").
Following that to the end gives the objects that wait for nothing else; the one that holds up most is the answer.
"""

from __future__ import annotations

import collections
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openstack_operator.kit import labels, pods, redaction
from openstack_operator.runtime import conditions, events, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.kinds import Resource

State = Literal["ready", "stalled", "waiting", "deleting"]

REPLICASET = Resource("apps", "v1", "replicasets", "ReplicaSet")
WORKLOADS: tuple[Resource, ...] = (kinds.JOB, kinds.STATEFULSET, kinds.DAEMONSET, kinds.DEPLOYMENT)
DEPLOYED: tuple[Resource, ...] = (kinds.DEPLOYMENT, REPLICASET, kinds.POD)
BUILT_IN: tuple[Resource, ...] = (*WORKLOADS, REPLICASET, kinds.POD)
"""What is shown below our own kinds; ReplicaSets only tie pods to their Deployment."""

DNS_NAMESPACE, DNS_NAME = "kube-system", "kube-dns"
"""The Service of a cluster's DNS, whatever serves it, and the value of its pods' label ``k8s-app``: what add-ons rely
on since the first clusters (kubernetes.io, "Using CoreDNS for Service Discovery")."""

Objects = Mapping[Resource, Sequence[Object]]
"""What was listed. Our own kinds come first, in the order of the rollout."""

# The more a state asks of a person, the earlier it is named.
_URGENCY: dict[State, int] = {"stalled": 0, "waiting": 1, "deleting": 2, "ready": 3}
_NAMED = re.compile(r"\b([A-Z][A-Za-z]+) ([a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9.]*)")
_LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"
_NOT_SEEN = "the operator has not looked at it yet"


@dataclass(frozen=True)
class Node:
    """One object. `since` is when it came into its state, as the API server wrote it."""

    kind: str
    namespace: str
    name: str
    state: State
    summary: str
    """One or two words: "Ready", "1/2", "ImagePullBackOff"."""
    message: str
    since: str
    children: tuple[Node, ...] = ()
    waits_for: tuple[str, ...] = ()
    """Objects that its conditions name, as `Kind namespace/name`."""

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    @property
    def label(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        own = ("kind", "namespace", "name", "state", "summary", "message", "since")
        return {key: getattr(self, key) for key in own} | {"children": [child.plain() for child in self.children]}


@dataclass(frozen=True)
class Picture:
    """Everything that was found: one root for each cloud, or for each object that belongs to none."""

    roots: tuple[Node, ...]
    operator: Node | None = None
    """The operator's own Deployment, if it runs in this cluster."""
    dns: Node | None = None
    """The Service of the cluster's DNS, if it is where it mostly is. Without it all objects are well, and no request
    is."""

    @property
    def shared(self) -> tuple[Node, ...]:
        """What belongs to no cloud, and all of them need."""
        return tuple(node for node in (self.operator, self.dns) if node is not None)

    @property
    def tops(self) -> tuple[Node, ...]:
        """The roots of everything that was found."""
        return (*self.roots, *self.shared)

    @property
    def needed(self) -> tuple[Node, ...]:
        """What must be ready for a cloud that answers."""
        return self.roots if self.dns is None else (self.dns, *self.roots)

    @property
    def is_ready(self) -> bool:
        return bool(self.roots) and all(node.is_ready for node in self.needed)


def build(own: Sequence[Resource], objects: Objects) -> Picture:
    """Puts the tree together. `own` are our kinds in the order in which they are rolled out."""
    below: dict[str, list[tuple[Resource, Object]]] = collections.defaultdict(list)
    uids = {item["metadata"]["uid"] for resource in objects for item in objects[resource]}
    tops: list[tuple[Resource, Object]] = []
    operator: Object | None = None
    dns: list[Object] = []
    for resource in (*own, *BUILT_IN):
        for item in sorted(objects.get(resource, ()), key=_place):
            owner = _owner(item)
            if owner is not None and owner in uids:
                below[owner].append((resource, item))
            elif resource in own:
                tops.append((resource, item))
            elif resource == kinds.DEPLOYMENT and _is_operator(item):
                operator = item
            elif resource == kinds.DEPLOYMENT and item["metadata"]["namespace"] == DNS_NAMESPACE:
                dns.append(item)
    for event in objects.get(kinds.EVENT, ()):
        below[event["involvedObject"]["uid"]].append((kinds.EVENT, event))
    for resource in (kinds.NODE, kinds.PVC):
        for item in objects.get(resource, ()):
            below[_label(resource, item["metadata"].get("namespace"), item["metadata"]["name"])].append(
                (resource, item)
            )
    for item in objects.get(kinds.STORAGECLASS, ()):
        below[kinds.STORAGECLASS.kind].append((kinds.STORAGECLASS, item))
    return Picture(
        roots=tuple(_node(resource, item, below) for resource, item in tops),
        operator=_node(kinds.DEPLOYMENT, operator, below) if operator else None,
        dns=_dns(objects.get(kinds.ENDPOINTSLICE, ()), [_node(kinds.DEPLOYMENT, item, below) for item in dns]),
    )


def blocking(picture: Picture, root: Node) -> Node:
    """The object that `root`, which is not ready, waits for in the end; `root` itself where nothing else is."""
    nodes = _by_label(picture)
    reached = _reachable(picture, nodes, root)
    leaves = {node.label for node in reached if not _next(picture, nodes, node)}
    if not leaves:
        return root
    held_up: collections.Counter[str] = collections.Counter()
    for node in reached:
        held_up.update(leaves & {other.label for other in _reachable(picture, nodes, node)})
    order = {label: number for number, label in enumerate(nodes)}
    return nodes[min(leaves, key=lambda label: (_URGENCY[nodes[label].state], -held_up[label], order[label]))]


def waits_for(picture: Picture, node: Node) -> list[Node]:
    """Objects beside those below it that a node waits for itself, without what is below one of these."""
    others = [other for other in _next(picture, _by_label(picture), node) if other not in node.children]
    below = {one.label for other in others for child in other.children for one in child.walk()}
    return [other for other in others if other.label not in below]


def path(picture: Picture, root: Node, target: Node) -> list[Node]:
    """The shortest way from an object to one that it waits for in the end, both included, from owner to child: an
    object's message names what is far below it. Nothing where it does not wait."""
    nodes = _by_label(picture)
    before: dict[str, str] = {root.label: ""}
    due = collections.deque([root])
    while due:
        node = due.popleft()
        if node.label == target.label:
            way = [node]
            while before[way[0].label]:
                way.insert(0, nodes[before[way[0].label]])
            return way
        below = {one.label for child in node.children for one in child.walk() if one is not child}
        for other in _next(picture, nodes, node):
            if other.label not in before and other.label not in below:
                before[other.label] = node.label
                due.append(other)
    return []


def _by_label(picture: Picture) -> dict[str, Node]:
    return {node.label: node for top in picture.tops for node in top.walk()}


def _reachable(picture: Picture, nodes: Mapping[str, Node], start: Node) -> list[Node]:
    found = {start.label: start}
    due = [start]
    while due:
        for node in _next(picture, nodes, due.pop()):
            if node.label not in found:
                found[node.label] = node
                due.append(node)
    return list(found.values())


def _next(picture: Picture, nodes: Mapping[str, Node], node: Node) -> list[Node]:
    named = (nodes[label] for label in node.waits_for if label in nodes and label != node.label)
    after = {other.label: other for other in (*node.children, *named) if not other.is_ready}
    if picture.operator is not None and not picture.operator.is_ready and node.message == _NOT_SEEN:
        after[picture.operator.label] = picture.operator
    return list(after.values())


# --- one object -----------------------------------------------------------------------------------------------------


def _node(resource: Resource, item: Object, below: Mapping[str, Sequence[tuple[Resource, Object]]]) -> Node:
    children = []
    warnings = []
    for child_resource, child in below.get(item["metadata"]["uid"], ()):
        if child_resource == REPLICASET:
            under = below.get(child["metadata"]["uid"], ())
            children += [_node(one, pod, below) for one, pod in under if one == kinds.POD]
        elif child_resource == kinds.EVENT:
            warnings.append(child)
        else:
            children.append(_node(child_resource, child, below))
    if resource == kinds.POD:
        hosts = below.get(_label(kinds.NODE, None, item.get("spec", {}).get("nodeName")), ())
        return _pod(item, warnings, next((host for _, host in hosts), None), _claim(item, below))
    if resource in WORKLOADS:
        return _workload(resource, item, tuple(children), warnings)
    return _own(resource, item, tuple(children))


def _own(resource: Resource, item: Object, children: tuple[Node, ...]) -> Node:
    metadata = item["metadata"]
    ready, stalled = conditions.find(item, conditions.READY), conditions.find(item, conditions.STALLED)
    state: State = "waiting"
    seen = ready is not None and ready.get("observedGeneration") == metadata["generation"]
    message, since = (ready or {}).get("message", ""), (ready or {}).get("lastTransitionTime", "")
    summary = (ready or {}).get("reason", "")
    if "deletionTimestamp" in metadata:
        state, summary, since = "deleting", "Deleting", metadata["deletionTimestamp"]
    elif not seen:
        # What stands there is about another spec.
        summary, message = "NotSeen", _NOT_SEEN
    elif conditions.is_ready(item):
        state, summary = "ready", "Ready"
    elif stalled is not None and stalled["status"] == "True":
        state = "stalled"
    return Node(
        kind=resource.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        state=state,
        summary=summary,
        message=message,
        since=since or metadata["creationTimestamp"],
        children=children,
        waits_for=() if state == "ready" else tuple(_named(item)),
    )


def _named(item: Object) -> Iterable[str]:
    """Objects in the messages of unmet conditions, each once."""
    found: dict[str, None] = {}
    for condition in item.get("status", {}).get("conditions", ()):
        if condition["status"] == "False":
            found |= dict.fromkeys(f"{kind} {where}" for kind, where in _NAMED.findall(condition.get("message", "")))
    return found


def _workload(resource: Resource, item: Object, children: tuple[Node, ...], warnings: Sequence[Object]) -> Node:
    metadata, status = item["metadata"], item.get("status", {})
    failure = _failure(status)
    if not failure and not children:
        told = events.newest(warnings, metadata["uid"], events.FAILED_CREATE)
        failure = redaction.without_patterns(pods.one_line(told["message"])) if told else ""
    if resource == kinds.JOB:
        is_ready, summary, since = bool(status.get("succeeded")), "running", status.get("startTime")
        if is_ready:
            summary, since = "done", status.get("completionTime")
    else:
        ready, wanted = _pods_of(resource, item)
        seen = status.get("observedGeneration", 0) >= metadata["generation"]
        is_ready, summary = seen and ready >= wanted, f"{ready}/{wanted}"
        since = _transition(item, "Available") or max((child.since for child in children), default=None)
    message = "" if is_ready else failure or f"{summary} pods ready"
    return Node(
        kind=resource.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        state="deleting" if "deletionTimestamp" in metadata else "ready" if is_ready else "waiting",
        summary=summary,
        message=message if resource != kinds.JOB else "" if is_ready else failure,
        since=since or metadata["creationTimestamp"],
        children=children,
    )


def _pods_of(resource: Resource, item: Object) -> tuple[int, int]:
    """Pods that serve with the present template, and how many there must be."""
    spec, status = item["spec"], item.get("status", {})
    if resource == kinds.DAEMONSET:
        wanted = status.get("desiredNumberScheduled", 0)
        updated = status.get("updatedNumberScheduled", 0)
        if spec.get("updateStrategy", {}).get("type") == "OnDelete":
            updated = wanted
        return min(status.get("numberAvailable", 0), updated), wanted
    updated = status.get("updatedReplicas", 0)
    if status.get("currentRevision") and status.get("currentRevision") == status.get("updateRevision"):
        # A StatefulSet that has rolled out counts its pods as current ones.
        updated = max(updated, status.get("currentReplicas", 0))
    # An operator that was scaled to 0 is as it was asked to be, and nothing gets done.
    least = 1 if _is_operator(item) else 0
    return min(status.get("availableReplicas", 0), updated), max(least, spec.get("replicas", 1))


def _dns(slices: Sequence[Object], served_by: Sequence[Node]) -> Node | None:
    """The Service by its EndpointSlices, of which one pod that takes questions is enough; None where there is none."""
    if not slices:
        return None
    ready = sum(one.get("conditions", {}).get("ready", True) for item in slices for one in item.get("endpoints") or ())
    changed = (item["metadata"].get("annotations", {}).get(_LAST_CHANGE) for item in slices)
    return Node(
        kind=kinds.SERVICE.kind,
        namespace=DNS_NAMESPACE,
        name=DNS_NAME,
        state="ready" if ready else "waiting",
        summary=f"{ready} answer" if ready else "no pods",
        message="" if ready else "no pod of the cluster's DNS is ready: names are not found",
        since=max(filter(None, changed), default=slices[0]["metadata"]["creationTimestamp"]),
        children=tuple(served_by),
    )


def _failure(status: Object) -> str:
    for condition in status.get("conditions", ()):
        if condition["type"] in ("ReplicaFailure", "Failed") and condition["status"] == "True":
            message: str = condition.get("message", "")
            return message
    return ""


def _label(resource: Resource, namespace: str | None, name: str | None) -> str:
    return f"{resource.kind} {namespace or ''}/{name}"


def _claim(pod: Object, below: Mapping[str, Sequence[tuple[Resource, Object]]]) -> str:
    """What a pod's claim waits for that keeps it from a node."""
    places = (_label(kinds.PVC, pod["metadata"]["namespace"], name) for name in pods.claims(pod))
    found = [claim for place in places for _, claim in below.get(place, ())]
    warnings = [event for claim in found for _, event in below.get(claim["metadata"]["uid"], ())]
    classes = [one for _, one in below.get(kinds.STORAGECLASS.kind, ())]
    # Somebody who may not see storage classes is not told that there are none.
    return pods.unbound(pod, found, classes, warnings) if classes else ""


def _pod(item: Object, warnings: Sequence[Object], host: Object | None, claim: str) -> Node:
    metadata, status = item["metadata"], item.get("status", {})
    ready: Object = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})
    is_ready = ready.get("status") == "True" or status.get("phase") == "Succeeded"
    message = "" if is_ready else redaction.without_patterns(claim or pods.problem(item, warnings, host)[1])
    since = ready.get("lastTransitionTime")
    state: State = "ready" if is_ready else "waiting"
    if "deletionTimestamp" in metadata:
        state, since = "deleting", _asked_to_go(metadata)
    return Node(
        kind=kinds.POD.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        state=state,
        summary="Deleting" if state == "deleting" else status.get("phase", "Pending") if is_ready else _reason(status),
        message="it has been told to finish" if state == "deleting" else message,
        since=since or metadata["creationTimestamp"],
    )


def _asked_to_go(metadata: Object) -> str:
    """When the deletion was asked for; what stands there is when the time to finish ends."""
    grace = datetime.timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
    return (datetime.datetime.fromisoformat(metadata["deletionTimestamp"]) - grace).isoformat()


def _reason(status: Object) -> str:
    """What kubectl shows as a pod's status: the reason of the container that hangs, else the phase."""
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = container.get("state", {})
        reason: str = (state.get("waiting") or {}).get("reason", "")
        ended = state.get("terminated") or {}
        if ended.get("exitCode"):
            reason = ended.get("reason", "Error")
        if reason:
            return reason
    phase: str = status.get("phase", "Pending")
    return "NotReady" if phase == "Running" else phase


def _transition(item: Object, name: str) -> str | None:
    found: Object = next((one for one in item.get("status", {}).get("conditions", ()) if one["type"] == name), {})
    when: str | None = found.get("lastTransitionTime")
    return when


def _place(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _owner(item: Object) -> str | None:
    for reference in item["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            uid: str = reference["uid"]
            return uid
    return None


def _is_operator(item: Object) -> bool:
    tags: dict[str, str] = item["metadata"].get("labels", {})
    return tags.get("app.kubernetes.io/name") == labels.OPERATOR
