"""Faults of other clouds that only a cloud at work shows. On the cloud of `./up`, which is left as it was."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from clouds import Cloud
from clusters import ClusterError, Object

from openstack_operator.embedded import first_vm

SERVICES = ("compute", "identity", "image", "network", "placement")
JOB_SECONDS = 180
WORK_SECONDS = 120
PROPAGATION_SECONDS = 180
"""A kubelet brings a changed Secret into running pods at its next look, at most a minute and a half later."""
PREFIX = "e2e-field"


def links(answer: Any) -> Iterator[str]:
    """Every URL under `href` or `next` in an answer, however deep."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key in ("href", "next", "first") and isinstance(value, str):
                yield value
            else:
                yield from links(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from links(one)


def ask(cloud: Cloud, url: str) -> Any:
    answer = requests.get(url, headers={"X-Auth-Token": cloud.token(), "Accept": "application/json"}, timeout=60)
    assert answer.status_code in (200, 300), f"{url}: {answer.status_code} {answer.text[:300]}"
    return answer.json()


def endpoint(cloud: Cloud, service: str) -> str:
    return str(cloud.connection.session.get_endpoint(service_type=service, interface="public")).rstrip("/")


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_links_in_a_document_of_versions_lead_to_where_it_was_asked_for(cloud: Cloud, service: str) -> None:
    """Regression r56: the port was lost on the way through a proxy."""
    place = urllib.parse.urlsplit(endpoint(cloud, service))
    found = list(links(ask(cloud, f"{place.scheme}://{place.netloc}/")))
    own = [url for url in found if urllib.parse.urlsplit(url).netloc and "openstack.org" not in url]

    assert [url for url in own if not url.startswith(f"{place.scheme}://{place.netloc}/")] == []
    # Placement has relative links.
    assert own or service == "placement"


def test_links_to_the_next_page_lead_to_where_the_first_was_asked_for(cloud: Cloud) -> None:
    """Regression f87: links to further pages had another scheme than the API."""
    # Each has at least two of these.
    for service, path in (("network", "/v2.0/security-group-rules?limit=1"), ("compute", "/flavors?limit=1")):
        url = endpoint(cloud, service)
        if service == "compute":
            cloud.connection.compute.create_flavor(name=f"{PREFIX}-page", ram=64, vcpus=1, disk=0)
        try:
            following = [one["href"] for key, value in ask(cloud, f"{url}{path}").items() if key.endswith("_links")
                         for one in value if one["rel"] == "next"]  # fmt: skip
        finally:
            if service == "compute":
                cloud.connection.compute.delete_flavor(cloud.connection.compute.find_flavor(f"{PREFIX}-page"))
        assert following, f"{service} gives pages"
        place = urllib.parse.urlsplit(url)
        assert all(one.startswith(f"{place.scheme}://{place.netloc}/") for one in following), following


# --- what an installation leaves out ----------------------------------------------------------------------------------


def test_the_catalogue_of_metadata_definitions_is_filled(cloud: Cloud) -> None:
    namespaces = ask(cloud, f"{endpoint(cloud, 'image')}/v2/metadefs/namespaces?limit=100")["namespaces"]

    assert len(namespaces) > 20
    assert "OS::Compute::Libvirt" in {one["namespace"] for one in namespaces}


@pytest.fixture
def automatic(cloud: Cloud) -> Iterator[Any]:
    """The cloud has what `--nic auto` needs: a default external network, and a default pool of subnets."""
    network = cloud.connection.network
    try:
        yield network
    finally:
        network.delete_auto_allocated_topology(cloud.connection.current_project_id, ignore_missing=True)


def test_a_server_may_ask_for_any_network(cloud: Cloud, automatic: Any) -> None:
    """`openstack server create --nic auto`: Neutron makes network, subnet and router on the first demand."""
    project = cloud.connection.current_project_id
    automatic.validate_auto_allocated_topology(project)
    topology = automatic.get_auto_allocated_topology(project)
    made = automatic.get_network(topology.id)
    (subnet,) = [automatic.get_subnet(one) for one in made.subnet_ids]

    assert ipaddress.ip_network(subnet.cidr).subnet_of(ipaddress.ip_network(first_vm.POOL_RANGE))
    assert [port for port in automatic.ports(network_id=made.id) if port.device_owner.startswith("network:router")]


def test_a_compute_pod_has_the_tools_that_nova_starts(cloud: Cloud) -> None:
    """Config drives, ephemeral and swap disks: without the tools the server fails at its first boot."""
    script = "for one in mkfs.vfat mkfs.ext4 mkswap genisoimage qemu-img; do command -v $one || echo missing $one; done"
    said = in_pod(cloud, "compute", "sh", "-c", script)

    assert "missing" not in said


REPLY = """
import threading
from oslo_messaging._drivers import amqpdriver

def polls(seconds):
    raise SystemExit(f"looks for the reply every {seconds} s")

waiters = amqpdriver.ReplyWaiters()
waiters.add("1")
amqpdriver.time.sleep = polls
threading.Timer(0.5, waiters.put, ("1", "reply")).start()
print(waiters.get("1", timeout=60))
"""


def test_the_reply_to_a_call_wakes_who_waits_for_it(cloud: Cloud) -> None:
    """It was looked for twice a second, so that every call over the message bus took half a second."""
    assert in_pod(cloud, "conductor", "python3", "-c", REPLY).split() == ["reply"]


@pytest.mark.parametrize(("which", "program"), [("nb", "ovn-nbctl"), ("sb", "ovn-sbctl")])
def test_ovns_own_tools_work_in_the_pods_of_its_databases(cloud: Cloud, which: str, program: str) -> None:
    """Regression r22."""
    assert in_pod(cloud, which, program, "--timeout=20", "show")


def in_pod(cloud: Cloud, component: str, *command: str) -> str:
    """What a command says in the first pod of a component."""
    selector = f"app.kubernetes.io/component={component}"
    pod, *_ = cloud.cluster.items("pods", cloud.namespace, selector)
    return cloud.cluster.kubectl("exec", "-n", cloud.namespace, pod["metadata"]["name"], "--", *command)


def test_ovns_databases_and_translator_may_restart_under_a_vm(cloud: Cloud) -> None:
    """Regression r63, f86: after a restart a database or its clients stayed behind, and needed a person."""
    network = cloud.connection.network
    address = next(
        (one.floating_ip_address for one in network.ips() if first_vm.answers(one.floating_ip_address)), None
    )
    assert address, "the VM of `./up` answers"
    for component in ("nb", "sb", "northd"):
        selector = f"app.kubernetes.io/instance=ovn,app.kubernetes.io/component={component}"
        cloud.cluster.kubectl("delete", "pods", "-n", cloud.namespace, "-l", selector, "--timeout=120s", seconds=150)
    for kind, name in (("statefulsets", "ovn-nb"), ("statefulsets", "ovn-sb"), ("deployments", "ovn-northd")):
        cloud.cluster.until_available(kind, name, cloud.namespace)
    cloud.until_ready()
    assert first_vm.answers(address), "flows stay where they are"
    made = network.create_network(name=f"{PREFIX}-ovn")
    try:
        # Through the Northbound database, and back by the translator.
        assert made.status == "ACTIVE"
        assert made.id in in_pod(cloud, "nb", "ovn-nbctl", "--timeout=20", "--db=unix:/run/ovn/nb.sock", "show")
        wanted = f"neutron-{made.id}"
        end = time.monotonic() + JOB_SECONDS
        command = ("ovn-sbctl", "--timeout=20", "--db=unix:/run/ovn/sb.sock", "list", "Datapath_Binding")
        while wanted not in in_pod(cloud, "sb", *command) and made.id not in in_pod(cloud, "sb", *command):
            assert time.monotonic() < end, "the translator works"
            time.sleep(1)
    finally:
        network.delete_network(made)
    assert {agent.is_alive for agent in network.agents()} == {True}


# --- cells ------------------------------------------------------------------------------------------------------------


def cells(cloud: Cloud) -> dict[str, tuple[str, str]]:
    """uuid and transport URL (without its password) of each cell, as nova-manage tells them."""
    conf = "/var/lib/config-data/merged/nova.conf"
    (pod,) = cloud.cluster.items("pods", cloud.namespace, "app.kubernetes.io/instance=nova-scheduler")
    said = cloud.cluster.kubectl(
        "exec", "-n", cloud.namespace, pod["metadata"]["name"], "--", "nova-manage", "--config-file", conf, "cell_v2",
        "list_cells",
    )  # fmt: skip
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.startswith("|")]
    return {name: (uuid, url) for name, uuid, url, *_ in rows[1:]}


