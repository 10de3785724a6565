"""What is the matter with the pods of a workload, in one line that names pod, container and cause.

Also the watches that wake an object when its pods change, or when an Event tells what no status tells. Reads caches
only: a container's last words stand in its status (``terminationMessagePolicy``), so no log is ever asked for.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from typing import Any

from openstack_operator.kit import labels, redaction, volumes
from openstack_operator.runtime import apply, conditions, events, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key

LONGEST = 400

# What programs say after what went wrong, or beside it: SQLAlchemy ends each error with a link, MariaDB with that it
# goes, Erlang with its dump, uWSGI with its farewell. oslo.log puts its own words before each line of a traceback, and
# before the empty ones.
_BESIDE = re.compile(
    r"\(Background on this error at|\[ERROR\] Aborting$|Crash dump is being written|erl_crash\.dump|"
    r"VACUUM:|goodbye to uWSGI|^\s*(?:\^+|~+[\^~]*)\s*$|During handling of the above exception|"
    r"^[\d-]{10} [\d:.]{12} \d+ [A-Z]+ [\w.]+(?: ?$| {3,}\S)|Traceback \(most recent call last\)"
)
_ERROR = re.compile(
    r"error|critical|fatal|exception|failed|cannot|can't|could not|denied|refused|panic|no space left|\bis full\b",
    re.IGNORECASE,
)

# A process that a signal ended.
_SIGNALLED = 128
_SIGNALS = {one.value: one.name for one in signal.Signals}
_CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)

# What a kubelet says of every container that is on its way.
_ON_ITS_WAY = ("", "ContainerCreating", "PodInitializing")
_HERE = "PodReadyToStartContainers"


def watch(kind: str) -> Watch:
    """Pods labelled with ``labels.pod(…, owner_kind=kind)`` wake their object."""

    def keys(pod: Object, _: Any) -> Iterable[Key]:
        tags = pod["metadata"].get("labels", {})
        if tags.get(labels.OWNER_KIND) == kind:
            yield pod["metadata"]["namespace"], tags[labels.OWNER_NAME]

    return Watch(kinds.POD, keys)


def watches(resource: kinds.Resource) -> tuple[Watch, ...]:
    """What every controller with pods watches beside its objects."""
    return watch(resource.kind), watch_events(resource)


def watch_events(resource: kinds.Resource) -> Watch:
    """An Event that warns of a pod, a workload or a claim wakes the object of this kind that they belong to."""
    known = {one.kind: one for one in (kinds.STATEFULSET, kinds.DAEMONSET, kinds.JOB)}

    def keys(event: Object, manager: Any) -> Iterable[Key]:
        about = event["involvedObject"]
        namespace, name = about["namespace"], about["name"]
        # A server that has just been started refuses connections for a while; the pod's status tells the end of it.
        if event["message"].startswith("Startup probe"):
            return
        if about["kind"] == kinds.POD.kind:
            pod = manager.cached(kinds.POD, namespace, name)
            tags = pod["metadata"].get("labels", {}) if pod else {}
            if tags.get(labels.OWNER_KIND) == resource.kind:
                yield namespace, tags[labels.OWNER_NAME]
        elif about["kind"] == kinds.PVC.kind:
            yield from volumes.owner(resource, manager.cached(kinds.PVC, namespace, name), manager)
        elif about["kind"] in known:
            item = manager.cached(known[about["kind"]], namespace, name)
            if item is not None:
                yield from apply.owners(item, resource)

    # Each repetition is a change of the Event's count and time; what it says is the same.
    return Watch(kinds.EVENT, keys, lambda event: event["message"])


def selected(scope: Scope[Any], selector: dict[str, str]) -> list[Object]:
    """The cached pods of a workload."""
    return [pod for pod in scope.items(kinds.POD) if labels.matches(pod["metadata"].get("labels", {}), selector)]


def container_ids(found: Iterable[Object]) -> list[str]:
    """What the runtime calls the containers of pods, in one order: another one starts from nothing."""
    return sorted(
        str(container.get("containerID"))
        for pod in found
        for container in pod.get("status", {}).get("containerStatuses", [])
    )


def explain(scope: Scope[Any], selector: dict[str, str]) -> str:
    """The most telling problem among a workload's pods; empty when there is none to tell."""
    found = []
    warnings: list[Object] | None = None
    for pod in selected(scope, selector):
        name = f"pod {pod['metadata']['name']}"
        node = scope.manager.cached(kinds.NODE, None, pod.get("spec", {}).get("nodeName", ""))
        if "deletionTimestamp" in pod["metadata"]:
            lost = _lost(pod, node)
            found.append((8, f"{name} has to end by {pod['metadata']['deletionTimestamp']}{lost and f': {lost}'}"))
            continue
        if warnings is None:
            warnings = scope.manager.cached_items(kinds.EVENT, scope.namespace)
        rank, message = problem(pod, warnings, node)
        if message and (claim := _claim(scope, pod, warnings)):
            rank, message = 1, claim
        if message:
            found.append((rank, f"{name}: {message}"))
    return redaction.for_message(scope, min(found)[1]) if found else ""


