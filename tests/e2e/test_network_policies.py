"""Who reaches what in a cloud: pods of the graph their servers, everybody the APIs, nobody anything else (ADR-0006).

Connections are tried from pods, by a program in them; that a server is there at all is shown by those who reach it.
"""

from __future__ import annotations

import concurrent.futures
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import Cloud
from clusters import OPERATOR_NAMESPACE, Cluster, Object
from machine import processes

from openstack_operator.kit.network_policies import Audience
from openstack_operator.services import SERVICES

NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
Target = tuple[str, int]
"""Address of a pod, and port."""

# A connection that a policy forbids ends in silence. Those that are allowed need milliseconds.
SILENCE_SECONDS = 4
CONNECT = f"""
import concurrent.futures, json, socket, sys

def opens(target):
    try:
        socket.create_connection(tuple(target), {SILENCE_SECONDS}).close()
    except OSError as problem:
        return None if isinstance(problem, TimeoutError) else type(problem).__name__
    return "open"

targets = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(opens, targets))))
"""
OPERATOR_PORTS = {8080, 8081, 9443}
"""Metrics, health, webhook."""


def kind(pod: Object) -> tuple[str, str]:
    """Service and component."""
    tags = pod["metadata"].get("labels", {})
    return tags.get(NAME, ""), tags.get(COMPONENT, "")


def serving(cluster: Cluster, namespace: str) -> list[Object]:
    """Pods that run in a network of their own."""
    return [
        pod
        for pod in cluster.items("pods", namespace)
        if pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and not pod["spec"].get("hostNetwork")
    ]


@pytest.fixture(scope="module")
def pods(cloud: Cloud) -> list[Object]:
    return serving(cloud.cluster, cloud.namespace)


def listeners(*audiences: Audience) -> dict[tuple[str, str], set[int]]:
    """Ports by service and component."""
    found: dict[tuple[str, str], set[int]] = {}
    for service in SERVICES:
        for one in service.listeners:
            if one.audience in audiences:
                found.setdefault((service.name, one.component), set()).add(one.port)
    return found


def targets(pods: list[Object], *audiences: Audience) -> dict[Target, str]:
    """What listens for these audiences in the cloud, by where it is."""
    ports = listeners(*(audiences or tuple(Audience)))
    return {
        (pod["status"]["podIP"], port): f"{'/'.join(kind(pod))}:{port}"
        for pod in pods
        for port in sorted(ports.get(kind(pod), ()))
    }


def reached(cluster: Cluster, pod: Object, wanted: dict[Target, str]) -> set[str]:
    """Which of them take a connection from this pod."""
    metadata = pod["metadata"]
    arguments = ("exec", "-n", metadata["namespace"], metadata["name"], "--", "python3", "-c", CONNECT)
    answers = json.loads(cluster.kubectl(*arguments, json.dumps(list(wanted))))
    assert set(answers) <= {"open", None}, f"{metadata['name']}: {dict(zip(wanted.values(), answers, strict=True))}"
    return {name for name, answer in zip(wanted.values(), answers, strict=True) if answer == "open"}


# --- pods outside of the graph --------------------------------------------------------------------------------------