def test_schemas_and_cells_can_be_made_again_and_stay_what_they_are(cloud: Cloud) -> None:
    """Regression f1, f3, f5, r75: a second run found the cell mapped already, or a column there already."""
    before, pods = cells(cloud), cloud.pods()
    # As nova-manage shows `none:///` where it hides passwords.
    assert before["cell0"][1] == "none:/", "no process of cell0 has a message bus"
    assert set(before) >= {"cell0", "cell1"}
    jobs = {
        job["metadata"]["name"]: job["metadata"]["uid"]
        for job in cloud.cluster.items("jobs", cloud.namespace)
        if job["metadata"]["labels"]["app.kubernetes.io/component"] in ("db-sync", "cells")
    }
    assert len(jobs) >= 4
    cloud.cluster.kubectl("delete", "jobs", "-n", cloud.namespace, *jobs, "--wait=true")

    for name, uid in jobs.items():

        def is_done(item: Object | None, uid: str = uid) -> bool:
            return bool(item and item["metadata"]["uid"] != uid and item.get("status", {}).get("succeeded"))

        cloud.cluster.until("jobs", name, cloud.namespace, is_done, "run again", JOB_SECONDS)
    cloud.until_all_is_told()
    assert cells(cloud) == before
    assert cloud.pods() == pods, "nothing restarts for it"