def uncreated(scope: Scope[Any], workload: Object) -> str:
    """Why a workload that lacks pods cannot make them: what its controller was told; empty when nothing is known."""
    warnings = scope.manager.cached_items(kinds.EVENT, scope.namespace)
    told = events.newest(warnings, workload["metadata"]["uid"], events.FAILED_CREATE)
    return "" if told is None else redaction.for_message(scope, one_line(told["message"]))


def problem(pod: Object, warnings: Sequence[Object] = (), node: Object | None = None) -> tuple[int, str]:
    """Rank (smaller is more telling) and message, of a pod, the warnings of its namespace, and its node if known.

    The message holds what programs said: ``redaction`` is for whoever shows it.
    """
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    for container in containers:
        waiting = container.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason not in _ON_ITS_WAY:
            detail = _exit(container.get("lastState", {})) or waiting.get("message", "")
            return 0, _cut(f"container {container['name']}: {reason}: {detail}")
        ended = _exit(container.get("state", {}))
        if ended:
            return 1, _cut(f"container {container['name']}: {ended}")
    if status.get("phase") == "Failed" and status.get("reason"):
        # Evicted, or refused by its kubelet: no container tells.
        return 1, _cut(f"{status['reason']}: {status.get('message', '')}")
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return 1, _cut(f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}")
    if lost := _lost(pod, node):
        return 1, lost
    if status.get("phase") in ("Pending", None):
        return _starting(pod, containers, warnings)
    return _unready(pod, containers, warnings)


def _lost(pod: Object, node: Object | None) -> str:
    """Says so when the pod's node does not answer: all that its status says is old."""
    ready = conditions.find(node, conditions.READY)
    if node is None or ready is None or ready["status"] == "True" or conditions.is_true(pod, conditions.READY):
        return ""
    since = ready.get("lastTransitionTime", "")
    return _cut(f"Node {node['metadata']['name']} is not Ready since {since}: {ready.get('message', '')}")


def _starting(pod: Object, containers: Sequence[Object], warnings: Sequence[Object]) -> tuple[int, str]:
    creating = [one["name"] for one in containers if (one.get("state", {}).get("waiting") or {})]
    message = f"starting ({', '.join(creating) or 'not scheduled yet'})"
    if not conditions.is_true(pod, _HERE):
        told = events.newest(warnings, pod["metadata"].get("uid", ""), *events.MOUNT_FAILED)
        if told is not None:
            return 1, _cut(f"{message}: {told['reason']}: {told['message']}")
    return 3, message


