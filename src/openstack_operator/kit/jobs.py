"""Jobs: run once for each set of inputs, again when these change, and again after a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.kit import labels, names, pods, verified, workloads
from openstack_operator.kit.kinds import DOMAIN
from openstack_operator.runtime import apply, drift, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope

RETRIES = 3
SAID = f"{DOMAIN}/said"
"""Annotation of a Job: what its pod said at its end."""


def job(pod: workloads.Pod, name: str) -> Object:
    """A Job without a time to live: its presence says that these inputs were dealt with."""
    template = workloads.template(pod)
    template["spec"]["restartPolicy"] = "OnFailure"
    return {
        "metadata": {"name": name, "labels": labels.common(pod.service, pod.instance, pod.component)},
        "spec": {"backoffLimit": RETRIES, "template": template},
    }


def job_name(scope: Scope[Any], pod: workloads.Pod, task: str) -> str:
    """Name of the Job for the pod's present inputs."""
    servers = sorted(str(value) for fact, value in scope.facts.items() if fact.endswith(".server"))
    return names.job(scope.name, task, drift.digest([workloads.template(pod), servers]))


def children(scope: Scope[Any]) -> list[Object]:
    """The Jobs of the object, as their pods have left them."""
    return counted(scope.children(kinds.JOB), scope.items(kinds.POD))


def counted(found: Iterable[Object], running: Iterable[Object]) -> list[Object]:
    """Jobs with the success that their pods tell. Kubernetes counts the pods of a Job a second later, and in a
    rollout one Job is waited for after the other."""
    ended = {apply.controller_uid(pod) for pod in running if pod.get("status", {}).get("phase") == "Succeeded"}
    return [
        {**one, "status": {**one.get("status", {}), "succeeded": 1}} if one["metadata"]["uid"] in ended else one
        for one in found
    ]


async def ensure(scope: Scope[Any], pod: workloads.Pod, task: str, *, inputs: workloads.Pod | None = None) -> str:
    """Runs the Job for the pod's present inputs (image, command, configuration) and waits for its success; gives
    the name of the Job.

    ``inputs`` is the pod whose change asks for another run, where what the Job is told changes for other reasons too.
    Jobs of other inputs are removed. A failed one is removed too and made anew after the controller's back-off, because
    what it failed on (a database that was away) may be over. Raises ``errors.Waiting`` and ``errors.Unavailable``.
    """
    name = job_name(scope, inputs or pod, task)
    for other in scope.children(kinds.JOB):
        metadata = other["metadata"]
        if metadata["labels"].get(labels.COMPONENT) == pod.component and metadata["name"] != name:
            await scope.delete(kinds.JOB, metadata["name"])
    present = scope.get(kinds.JOB, name)
    if present is None:
        present = await scope.apply(kinds.JOB, job(pod, name))
    (present,) = counted([present], scope.items(kinds.POD))
    status = present.get("status", {})
    if status.get("succeeded"):
        return name
    why = pods.explain(scope, workloads.selector(pod)) or pods.uncreated(scope, present)
    for condition in status.get("conditions", []):
        if condition["type"] == "Failed" and condition["status"] == "True":
            await scope.delete(kinds.JOB, name)
            raise errors.Unavailable("JobFailed", f"Job {scope.namespace}/{name} failed: {why or condition['message']}")
    message = f"Job {scope.namespace}/{name} is running" + (f": {why}" if why else "")
    raise errors.Waiting("JobRunning", message, on=kinds.JOB.kind)


async def said(scope: Scope[Any], name: str) -> str:
    """What the Job that succeeded said: the termination message of its pod. It is written to the Job when it is read,
    since anybody may remove pods that have ended; empty where one was removed before."""
    job = scope.get(kinds.JOB, name)
    if job is None:
        return ""
    if known := job["metadata"].get("annotations", {}).get(SAID):
        return str(known)
    for item in scope.items(kinds.POD):
        if apply.controller_uid(item) != job["metadata"]["uid"]:
            continue
        for container in item.get("status", {}).get("containerStatuses", []):
            ended = container.get("state", {}).get("terminated") or {}
            if ended.get("exitCode") == 0 and (message := str(ended.get("message", "")).strip()):
                if not verified.is_assumed(scope):
                    patch = {"metadata": {"annotations": {SAID: message}}}
                    await scope.client.merge(kinds.JOB, name, scope.namespace, patch)
                return message
    return ""