# --- keys -------------------------------------------------------------------------------------------------------------


class Hammer:
    """Logs in and has its token checked, over and over, by Keystones that remember nothing: what one of them has issued
    the others would find in the cache that they share, and not read."""

    def __init__(self, cloud: Cloud, memcached: int) -> None:
        self._memcached = memcached
        self._end = threading.Event()
        self.done, self.failures = 0, []
        auth = cloud.connection.session.auth
        self.url = auth.auth_url.rstrip("/")
        password = cloud.secret("keystone-admin")["password"]
        user = {"name": "admin", "domain": {"id": "default"}, "password": password}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        self._login = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}

    def token(self) -> str:
        answer = requests.post(f"{self.url}/auth/tokens", json=self._login, timeout=30)
        assert answer.status_code == 201, answer.text[:200]
        return answer.headers["X-Subject-Token"]

    def is_valid(self, token: str) -> bool:
        with socket.create_connection(("127.0.0.1", self._memcached), timeout=30) as connection:
            connection.sendall(b"flush_all\r\n")
            assert connection.recv(100) == b"OK\r\n"
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        return requests.get(f"{self.url}/auth/tokens", headers=headers, timeout=30).status_code == 200

    def _run(self) -> None:
        while not self._end.wait(0.1):
            try:
                if not self.is_valid(self.token()):
                    self.failures.append("a new token is not valid")
            except (AssertionError, OSError) as problem:
                self.failures.append(str(problem)[:200])
            self.done += 1

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def goes_on(self, rounds: int = 20) -> None:
        """Of two pods, one answers twenty logins and twenty checks once in a million of millions."""
        wanted, end = self.done + rounds, time.monotonic() + WORK_SECONDS
        while self.done < wanted:
            assert time.monotonic() < end, f"{self.done} of {wanted} rounds: {self.failures[-1:]}"
            time.sleep(0.1)


@pytest.fixture
def memcached(cloud: Cloud) -> Iterator[int]:
    """Port of this machine that leads to the cache of the cloud."""
    command = cloud.cluster.command("port-forward", "-n", cloud.namespace, "service/memcached", ":11211")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Forwarding from 127.0.0.1:"), line
            yield int(line.split(" -> ")[0].rpartition(":")[2])
        finally:
            process.kill()


