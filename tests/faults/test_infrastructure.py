"""The databases and buses below the services: ended in every way, and given back their work."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Iterator

import lines
import machinery
import pymysql
import pytest
from guests import until
from scene import QUIET, Scene

from openstack_operator.kit import ini

pytestmark = pytest.mark.usefixtures("again")

GROUP = "infrastructure"
PODS = ("mariadb-0", "rabbitmq-0", "memcached-0", "ovn-nb-0", "ovn-sb-0")
# Whose readiness is a connection to the message bus, with the virtual host that is not a cell's.
BUS_USERS = ("nova-scheduler", "nova-conductor")
MINUTE = 60


def _pod(scene: Scene, prefix: str) -> str:
    """The name of the one pod whose name begins so."""
    names = [name for name in scene.cloud.pods() if name.startswith(prefix)]
    assert len(names) == 1, names
    return names[0]


def _lines(*prefixes: str) -> str:
    """Pattern of a line of `status` about one of these pods, or about what it belongs to."""
    return lines.of(*(prefix.removesuffix("-0") for prefix in prefixes))


@pytest.mark.parametrize("prefix", [pytest.param(PODS[0], marks=pytest.mark.chosen), *PODS[1:], "ovn-northd"])
def test_a_pod_may_be_deleted_at_once(scene: Scene, prefix: str) -> None:
    name = _pod(scene, prefix)
    with scene.fault(f"pod of {prefix} deleted", group=GROUP, blames=_lines(prefix), silence=QUIET):
        scene.cluster.kubectl("delete", "pod", name, "-n", scene.namespace, "--grace-period=0", "--force")


@pytest.mark.parametrize("prefix", [*PODS, "ovn-northd"])
def test_a_process_may_be_killed(scene: Scene, prefix: str) -> None:
    name = _pod(scene, prefix)
    with scene.fault(f"{prefix} killed with -9", group=GROUP, blames=_lines(prefix), silence=QUIET):
        machinery.kill_pod(scene.cluster, scene.namespace, name)


@pytest.mark.parametrize("prefix", ["mariadb-0", "rabbitmq-0"])
def test_a_process_may_hang(scene: Scene, prefix: str) -> None:
    """It takes connections, and does not answer: named before its liveness probe ends it, which is what mends it."""
    pod = scene.cluster.get("pods", prefix, scene.namespace)
    with scene.fault(f"{prefix} hangs", group=GROUP, blames=_lines(prefix), silence=QUIET, seconds=600) as fault:
        with machinery.stopped(machinery.main_process(pod)):
            fault.until_blamed(180)
            _until_restarted(scene, prefix)


def _until_restarted(scene: Scene, name: str) -> None:
    before = scene.cluster.get("pods", name, scene.namespace)["status"]["containerStatuses"][0]["containerID"]

    def is_another(pod: dict | None) -> bool:
        found = (pod or {}).get("status", {}).get("containerStatuses") or [{}]
        return found[0].get("containerID", before) != before

    scene.cluster.until("pods", name, scene.namespace, is_another, "restarted by its liveness probe", 400)


def test_all_databases_and_buses_may_be_killed_together(scene: Scene) -> None:
    """`status` names the one that holds up most, so it need not be a certain one of them."""
    with scene.fault("MariaDB, RabbitMQ, Memcached and OVN's databases killed together", group=GROUP,
                     blames=_lines(*PODS), silence=QUIET):  # fmt: skip
        for name in PODS:
            machinery.kill_pod(scene.cluster, scene.namespace, name)


def test_the_message_bus_may_lose_everything_that_it_knows(scene: Scene) -> None:
    """The virtual host is deleted with its queues, users' rights and messages in it. Those who lose it say so, and get
    it back."""
    host = scene.cloud.secret("nova-mq")["vhost"]
    name = "a virtual host of RabbitMQ deleted"
    with scene.fault(name, group=GROUP, blames=lines.of(*BUS_USERS, says="no connection to port 5672"), silence=QUIET):
        scene.cloud.rabbitmqctl("delete_vhost", host)
        until(
            lambda: host in scene.cloud.rabbitmqctl("list_vhosts"),
            f"virtual host {host} is there again", 120, pause=2,
        )  # fmt: skip


def test_memcached_may_be_away_for_a_minute(scene: Scene) -> None:
    """Every API goes on answering: tokens are checked at Keystone instead."""
    with scene.fault("Memcached away", group=GROUP, blames=_lines("memcached-0"), silence=QUIET) as fault:
        with _unschedulable(scene):
            scene.cluster.kubectl("delete", "pod", "memcached-0", "-n", scene.namespace, "--wait=false")
            fault.until_blamed()
            time.sleep(MINUTE)
            fault.mend()
    assert scene.apis.failed(fault.began + 5, fault.mended or 0) == {}


def test_the_catalogue_is_right_after_memcached_has_hung(scene: Scene) -> None:
    """Who had no answer does without for a while, and makes things meanwhile that the cache hears nothing of."""
    memcached = machinery.main_process(scene.cluster.get("pods", "memcached-0", scene.namespace))
    service = ""
    try:
        with scene.fault("Memcached hangs while an endpoint is made", group=GROUP, silence=QUIET) as fault:
            assert CALLED not in _catalogue(scene)
            with machinery.stopped(memcached):
                service = scene.cloud.openstack(
                    "service", "create", "--name", CALLED, CALLED, "-f", "value", "-c", "id"
                ).strip()
                scene.cloud.openstack("endpoint", "create", service, "public", "http://127.0.0.1:1")
                assert CALLED in _catalogue(scene)
                fault.mend()
        end = time.monotonic() + 2.5 * ini.CACHE_SECONDS
        while time.monotonic() < end:
            assert CALLED in _catalogue(scene), "an entry from before it hung is used again"
            time.sleep(5)
    finally:
        if service:
            scene.cloud.openstack("service", "delete", service)


CALLED = "made-meanwhile"


def _catalogue(scene: Scene) -> set[str]:
    """Names of the services in the administrator's catalogue, as a new login gets it."""
    return {one["Name"] for one in scene.cloud.openstack_json("catalog", "list")}


