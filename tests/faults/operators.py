"""The operator's own process and Deployment, as its faults need them: killed, taken away, given another environment."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import machinery
from clusters import OPERATOR_NAMESPACE, Cluster, Object, condition

DEPLOYMENT = ("deployments", "openstack-operator", OPERATOR_NAMESPACE)
LEASE = ("leases", "openstack-operator", OPERATOR_NAMESPACE)
SELECTOR = "app.kubernetes.io/name=openstack-operator"
RUNS_SECONDS = 120


def pods(cluster: Cluster) -> list[Object]:
    """The pods that are not going."""
    found = cluster.items("pods", OPERATOR_NAMESPACE, SELECTOR)
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def the_pod(cluster: Cluster) -> Object:
    """The one pod, when it is ready."""
    end = time.monotonic() + RUNS_SECONDS
    while True:
        found = pods(cluster)
        if len(found) == 1 and condition(found[0], "Ready")["status"] == "True":
            return found[0]
        assert time.monotonic() < end, f"not one ready pod of the operator: {[one['status'] for one in found]}"
        time.sleep(0.1)


def kill(cluster: Cluster, pod: Object, pid: int) -> None:
    """kill -9 of the process, whose pid the caller looked up before: it is to end at once. Its pod goes too, since
    the kubelet lets a container that ends often wait, and so does its Lease, which is tested elsewhere."""
    machinery.kill(pid)
    name = pod["metadata"]["name"]
    cluster.kubectl("delete", "pod", name, "-n", OPERATOR_NAMESPACE, "--grace-period=0", "--force", "--wait=false")
    cluster.delete(*LEASE)


def holder(cluster: Cluster) -> str:
    """The name of the pod that leads; empty for none."""
    found = cluster.find(*LEASE)
    name: str = (found or {}).get("spec", {}).get("holderIdentity") or ""
    return name


@contextlib.contextmanager
def scaled(cluster: Cluster, replicas: int) -> Iterator[None]:
    """So many operators for as long as the block lasts, and one afterwards."""
    scale(cluster, replicas)
    try:
        yield
    finally:
        scale(cluster, 1)


def scale(cluster: Cluster, replicas: int) -> None:
    """Returns when there are as many, all of them ready."""
    cluster.kubectl("scale", "deployment", DEPLOYMENT[1], "-n", OPERATOR_NAMESPACE, f"--replicas={replicas}")
    if replicas:
        cluster.until_available(*DEPLOYMENT, RUNS_SECONDS)
    end = time.monotonic() + RUNS_SECONDS
    while len(cluster.items("pods", OPERATOR_NAMESPACE, SELECTOR)) != replicas:
        assert time.monotonic() < end, f"the operator's pods do not become {replicas}"
        time.sleep(0.2)


@contextlib.contextmanager
def changed(cluster: Cluster, change: dict[str, Any]) -> Iterator[None]:
    """The operator with a changed pod template (a strategic merge of its spec) for as long as the block lasts."""
    before = cluster.get(*DEPLOYMENT)["spec"]["template"]
    patch = {"spec": {"template": {"spec": change}}}
    where = ("patch", "deployment", DEPLOYMENT[1], "-n", OPERATOR_NAMESPACE)
    cluster.kubectl(*where, "--type=strategic", "-p", json.dumps(patch))
    try:
        cluster.until_available(*DEPLOYMENT, RUNS_SECONDS)
        the_pod(cluster)
        yield
    finally:
        whole = [{"op": "replace", "path": "/spec/template", "value": before}]
        cluster.kubectl(*where, "--type=json", "-p", json.dumps(whole))
        cluster.until_available(*DEPLOYMENT, RUNS_SECONDS)
        the_pod(cluster)


def restarts(cluster: Cluster) -> int:
    return sum(one["restartCount"] for pod in pods(cluster) for one in pod["status"].get("containerStatuses", []))


def cut_connections(cluster: Cluster) -> int:
    """The kernel resets every TCP connection of the operator to the API server. Returns how many there were."""
    address = the_pod(cluster)["status"]["podIP"]
    command = ["ss", "-K", "-H", "-t", "-n", "state", "established", "dst", address]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return len(done.stdout.splitlines())