def _unready(pod: Object, containers: Sequence[Object], warnings: Sequence[Object]) -> tuple[int, str]:
    not_ready = [one for one in containers if not one.get("ready") and "terminated" not in one.get("state", {})]
    if not not_ready or pod.get("status", {}).get("phase") != "Running":
        return 9, ""
    container = not_ready[-1]
    message = f"container {container['name']} is not ready yet"
    started = (container.get("state", {}).get("running") or {}).get("startedAt", "")
    told = events.newest(
        (
            one
            for one in warnings
            # What was said of the container before it was started anew is over.
            if one["involvedObject"]["fieldPath"] == f"spec.containers{{{container['name']}}}"
            and one["lastTimestamp"] >= started
        ),
        pod["metadata"].get("uid", ""),
        events.UNHEALTHY,
    )
    crash, lack = _exit(container.get("lastState", {})), told["message"] if told else ""
    # A container between two crashes runs, and is asked in vain; why it crashes is still what one wants to know. One
    # that has started says itself what it lacks now.
    detail = lack or crash if container.get("started") else crash or lack
    return 2, _cut(f"{message}: {detail}" if detail else message)


def _claim(scope: Scope[Any], pod: Object, warnings: Sequence[Object]) -> str:
    found = (scope.manager.cached(kinds.PVC, scope.namespace, name) for name in claims(pod))
    classes = scope.manager.cached_items(kinds.STORAGECLASS, None)
    return unbound(pod, [one for one in found if one is not None], classes, warnings)


def claims(pod: Object) -> list[str]:
    """Names of the volume claims that a pod uses."""
    volumes = pod.get("spec", {}).get("volumes", ())
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def unbound(pod: Object, found: Sequence[Object], classes: Sequence[Object], warnings: Sequence[Object]) -> str:
    """What a pod that no node was found for waits for, where that is one of its claims; else empty.

    ``found`` are its claims, ``classes`` the cluster's storage classes, ``warnings`` Events of its namespace.
    """
    if pod.get("spec", {}).get("nodeName") or pod.get("status", {}).get("containerStatuses"):
        return ""
    told = (volumes.problem(claim, classes, warnings) for claim in found)
    return _cut(next((message for message in told if message), ""))


def is_ready(pod: Object) -> bool:
    """Whether it serves, and is not on its way out."""
    return "deletionTimestamp" not in pod["metadata"] and conditions.is_true(pod, conditions.READY)


def has_stopped_serving(pod: Object) -> bool:
    """Whether a container of it runs that was ready, and is not any more: by its probe, something is away that it
    needs. One that is on its way up has never been ready."""
    ready = conditions.find(pod, conditions.READY) or {}
    if "deletionTimestamp" in pod["metadata"] or ready.get("status") != "False":
        return False
    for container in pod.get("status", {}).get("containerStatuses", []):
        running = container.get("state", {}).get("running")
        # Both are texts of one form, to the second.
        if running and container.get("started") and running["startedAt"] < ready.get("lastTransitionTime", ""):
            return True
    return False


def one_line(text: str) -> str:
    """The text with line breaks as spaces, of bearable length."""
    return _cut(" ".join(text.split()))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _exit(state: Object) -> str:
    ended = state.get("terminated") or {}
    code = ended.get("exitCode", 0)
    if code == 0:
        return ""
    reason, number = ended.get("reason") or "", code - _SIGNALLED
    words = last_words(ended.get("message") or "")
    # A report of a crash ends with the machine's kernel and limits, and with what was asked for.
    if number in _CRASHES and not _ERROR.search(words):
        words = ""
    # That memory ran out is said nowhere else; that it was an error, the code says.
    why = reason if reason not in ("", "Error", "Completed") else _SIGNALS.get(number, "")
    told = words or ("" if why else reason)
    return f"exit code {code}" + (f" ({why})" if why else "") + (f": {told}" if told else "")


def last_words(log: str) -> str:
    """The line at the end of a log that says what went wrong: the last that speaks of an error, else the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _BESIDE.search(line)]
    return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "")