def stranger(cloud: Cloud, namespace: str, name: str, tags: dict[str, str]) -> Object:
    """A pod that has Python and nothing else to do."""
    image = cloud.cluster.get("deployments", "openstackclient", cloud.namespace)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": tags},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsUser": 65532, "runAsNonRoot": True},
            "containers": [
                {
                    "name": "main",
                    "image": image["spec"]["template"]["spec"]["containers"][0]["image"],
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "3600"],
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def strangers(cloud: Cloud) -> Iterator[list[Object]]:
    """In the cloud's namespace, in another one, and in another one with the labels of a service and of the operator."""
    elsewhere = "e2e-strangers"
    cloud.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}})
    ours = {"app.kubernetes.io/managed-by": "openstack-operator"}
    made = [
        stranger(cloud, cloud.namespace, "stranger", {}),
        stranger(cloud, elsewhere, "stranger", {}),
        stranger(cloud, elsewhere, "disguised-as-nova", {NAME: "nova", COMPONENT: "conductor", **ours}),
        stranger(cloud, elsewhere, "disguised-as-operator", {NAME: "openstack-operator"}),
    ]
    cloud.cluster.apply(*made)
    for one in made:
        metadata = one["metadata"]

        def runs(item: Object | None) -> bool:
            return item is not None and item["status"].get("phase") == "Running"

        cloud.cluster.until("pods", metadata["name"], metadata["namespace"], runs, "running")
    yield made
    cloud.cluster.delete("pods", "stranger", cloud.namespace)
    cloud.cluster.kubectl("delete", "namespace", elsewhere, "--wait=false")


def test_a_pod_outside_of_the_graph_reaches_the_apis_and_nothing_else(
    cloud: Cloud, pods: list[Object], strangers: list[Object]
) -> None:
    everything, apis = targets(pods), set(targets(pods, Audience.EVERYONE).values())
    assert {"keystone/api:5000", "nova/api:8774"} <= apis
    assert {"mariadb/server:3306", "rabbitmq/server:5672", "memcached/server:11211"} <= set(everything.values()) - apis
    assert {"ovn/nb:6641", "ovn/sb:6642", "rabbitmq/server:15672"} <= set(everything.values()) - apis
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = pool.map(lambda pod: reached(cloud.cluster, pod, everything), strangers)
    assert {pod["metadata"]["name"]: one for pod, one in zip(strangers, found, strict=True)} == {
        pod["metadata"]["name"]: apis for pod in strangers
    }


def test_a_pod_of_the_graph_reaches_what_it_needs(cloud: Cloud, pods: list[Object]) -> None:
    by_kind = {kind(pod): pod for pod in pods}
    expected = {
        ("keystone", "api"): {"mariadb/server:3306", "memcached/server:11211"},
        ("glance", "api"): {"mariadb/server:3306", "memcached/server:11211", "keystone/api:5000"},
        ("neutron", "api"): {"mariadb/server:3306", "rabbitmq/server:5672", "ovn/nb:6641", "ovn/sb:6642"},
        ("nova", "conductor"): {"mariadb/server:3306", "rabbitmq/server:5672", "placement/api:8778"},
        ("openstackclient", "client"): {"keystone/api:5000", "nova/api:8774"},
    }
    everything = targets(pods)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = dict(
            zip(expected, pool.map(lambda one: reached(cloud.cluster, by_kind[one], everything), expected), strict=True)
        )
    assert {one: expected[one] - found[one] for one in expected if expected[one] - found[one]} == {}
    # And nothing that it does not need.
    assert not found["openstackclient", "client"] - set(targets(pods, Audience.EVERYONE).values())
    assert not {name for name in found["keystone", "api"] if name.startswith(("rabbitmq", "ovn"))}
    assert "rabbitmq/server:15672" not in found["nova", "conductor"]


def test_public_apis_answer_from_outside_of_the_cluster(cloud: Cloud) -> None:
    asked = set()
    for service in cloud.openstack_json("catalog", "list"):
        for endpoint in service["Endpoints"]:
            if endpoint["interface"] == "public":
                parts = urllib.parse.urlparse(endpoint["url"])
                asked.add(f"{parts.scheme}://{parts.netloc}/")
    assert len(asked) >= 5
    for url in sorted(asked):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                status = answer.status
        except urllib.error.HTTPError as problem:
            # The list of versions has a code of its own, and some APIs want a token for it.
            status = problem.code
        assert status in (200, 300, 401), url


# --- what listens ---------------------------------------------------------------------------------------------------