@contextlib.contextmanager
def _unschedulable(scene: Scene) -> Iterator[None]:
    """No new pod gets a node."""
    nodes = [one["metadata"]["name"] for one in scene.cluster.items("nodes")]
    scene.cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        scene.cluster.kubectl("uncordon", *nodes)


def test_all_connections_of_the_database_may_be_taken(scene: Scene) -> None:
    """Somebody opens as many as there are, and each that becomes free."""
    name, blames = "connections of MariaDB exhausted", lines.of("mariadb", says="connections of the database are taken")
    with scene.fault(name, group=GROUP, blames=blames, silence=QUIET) as fault:
        with _all_connections(scene):
            fault.begin()
            fault.until_blamed()
            time.sleep(MINUTE / 2)
            fault.mend()


@contextlib.contextmanager
def _all_connections(scene: Scene) -> Iterator[None]:
    address = scene.cluster.get("pods", "mariadb-0", scene.namespace)["status"]["podIP"]
    login = scene.cloud.secret("keystone-db")
    held, are_all_taken, may_go = [], threading.Event(), threading.Event()

    def hold() -> None:
        while not may_go.is_set():
            try:
                held.append(
                    pymysql.connect(host=address, user=login["user"], password=login["password"], connect_timeout=5)
                )
            except pymysql.err.OperationalError:
                are_all_taken.set()
                may_go.wait(0.1)

    with concurrent.futures.ThreadPoolExecutor(1) as somebody:
        holding = somebody.submit(hold)
        try:
            assert are_all_taken.wait(2 * MINUTE), f"{len(held)} connections were not all"
            yield
        finally:
            may_go.set()
            holding.result()
            for one in held:
                one.close()
