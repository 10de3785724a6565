"""What a node would do, for tests without one: pods of a namespace come up, and Jobs' pods end.

The workloads' own controllers are the real ones (kube-controller-manager); only the kubelet is stood in for. It works
by a watch, as the real one does. A test holds back the pods of a component, or gives them another end.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from openstack_operator.runtime import client, conditions, errors, kinds

Object = dict[str, Any]
COMPONENT = "app.kubernetes.io/component"
NAME = "app.kubernetes.io/name"


def component(pod: Object) -> str:
    """Such as `keystone/api`."""
    tags = pod["metadata"].get("labels", {})
    return f"{tags.get(NAME, '')}/{tags.get(COMPONENT, '')}"


class Kubelet:
    """Runs as a task of the test; `hold` and `statuses` may change at any time."""

    def __init__(self, api: client.Client, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._seen: dict[str, Object] = {}
        self.held: set[str] = set()
        """Components whose pods stay as the scheduler left them."""
        self.statuses: dict[str, Callable[[Object], Object]] = {}
        """Other statuses than those of a pod that is well, by component."""

    def hold(self, *components: str) -> None:
        self.held |= set(components)

    async def release(self, *components: str) -> None:
        """What was held back, or given another status, comes up now."""
        for one in components:
            self.held.discard(one)
            self.statuses.pop(one, None)
        for pod in list(self._seen.values()):
            if component(pod) in components:
                await self._act(pod)

    async def look(self) -> None:
        """What was held back or given statuses since is applied to the pods that are there already."""
        for pod in list(self._seen.values()):
            await self._act(pod)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(errors.ApiError, errors.ApiUnreachableError):
                async for page in self._api.list_pages(kinds.POD, self._namespace, {}):
                    for pod in page["items"]:
                        await self._see(pod)
                stream = self._api.watch(kinds.POD, self._namespace, {}, page["metadata"]["resourceVersion"])
                async with contextlib.aclosing(stream):
                    async for event in stream:
                        if event["type"] == "ADDED":
                            await self._see(event["object"])
                        elif event["type"] == "DELETED":
                            self._seen.pop(event["object"]["metadata"]["uid"], None)
            await asyncio.sleep(0.05)

    async def _see(self, pod: Object) -> None:
        self._seen[pod["metadata"]["uid"]] = pod
        await self._act(pod)

    async def _act(self, pod: Object) -> None:
        what = component(pod)
        if what in self.held:
            return
        status = self.statuses.get(what, _well)(pod)
        path = kinds.POD.path(self._namespace, pod["metadata"]["name"], "status")
        try:
            await self._api.request("PATCH", path, body={"status": status}, content_type="application/merge-patch+json")
        except errors.ApiError as problem:
            if problem.status != 404:
                raise


def _well(pod: Object) -> Object:
    is_job = any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", []))
    return succeeded(pod) if is_job else running(pod)


def running(pod: Object) -> Object:
    """Every container runs and is ready."""
    now = conditions.now()
    identifier = f"containerd://{pod['metadata']['uid']}"
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [
            {"type": name, "status": "True", "lastTransitionTime": now}
            for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "containerID": identifier,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def _ended(pod: Object, code: int, reason: str, message: str) -> list[Object]:
    now = conditions.now()
    state = {"exitCode": code, "reason": reason, "message": message, "startedAt": now, "finishedAt": now}
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": state},
        }
        for container in pod["spec"]["containers"]
    ]


def succeeded(pod: Object) -> Object:
    return {"phase": "Succeeded", "containerStatuses": _ended(pod, 0, "Completed", "")}


def failed(message: str) -> Callable[[Object], Object]:
    """Every container ends with exit code 1 and these last lines of its log."""
    return lambda pod: {"phase": "Failed", "containerStatuses": _ended(pod, 1, "Error", message)}


def waiting(reason: str, message: str) -> Callable[[Object], Object]:
    """The first container waits, as for an image that cannot be pulled."""

    def status(pod: Object) -> Object:
        first = pod["spec"]["containers"][0]
        state = {"waiting": {"reason": reason, "message": message}}
        statuses = [
            {
                "name": first["name"],
                "image": first["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
            }
        ]
        return {"phase": "Pending", "containerStatuses": statuses}

    return status


def crashing(log: str, code: int = 1, reason: str = "Error") -> Callable[[Object], Object]:
    """The first container ended with these last lines of its log, and waits before it is started again."""

    def status(pod: Object) -> Object:
        found = waiting("CrashLoopBackOff", "back-off 10s restarting failed container")(pod)
        ended = _ended(pod, code, reason, log)[0]["state"]
        return {**found, "phase": "Running", "containerStatuses": [
            {**found["containerStatuses"][0], "restartCount": 1, "lastState": ended}
        ]}  # fmt: skip

    return status


def unready(pod: Object) -> Object:
    """Every container runs, and none answers its readiness probe."""
    found = running(pod)
    for one in found["conditions"]:
        if one["type"] in ("ContainersReady", "Ready"):
            one["status"] = "False"
    for one in found["containerStatuses"]:
        one["ready"] = False
    return found


def unschedulable(message: str) -> Callable[[Object], Object]:
    """As the scheduler leaves a pod that fits nowhere."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return lambda pod: {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": conditions.now()}]}


def unhealthy(pod: Object, answer: str) -> Object:
    """The Event that a kubelet writes when a probe of the first container failed."""
    metadata, now = pod["metadata"], conditions.now()
    return {
        "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "namespace": metadata["namespace"],
            "uid": metadata["uid"], "fieldPath": f"spec.containers{{{pod['spec']['containers'][0]['name']}}}",
        },
        "reason": "Unhealthy", "message": answer, "type": "Warning", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet", "host": "n1"},
    }  # fmt: skip
