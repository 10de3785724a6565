"""Deletion, and the loss of the database, at moments that nobody would choose; a new schema under objects that exist.
Nothing waits for a person, and what was deleted can be made again.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import machinery
import operators
import pymysql
import pytest
import yaml
from clouds import CONTROL_PLANE
from clusters import OPERATOR_NAMESPACE, ClusterError, Object, writes
from guests import until
from small_scene import CLOUD, SmallScene

pytestmark = pytest.mark.usefixtures("again")

GROUP = "hands"
CRDS = Path(__file__).parents[2] / "deploy" / "crds"
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:openstack-operator"
QUIET_SECONDS = 15
GONE_SECONDS = 240
SYNC_SECONDS = 180
# The first is alembic's own, in which it notes what it has done: a Job that was cut off there begins from nothing.
FEW_TABLES = 3
# Services of a small cloud with tables of their own, and the Job that makes them: the beginning of its name, and what
# its command line has.
SYNCED = {
    "keystone": ("keystone-bootstrap-", "keystone.cmd.manage:main"),
    "placement": ("placement-db-sync-", "placement.cmd.manage:main"),
    "glance": ("glance-db-sync-", "glance.cmd.manage:main"),
}


def _is_running(name: str) -> Callable[[list[Object]], bool]:
    """Whether a pod whose name begins so runs."""
    return lambda pods: any(
        one["metadata"]["name"].startswith(name) and one["status"]["phase"] == "Running" for one in pods
    )


def _until_pod(scene: SmallScene, name: str, seconds: float = 120) -> None:
    with scene.cluster.watch("pods", "-n", scene.namespace, seconds=seconds) as events:
        assert any(_is_running(name)([pod]) for _, pod in events), f"no pod of {name} runs"


Moment = Callable[[SmallScene, ExitStack], None]
"""Makes a cloud, and returns at the moment; what is to go on meanwhile is entered into the stack."""


def _made(scene: SmallScene, stack: ExitStack) -> None:
    """Right after it was asked for."""
    scene.make()


def _in_rollout(scene: SmallScene, stack: ExitStack) -> None:
    """While its database starts."""
    scene.make()
    _until_pod(scene, "mariadb-0")


def _with(service: str) -> tuple[str, ...]:
    """What a cloud has for this service."""
    return ("keystone",) if service == "keystone" else ("keystone", service)


@contextmanager
def _in_db_sync(scene: SmallScene, service: str) -> Iterator[int]:
    """A new cloud, in which some of a service's tables are made; how many. Their Job, which is done within a second or
    two, stands still as long as the block lasts."""
    job, command = SYNCED[service]
    scene.make(_with(service))
    connected = functools.partial(_database, scene, service)
    with until(connected, f"{service}'s database takes its user", SYNC_SECONDS) as link:
        pid = until(functools.partial(_process, command), f"{job} runs", SYNC_SECONDS, pause=0.05)
        until(lambda: _tables(link) >= FEW_TABLES, f"{service} has tables", SYNC_SECONDS, pause=0.002)
        with machinery.stopped(pid):
            pod = until(functools.partial(_running, scene, job), f"a pod of {job} runs", 30)
            assert pid in machinery.descendants(machinery.main_process(pod)), "somebody else's"
            yield _tables(link)
            assert machinery.is_stopped(pid), f"the process of {job} has ended"


def _require_more(scene: SmallScene, service: str, made: int) -> None:
    """That not all tables were made then, now that they are."""
    with until(functools.partial(_database, scene, service), f"{service}'s database takes its user", 30) as link:
        assert FEW_TABLES <= made < _tables(link)


def _database(scene: SmallScene, service: str) -> pymysql.connections.Connection | None:
    """A connection to the server of a service's database as the service; None where it cannot be had yet."""
    try:
        login = scene.cloud.secret(f"{service}-db")
        address = scene.cluster.get("pods", "mariadb-0", scene.namespace)["status"]["podIP"]
        return pymysql.connect(host=address, user=login["user"], password=login["password"], connect_timeout=5)
    except (ClusterError, KeyError, pymysql.err.OperationalError):
        return None


def _tables(link: pymysql.connections.Connection) -> int:
    """How many tables there are that the user may see; all are the service's."""
    with link.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_type = 'BASE TABLE'")
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def _process(word: str) -> int:
    """pid of a process whose command line has the word; 0 for none."""
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    found = (pid for pid in pids if word in machinery.command_line(pid))
    # The first one started the others.
    return min(found, default=0)


def _running(scene: SmallScene, name: str) -> Object | None:
    """A pod whose name begins so, and which runs."""
    pods = scene.cluster.items("pods", scene.namespace)
    return next((one for one in pods if _is_running(name)([one])), None)


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


MOMENTS: dict[str, Moment] = {
    "right after it was made": _made,
    "in its rollout": _in_rollout,
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


@pytest.mark.parametrize("service", SYNCED)
def test_a_namespace_may_be_deleted_in_the_middle_of_a_db_sync_and_made_again(fresh: SmallScene, service: str) -> None:
    name = f"namespace deleted in the middle of {service}'s db-sync, and made again"
    with fresh.rollout(name, group=GROUP) as fault:
        with _in_db_sync(fresh, service) as made:
            fault.begin()
            fresh.cluster.kubectl("delete", "namespace", fresh.namespace, "--wait=false")
        fresh.until_gone()
        fault.ask_again()
        fresh.make(_with(service))
    _require_more(fresh, service, made)


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


@pytest.mark.parametrize("service", SYNCED)
def test_a_control_plane_may_be_deleted_in_the_middle_of_a_db_sync_and_made_again(
    fresh: SmallScene, service: str
) -> None:
    cluster, namespace = fresh.cluster, fresh.namespace
    name = f"control plane deleted in the middle of {service}'s db-sync, and made again"
    with fresh.rollout(name, group=GROUP) as fault:
        with _in_db_sync(fresh, service) as made:
            fault.begin()
            cluster.delete(CONTROL_PLANE, CLOUD, namespace)
        cluster.until_gone(CONTROL_PLANE, CLOUD, namespace, GONE_SECONDS)
        assert cluster.ours(namespace) == []
        fault.ask_again()
        fresh.make(_with(service))
    _require_more(fresh, service, made)


@pytest.mark.parametrize("service", SYNCED)
def test_mariadb_may_be_killed_in_the_middle_of_a_db_sync(fresh: SmallScene, service: str) -> None:
    with fresh.rollout(f"mariadb-0 killed with -9 in the middle of {service}'s db-sync", group=GROUP) as fault:
        with _in_db_sync(fresh, service) as made:
            fault.begin()
            machinery.kill_pod(fresh.cluster, fresh.namespace, "mariadb-0")
    _require_more(fresh, service, made)


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
