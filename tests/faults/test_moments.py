"""Deletion, and the loss of the database, at moments that nobody would choose; a new schema under objects that exist.
Nothing waits for a person, and what was deleted can be made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import machinery
import operators
import pytest
import yaml
from clouds import CONTROL_PLANE
from clusters import OPERATOR_NAMESPACE, Object, writes
from small_scene import CLOUD, SmallScene

pytestmark = pytest.mark.usefixtures("again")

GROUP = "hands"
CRDS = Path(__file__).parents[2] / "deploy" / "crds"
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:openstack-operator"
QUIET_SECONDS = 15
GONE_SECONDS = 240


def _is_running(name: str) -> Callable[[list[Object]], bool]:
    """Whether a pod whose name begins so runs."""
    return lambda pods: any(
        one["metadata"]["name"].startswith(name) and one["status"]["phase"] == "Running" for one in pods
    )


def _until_pod(scene: SmallScene, name: str, seconds: float = 120) -> None:
    with scene.cluster.watch("pods", "-n", scene.namespace, seconds=seconds) as events:
        assert any(_is_running(name)([pod]) for _, pod in events), f"no pod of {name} runs"


def _made(scene: SmallScene, stack: ExitStack) -> None:
    """Right after it was asked for."""
    scene.make()


def _in_rollout(scene: SmallScene, stack: ExitStack) -> None:
    """While its database starts."""
    scene.make()
    _until_pod(scene, "mariadb-0")


def _in_job(scene: SmallScene, stack: ExitStack) -> None:
    """While the Job that fills its database runs."""
    scene.make()
    _until_pod(scene, "keystone-bootstrap")


def _with_hanging_database(scene: SmallScene, stack: ExitStack) -> None:
    scene.make()
    scene.cloud.until_ready()
    pod = scene.cluster.get("pods", "mariadb-0", scene.namespace)
    stack.enter_context(machinery.stopped(machinery.main_process(pod)))


def _without_database(scene: SmallScene, stack: ExitStack) -> None:
    scene.make()
    scene.cloud.until_ready()
    scene.cluster.apply(quota(scene.namespace, pods=0))
    scene.cluster.delete("pods", "mariadb-0", scene.namespace, wait=True)


def quota(namespace: str, pods: int) -> Object:
    """No more pods than these in a namespace."""
    metadata = {"name": "few-pods", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}}


MOMENTS: dict[str, Callable[[SmallScene, ExitStack], None]] = {
    "right after it was made": _made,
    "in its rollout": _in_rollout,
    "while a Job fills its database": _in_job,
    "while its database hangs": _with_hanging_database,
    "while its database is away": _without_database,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_namespace_may_be_deleted_at_any_moment_and_made_again(fresh: SmallScene, moment: str) -> None:
    """With all that is in it, by nothing but the deletion of the namespace."""
    with fresh.rollout(f"namespace deleted {moment}, and made again", group=GROUP) as fault, ExitStack() as stack:
        MOMENTS[moment](fresh, stack)
        fault.begin()
        fresh.cluster.kubectl("delete", "namespace", fresh.namespace, "--wait=false")
        fresh.until_gone()
        fault.ask_again()
        fresh.make()


@pytest.mark.parametrize("moment", list(MOMENTS)[2:])
def test_a_control_plane_may_be_deleted_at_any_moment_and_made_again(fresh: SmallScene, moment: str) -> None:
    cluster, namespace = fresh.cluster, fresh.namespace
    name = f"control plane deleted {moment}, and made again"
    with fresh.rollout(name, group=GROUP) as fault, ExitStack() as stack:
        MOMENTS[moment](fresh, stack)
        fault.begin()
        cluster.delete(CONTROL_PLANE, CLOUD, namespace)
        cluster.until_gone(CONTROL_PLANE, CLOUD, namespace, GONE_SECONDS)
        assert cluster.ours(namespace) == []
        cluster.delete("resourcequotas", "few-pods", namespace)
        fault.ask_again()
        fresh.make()


def test_mariadb_may_be_killed_while_a_job_fills_it(fresh: SmallScene) -> None:
    with fresh.rollout("mariadb-0 killed with -9 while a Job fills it", group=GROUP) as fault:
        MOMENTS["while a Job fills its database"](fresh, ExitStack())
        fault.begin()
        machinery.kill_pod(fresh.cluster, fresh.namespace, "mariadb-0")


def test_a_new_schema_restarts_nothing_and_writes_nothing(small: SmallScene) -> None:
    """The definitions of all kinds with another description and one more field, under objects that exist."""
    cluster = small.cluster
    originals = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    pods, restarts = _all_pods(small), operators.restarts(cluster)
    with small.fault("definitions of all kinds upgraded under a cloud", group=GROUP):
        since = cluster.audit_position()
        try:
            cluster.apply(*(_upgraded(one) for one in originals))
            _until_quiet(small)
        finally:
            cluster.apply(*originals)
        _until_quiet(small)
        assert writes(cluster.audited(since), OPERATOR_USER) == []
    assert (_all_pods(small), operators.restarts(cluster)) == (pods, restarts)


def _upgraded(definition: Object) -> Object:
    out: Object = json.loads(json.dumps(definition))
    for version in out["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["description"] = "A newer one."
        schema["properties"]["spec"]["properties"]["newerField"] = {"type": "string", "description": "A newer field."}
    return out


def _until_quiet(small: SmallScene) -> None:
    """A change of a definition ends all watches of its kind; what comes of that comes in this time."""
    time.sleep(QUIET_SECONDS)
    small.until_whole(time.monotonic())


def _all_pods(small: SmallScene) -> dict[str, str]:
    """uid by name of all pods of all clouds, and of the operator."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in small.cluster.items("pods")}
