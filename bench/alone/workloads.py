"""What a node and the controllers of workloads would do: every workload rolls out, every Job succeeds by status.

A Deployment's status is written twice, when it is seen and when its pods are ready a moment later, as a rollout looks
to an operator. With ``pods`` there are pods as well, and those of Jobs say what Nova's check of a removed cell asks.
Runs as a task beside the operator, in the process of the benchmark.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from openstack_operator.runtime import client, conditions, errors, kinds
from openstack_operator.services.nova import removal

Object = dict[str, Any]

WORKLOADS = (kinds.DEPLOYMENT, kinds.STATEFULSET, kinds.DAEMONSET, kinds.JOB)

NODE_LABEL = "example.com/namespace"

READY_SECONDS = 1.0
"""From a workload that is seen to pods that are ready."""


def node(namespace: str) -> Object:
    """The one on which the pods of a namespace's DaemonSets are. No second cloud may have it."""
    return {
        "metadata": {
            "name": f"node-of-{namespace}",
            "labels": {"openstack.k8s.io/compute": "true", NODE_LABEL: namespace},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played", "message": ""}]},
    }


class Workloads:
    """Plays for one namespace, or for all of them."""

    def __init__(
        self, api: client.Client, namespace: str | None, resources: tuple[kinds.Resource, ...], *, pods: bool
    ) -> None:
        self._api, self._namespace, self._resources, self._pods = api, namespace, resources, pods
        self._seen: dict[str, int] = {}
        self._rollouts: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for resource in self._resources:
                    group.create_task(self._follow(resource))
        finally:
            for task in self._rollouts:
                task.cancel()
            await asyncio.gather(*self._rollouts, return_exceptions=True)

    async def _follow(self, resource: kinds.Resource) -> None:
        while True:
            with contextlib.suppress(errors.ApiUnreachableError):
                async for page in self._api.list_pages(resource, self._namespace, {}):
                    for item in page["items"]:
                        self._see(resource, item)
                version = page["metadata"]["resourceVersion"]
                stream = self._api.watch(resource, self._namespace, {}, version)
                async with contextlib.aclosing(stream):
                    async for event in stream:
                        if event["type"] in ("ADDED", "MODIFIED"):
                            self._see(resource, event["object"])

    def _see(self, resource: kinds.Resource, item: Object) -> None:
        metadata = item["metadata"]
        if self._seen.get(metadata["uid"]) == metadata["generation"] or "deletionTimestamp" in metadata:
            return
        self._seen[metadata["uid"]] = metadata["generation"]
        task = asyncio.ensure_future(self._roll_out(resource, item))
        self._rollouts.add(task)
        task.add_done_callback(self._rollouts.discard)

    async def _roll_out(self, resource: kinds.Resource, item: Object) -> None:
        try:
            await self._write(resource, item, begun(resource, item))
            if self._pods:
                await self._make_pods(resource, item)
            await asyncio.sleep(READY_SECONDS)
            if self._pods:
                await self._ready_pods(resource, item)
            await self._write(resource, item, done(resource, item))
        except errors.ApiError as problem:
            # It went away, or has another generation already.
            if problem.status not in (404, 409):
                print(f"{resource.kind} {item['metadata']['name']}: {problem}", file=sys.stderr)

    async def _write(self, resource: kinds.Resource, item: Object, status: Object) -> None:
        metadata = item["metadata"]
        path = resource.path(metadata["namespace"], metadata["name"], "status")
        await self._api.request("PATCH", path, body={"status": status}, content_type="application/merge-patch+json")

    def _names(self, resource: kinds.Resource, item: Object) -> list[str]:
        return [f"{item['metadata']['name']}-{number}" for number in range(replicas(resource, item))]

    async def _make_pods(self, resource: kinds.Resource, item: Object) -> None:
        metadata, template = item["metadata"], item["spec"]["template"]
        owner = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        for name in self._names(resource, item):
            body = {
                "metadata": {
                    **template["metadata"],
                    "name": name,
                    "namespace": metadata["namespace"],
                    "ownerReferences": [owner],
                },
                "spec": template["spec"] | {"volumes": await self._volumes(item, name)},
            }
            if resource == kinds.DAEMONSET:
                body["spec"]["nodeName"] = node(metadata["namespace"])["metadata"]["name"]
            if metadata["generation"] > 1:
                # No node holds it: it goes at once.
                path = kinds.POD.path(metadata["namespace"], name)
                with contextlib.suppress(errors.ApiError):
                    await self._api.request("DELETE", path, body={"gracePeriodSeconds": 0})
            await self._api.create(kinds.POD, body)

    async def _volumes(self, item: Object, pod: str) -> list[Object]:
        """Volumes of a pod; those of a StatefulSet's claims are made with their claims."""
        volumes: list[Object] = list(item["spec"]["template"]["spec"].get("volumes", []))
        for claim in item["spec"].get("volumeClaimTemplates", []):
            name = f"{claim['metadata']['name']}-{pod}"
            tags = claim["metadata"].get("labels", {}) | item["spec"]["selector"]["matchLabels"]
            metadata = {"name": name, "namespace": item["metadata"]["namespace"], "labels": tags}
            try:
                await self._api.create(kinds.PVC, {"metadata": metadata, "spec": claim["spec"]})
            except errors.ApiError as problem:
                # There from an earlier pod.
                if problem.status != 409:
                    raise
            volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}})
        return volumes

    async def _ready_pods(self, resource: kinds.Resource, item: Object) -> None:
        status = succeeded(item) if resource == kinds.JOB else running(item)
        for name in self._names(resource, item):
            pod = {"metadata": {"name": name, "namespace": item["metadata"]["namespace"]}}
            await self._write(kinds.POD, pod, status)


