"""What is the matter with the pods of a workload, in one line that names pod, container and cause.

Also the watch that wakes an object when its pods change. Reads the cache only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from openstack_operator.kit import labels
from openstack_operator.runtime import conditions, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key

_LOGIN = re.compile(r"(://[^:/@\s]*):[^@\s]*@")


def watch(kind: str) -> Watch:
    """Pods labelled with ``labels.pod(…, owner_kind=kind)`` wake their object."""

    def keys(pod: Object, _: Any) -> Iterable[Key]:
        tags = pod["metadata"].get("labels", {})
        if tags.get(labels.OWNER_KIND) == kind:
            yield pod["metadata"]["namespace"], tags[labels.OWNER_NAME]

    return Watch(kinds.POD, keys)


def explain(scope: Scope[Any], selector: dict[str, str]) -> str:
    """The most telling problem among a workload's pods; empty when there is none to tell."""
    found = []
    for pod in scope.items(kinds.POD):
        if labels.matches(pod["metadata"].get("labels", {}), selector) and "deletionTimestamp" not in pod["metadata"]:
            rank, message = problem(pod)
            if message:
                found.append((rank, f"pod {pod['metadata']['name']}: {message}"))
    return min(found)[1] if found else ""


def problem(pod: Object) -> tuple[int, str]:
    """Rank (smaller is more telling) and message."""
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    for container in containers:
        waiting = container.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            detail = _exit(container.get("lastState", {})) or waiting.get("message", "")
            return 0, f"container {container['name']}: {reason}: {detail}"[:400]
        ended = _exit(container.get("state", {}))
        if ended:
            return 1, f"container {container['name']}: {ended}"[:400]
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return 1, f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}"[:400]
    if status.get("phase") in ("Pending", None):
        creating = [c["name"] for c in containers if (c.get("state", {}).get("waiting") or {})]
        return 3, f"starting ({', '.join(creating) or 'not scheduled yet'})"
    not_ready = [container["name"] for container in containers if not container.get("ready")]
    if not_ready and status.get("phase") == "Running":
        return 2, f"container {not_ready[-1]} is not ready yet"
    return 9, ""


def is_ready(pod: Object) -> bool:
    """Whether it serves, and is not on its way out."""
    return "deletionTimestamp" not in pod["metadata"] and conditions.is_true(pod, conditions.READY)


def without_password(text: str) -> str:
    """The text with the passwords of its URLs hidden."""
    return _LOGIN.sub(r"\1:***@", text)


def _exit(state: Object) -> str:
    ended = state.get("terminated") or {}
    if not ended or ended.get("exitCode") == 0:
        return ""
    lines = (ended.get("message") or ended.get("reason") or "").strip().splitlines()
    # SQLAlchemy ends each error with a link, below the line that says what is wrong.
    telling = [line for line in lines if line.strip() and "(Background on this error at" not in line]
    # Programs quote the URL that they could not use.
    last = without_password(telling[-1]) if telling else ""
    return f"exit code {ended.get('exitCode')}: {last}"