@pytest.fixture
def two_keystones(cloud: Cloud) -> Iterator[list[str]]:
    """Names of the pods."""
    selector = "app.kubernetes.io/instance=keystone,app.kubernetes.io/component=api"
    before = cloud.object["spec"]["keystone"].get("replicas")
    cloud.set(keystone={"replicas": 2})
    try:
        cloud.until_ready()
        cloud.until_settled()
        yield [pod["metadata"]["name"] for pod in cloud.cluster.items("pods", cloud.namespace, selector)]
    finally:
        cloud.set(keystone={"replicas": before})
        cloud.until_ready()
        cloud.until_settled()


def test_tokens_outlive_rotations_while_others_are_made(cloud: Cloud, memcached: int, two_keystones: list[str]) -> None:
    """Regression r1, r40, f24. Case 45: key files were away or unreadable for a moment, tokens ended with a rotation,
    and one pod did not know the keys of another."""
    hammer, pods = Hammer(cloud, memcached), cloud.pods()
    one, other = two_keystones
    old = hammer.token()

    def keys_of(pod: str) -> set[str]:
        script = "cd /etc/keystone/fernet-keys && for one in *; do echo $one $(cat $one); done"
        return set(cloud.cluster.kubectl("exec", "-n", cloud.namespace, pod, "--", "sh", "-c", script).splitlines())

    def bring_to(pod: str) -> None:
        """A kubelet looks at once at a pod that was changed, and at its volumes."""
        cloud.cluster.patch("pods", pod, cloud.namespace, {"metadata": {"annotations": {"e2e/keys": uuid.uuid4().hex}}})
        wanted = {f"{name} {value}" for name, value in cloud.secret("keystone-fernet-keys").items()}
        end = time.monotonic() + PROPAGATION_SECONDS
        while keys_of(pod) != wanted:
            assert time.monotonic() < end, f"{pod} does not see the new keys"
            time.sleep(0.2)

    def rotate(name: str) -> None:
        """A run by hand, which waits for nothing: the pods are told."""
        create = ("create", "job", "-n", cloud.namespace, name, "--from=cronjob/keystone-fernet-rotate")
        job = json.loads(cloud.cluster.kubectl(*create, "--dry-run=client", "-o", "json"))
        job["spec"]["template"]["spec"]["containers"][0]["command"][-1] = "0"
        try:
            cloud.cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))
            cloud.cluster.until(
                "jobs", name, cloud.namespace,
                lambda item: bool(item and item.get("status", {}).get("succeeded")), "rotated", JOB_SECONDS,
            )  # fmt: skip
        finally:
            cloud.cluster.kubectl("delete", "job", "-n", cloud.namespace, name, "--wait=false", "--ignore-not-found")

    with hammer.at_work():
        rotate(f"{PREFIX}-rotate-0")
        bring_to(one)
        hammer.goes_on()
        bring_to(other)
        rotate(f"{PREFIX}-rotate-1")
        bring_to(other)
        hammer.goes_on()
        bring_to(one)
        assert all([hammer.is_valid(old) for _ in range(20)]), "it was signed by a key that is two rotations old"
    assert hammer.failures == []
    assert cloud.pods() == pods, "nothing restarts for it"


def test_nothing_runs_by_schedule_while_tests_run(cloud: Cloud) -> None:
    """Every test that compares all there was with all there is would fail when a rotation comes in between."""
    by_hand = json.loads(
        cloud.cluster.kubectl(
            "create", "job", "-n", cloud.namespace, f"{PREFIX}-by-hand", "--from=cronjob/keystone-fernet-rotate",
            "--dry-run=server", "-o", "json",
        )
    )  # fmt: skip
    (owner,) = by_hand["metadata"]["ownerReferences"]
    by_schedule = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{PREFIX}-by-schedule", "namespace": cloud.namespace, "ownerReferences": [owner]},
        "spec": cloud.cluster.get("cronjobs", "keystone-fernet-rotate", cloud.namespace)["spec"]["jobTemplate"]["spec"],
    }
    with pytest.raises(ClusterError, match="nothing runs by schedule while tests run"):
        cloud.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(by_schedule))