def replicas(resource: kinds.Resource, item: Object) -> int:
    """How many pods a workload has."""
    if resource == kinds.DAEMONSET:
        wanted = item["spec"]["template"]["spec"].get("nodeSelector", {})
        return int(wanted.items() <= node(item["metadata"]["namespace"])["metadata"]["labels"].items())
    return int(item["spec"].get("replicas", 1))


def begun(resource: kinds.Resource, item: Object) -> Object:
    """Status of a workload whose pods have just been made."""
    count, seen = replicas(resource, item), {"observedGeneration": item["metadata"]["generation"]}
    if resource == kinds.JOB:
        return {"active": 1, "startTime": conditions.now()}
    if resource == kinds.DAEMONSET:
        return seen | _daemons(count) | {"numberReady": 0, "numberAvailable": 0}
    status = seen | {"replicas": count, "updatedReplicas": count}
    if resource == kinds.STATEFULSET:
        return status | {"currentRevision": "old", "updateRevision": "new"}
    return status | {"unavailableReplicas": count}


def done(resource: kinds.Resource, item: Object) -> Object:
    """Status of a workload that has rolled out."""
    count, seen = replicas(resource, item), {"observedGeneration": item["metadata"]["generation"]}
    now = conditions.now()
    if resource == kinds.JOB:
        ended = [
            {"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("SuccessCriteriaMet", "Complete")
        ]
        return {"active": 0, "succeeded": 1, "completionTime": now, "uncountedTerminatedPods": {}, "conditions": ended}
    if resource == kinds.DAEMONSET:
        return seen | _daemons(count)
    status = seen | dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)
    if resource == kinds.STATEFULSET:
        return status | {"currentRevision": "new", "updateRevision": "new", "currentReplicas": count}
    return status | {"unavailableReplicas": None}


def _daemons(count: int) -> Object:
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
    return dict.fromkeys((*fields, "numberAvailable"), count) | {"numberMisscheduled": 0}


def running(item: Object) -> Object:
    """Status of a pod that serves."""
    now = conditions.now()
    kind_of = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": name, "status": "True", "lastTransitionTime": now} for name in kind_of],
        "containerStatuses": [
            _container(one) | {"ready": True, "started": True, "state": {"running": {"startedAt": now}}}
            for one in item["spec"]["template"]["spec"]["containers"]
        ],
    }


def succeeded(item: Object) -> Object:
    """Status of a Job's pod that has done its work."""
    now = conditions.now()
    ended = {"exitCode": 0, "reason": "Completed", "message": removal.GONE, "startedAt": now, "finishedAt": now}
    return {
        "phase": "Succeeded",
        "containerStatuses": [
            _container(one) | {"ready": False, "state": {"terminated": ended}}
            for one in item["spec"]["template"]["spec"]["containers"]
        ],
    }


def _container(container: Object) -> Object:
    return {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