def listening(process: Path) -> set[int]:
    """TCP ports that the process' network listens on, those of its loopback left out, and UDP ports that take packets
    from anywhere."""
    found = set()
    for protocol, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in (process / "net" / protocol).read_text().splitlines()[1:]:
            _, local, remote, what = line.split()[:4]
            address, _, port = local.partition(":")
            is_loopback = address.endswith("7F") or address in (
                "00000000000000000000000001000000", "0000000000000000FFFF00000100007F",
            )  # fmt: skip
            if what == state and not is_loopback and int(remote.rpartition(":")[2], 16) == 0:
                found.add(int(port, 16))
    return found


def test_pods_listen_on_what_their_services_say_and_on_nothing_else(cloud: Cloud, pods: list[Object]) -> None:
    """The operator's pod included: webhook, health and metrics."""
    expected = listeners(*Audience) | {("openstack-operator", "operator"): OPERATOR_PORTS}
    everything = [*pods, *serving(cloud.cluster, OPERATOR_NAMESPACE)]
    containers = {
        status["containerID"].rpartition("/")[2]: pod
        for pod in everything
        for status in pod["status"]["containerStatuses"]
        if "running" in status["state"]
    }
    found: dict[str, set[int]] = {}
    for process in processes():
        try:
            groups = (process / "cgroup").read_text()
            pod = next((one for identifier, one in containers.items() if identifier in groups), None)
            if pod is not None:
                found.setdefault(pod["metadata"]["name"], set()).update(listening(process))
        except OSError:
            continue
    assert len(found) == len(everything)
    kinds = {pod["metadata"]["name"]: kind(pod) for pod in everything}
    assert found == {name: expected.get(kinds[name], set()) for name in found}


def test_the_ports_of_services_and_containers_are_open(cloud: Cloud, pods: list[Object]) -> None:
    """A port that a Service leads to, or that a container names, and that no policy opens, would be of no use."""
    expected = listeners(*Audience)
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", []):
                assert port["containerPort"] in expected.get(kind(pod), set()), f"{pod['metadata']['name']}: {port}"
    for service in cloud.cluster.items("services", cloud.namespace):
        selector = service["spec"].get("selector") or {}
        for port in service["spec"]["ports"]:
            where = (selector.get(NAME, ""), selector.get(COMPONENT, ""))
            assert port["targetPort"] in expected.get(where, set()), f"{service['metadata']['name']}: {port}"


# The resolver asks again after five seconds what was not answered.
RESOLVE = """
import concurrent.futures, socket, time

def slow(_):
    began = time.monotonic()
    socket.getaddrinfo("mariadb.{namespace}.svc", 3306, type=socket.SOCK_STREAM)
    return time.monotonic() - began > 4.5

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    end = time.monotonic() + 12
    asked = lost = 0
    while time.monotonic() < end:
        asked += 80
        lost += sum(pool.map(slow, range(80)))
print(asked, lost)
"""


def test_no_question_to_dns_is_lost_while_pods_change(cloud: Cloud) -> None:
    """Each is a new connection, which waits for a verdict. With every change of a pod the agent made its rules anew,
    and the kernel dropped what waited."""
    pod = next(name for name in cloud.pods() if name.startswith("openstackclient"))
    script = RESOLVE.format(namespace=cloud.namespace)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(cloud.cluster.kubectl, "exec", "-n", cloud.namespace, pod, "--", "python3", "-c", script)
        try:
            for number in range(1000):
                if asking.done():
                    break
                cloud.cluster.kubectl(
                    "annotate", "--overwrite", "pod", "-n", cloud.namespace, "memcached-0", f"{CHANGED}={number}"
                )
        finally:
            cloud.cluster.kubectl("annotate", "pod", "-n", cloud.namespace, "memcached-0", f"{CHANGED}-")
        asked, lost = map(int, asking.result().split())
    assert number > 5
    assert asked > 100
    assert lost == 0, f"{lost} of {asked}"


CHANGED = "e2e.openstack.k8s.io/changed"
