"""A second cell comes, is used, and goes, while the first serves without a failed request (acceptance 3 of cells). Its
compute keeps servers in memory: that a cell is one is a matter of databases, message bus and mappings.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from clouds import API_VERSION, Cloud
from clusters import condition

from openstack_operator.embedded import first_vm, paths

CELL = "cell2"
HOST = "nova-cell2-compute"
TEMPLATE = {"metadata": {"enabled": True}, "computes": {"compute": {"driver": "Fake"}}}
# A database and a virtual host of the second cell, and servers that are its own.
DATABASE, OWN_MARIADB, DATABASES = "nova_cell2", "cell2-db", "mariadbs.openstack.k8s.io"
VHOST, OWN_RABBITMQ, BUSES = "nova-cell2", "cell2-mq", "rabbitmqs.openstack.k8s.io"
READY_SECONDS = 180
SERVER_SECONDS = 90
LIST = "/servers/detail?all_tenants=1"


class Client:
    """Somebody who lists all servers again and again; what failed is kept."""

    def __init__(self, cloud: Cloud) -> None:
        self._url = cloud.connection.session.get_endpoint(service_type="compute", interface="public") + LIST
        self._token = cloud.token()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers = 0
        self.failures: list[str] = []

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(0.1):
            at = time.strftime("%H:%M:%S")
            try:
                # A connection for each, as from many clients: none is kept alive by a pod that ends.
                answer = requests.get(
                    self._url, headers={"X-Auth-Token": self._token, "Connection": "close"}, timeout=60
                )
                self.answers += 1
                if answer.status_code != 200:
                    self.failures.append(f"{at} {answer.status_code} {answer.text[:200]}")
            except requests.RequestException as problem:
                self.failures.append(f"{at} {problem}")


def add(cloud: Cloud, **more: Any) -> None:
    cloud.set(nova={"cellTemplates": {CELL: TEMPLATE | more}, "forcedCellRemovals": None})
    cloud.until_ready(READY_SECONDS)


def remove(cloud: Cloud, **more: Any) -> None:
    cloud.set(nova={"cellTemplates": {CELL: None}, **more})


def until_removed(cloud: Cloud) -> None:
    def is_met(item: Any) -> bool:
        found = condition(item, "CellRemovalReady")
        is_current = found.get("observedGeneration") == item["metadata"]["generation"]
        return is_current and found["status"] == "True" and CELL not in item["spec"]["cellTemplates"]

    cloud.cluster.until("novas.openstack.k8s.io", "nova", cloud.namespace, is_met, "the cell is gone", READY_SECONDS)
    cloud.until_ready(READY_SECONDS)


def boot(cloud: Cloud, name: str) -> Any:
    """A server in the second cell, ACTIVE."""
    compute = cloud.connection.compute
    guest = next((paths.default().cache / "guest").glob("guest-*/**/guest.qcow2"))
    body = {
        "name": name,
        "imageRef": first_vm.ensure_image(cloud.connection, guest).id,
        "flavorRef": first_vm.ensure_flavor(cloud.connection).id,
        "networks": "none",
        "host": HOST,
    }
    answer = compute.post("/servers", json={"server": body}, microversion="2.74")
    assert answer.status_code == 202, answer.text
    server = compute.get_server(answer.json()["server"]["id"])
    return compute.wait_for_server(server, wait=SERVER_SECONDS)


def delete(cloud: Cloud, server: Any) -> None:
    compute = cloud.connection.compute
    compute.delete_server(server.id)
    compute.wait_for_delete(server, wait=SERVER_SECONDS)
    # DELETED is said a moment before the host counts as empty.
    for _ in range(40):
        if compute.find_server(server.id, ignore_missing=True) is None:
            return
        time.sleep(0.25)
    pytest.fail(f"server {server.name} is DELETED and still there")


def of_the_first_cell(cloud: Cloud) -> dict[str, Any]:
    return {name: state for name, state in cloud.pods().items() if name.startswith("nova-cell1-")}


def ready_since(cloud: Cloud) -> dict[str, str]:
    """When the objects of the first cell became Ready."""
    names = {"novacells": "nova-cell1", "novacomputes": "nova-cell1-compute", "novaconductors": "nova-cell1-conductor"}
    found = {name: cloud.cluster.get(resource, name, cloud.namespace) for resource, name in names.items()}
    return {name: condition(item, "Ready")["lastTransitionTime"] for name, item in found.items()}


def back_to_one(cloud: Cloud) -> None:
    remove(cloud, forcedCellRemovals=[CELL])
    until_removed(cloud)
    cloud.set(nova={"forcedCellRemovals": None})


@pytest.fixture
def second_cell(cloud: Cloud) -> Iterator[Cloud]:
    """The cloud, back to one cell afterwards."""
    try:
        yield cloud
    finally:
        back_to_one(cloud)


@pytest.fixture(scope="module")
def standing_cell(cloud: Cloud) -> Iterator[Cloud]:
    """The cloud with a second cell that stays, on a database server and a message bus of its own."""
    spec = {"openstackRelease": cloud.object["spec"]["openstackRelease"]}
    for kind, name in (("MariaDB", OWN_MARIADB), ("RabbitMQ", OWN_RABBITMQ)):
        metadata = {"name": name, "namespace": cloud.namespace}
        cloud.cluster.apply({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
    try:
        add(cloud, databaseRef={"name": OWN_MARIADB}, messagingRef={"name": OWN_RABBITMQ})
        yield cloud
    finally:
        back_to_one(cloud)
        for resource, name in ((DATABASES, OWN_MARIADB), (BUSES, OWN_RABBITMQ)):
            cloud.cluster.delete(resource, name, cloud.namespace, wait=True)


def metadata(cloud: Cloud, server: Any) -> requests.Response:
    """What the metadata service of the cell says to the agent about a server."""
    service = cloud.cluster.get("services", f"nova-{CELL}-metadata", cloud.namespace)
    secret = cloud.secret("neutron-metadata")["secret"]
    signature = hmac.new(secret.encode(), server.id.encode(), hashlib.sha256).hexdigest()
    headers = {
        "X-Instance-ID": server.id,
        "X-Tenant-ID": server.project_id,
        "X-Instance-ID-Signature": signature,
        "X-Forwarded-For": "192.0.2.7",
    }
    address = service["spec"]["clusterIP"]
    return requests.get(f"http://{address}:8775/openstack/latest/meta_data.json", headers=headers, timeout=30)


def test_a_second_cell_comes_and_goes_while_the_first_serves(second_cell: Cloud) -> None:
    """Case E3."""
    cloud = second_cell
    compute = cloud.connection.compute
    before, since = of_the_first_cell(cloud), ready_since(cloud)
    assert before
    with Client(cloud) as client:
        add(cloud)
        server = boot(cloud, "in-the-second")
        assert server.hypervisor_hostname == HOST

        answer = metadata(cloud, server)
        assert answer.status_code == 200, answer.text
        assert answer.json()["uuid"] == server.id

        console = compute.create_console(server, console_type="novnc")["url"]
        proxy = cloud.cluster.get("novanovncproxies", f"nova-{CELL}-novncproxy", cloud.namespace)
        assert console.startswith(proxy["status"]["publicUrl"])
        assert requests.get(console, timeout=30).status_code == 200
        first = cloud.cluster.get("novanovncproxies", "nova-cell1-novncproxy", cloud.namespace)
        assert urllib.parse.urlsplit(console).port != urllib.parse.urlsplit(first["status"]["publicUrl"]).port

        remove(cloud)

        def is_refused(item: Any) -> bool:
            found = condition(item, "CellRemovalReady")
            return bool(found.get("reason") == "CellInUse" and server.id in found["message"])

        cloud.cluster.until("novas.openstack.k8s.io", "nova", cloud.namespace, is_refused, "CellInUse", 90)
        assert compute.get_server(server.id).status == "ACTIVE"
        delete(cloud, server)
        until_removed(cloud)
        assert HOST not in {one.name for one in compute.hypervisors()}
        assert HOST not in {one.host for one in compute.services()}
        placement = cloud.connection.session.get_endpoint(service_type="placement", interface="public")
        providers = cloud.connection.session.get(f"{placement}/resource_providers?name={HOST}").json()
        assert providers == {"resource_providers": []}
        assert DATABASE not in databases(cloud, "mariadb")
        assert VHOST not in vhosts(cloud, "rabbitmq")

        # It comes back under its name, and goes by force with a server in it.
        add(cloud)
        lost = boot(cloud, f"lost-{uuid.uuid4().hex[:6]}")
        remove(cloud, forcedCellRemovals=[CELL])
        until_removed(cloud)
        assert lost.id not in {one.id for one in compute.servers(all_projects=True)}
    assert client.failures == []
    assert client.answers > 100
    assert of_the_first_cell(cloud) == before
    assert ready_since(cloud) == since


def databases(cloud: Cloud, server: str) -> set[str]:
    status = cloud.cluster.get(DATABASES, server, cloud.namespace)["status"]
    return {one["name"] for one in status.get("databases", ())}


def vhosts(cloud: Cloud, server: str) -> set[str]:
    status = cloud.cluster.get(BUSES, server, cloud.namespace)["status"]
    return {one["name"] for one in status.get("vhosts", ())}


def test_a_cell_may_have_servers_of_its_own(standing_cell: Cloud) -> None:
    cloud = standing_cell
    assert databases(cloud, OWN_MARIADB) == {DATABASE}
    assert vhosts(cloud, OWN_RABBITMQ) == {VHOST}
    assert DATABASE not in databases(cloud, "mariadb")
    assert VHOST not in vhosts(cloud, "rabbitmq")
    delete(cloud, boot(cloud, "on-its-own-servers"))


def test_a_host_that_nova_has_forgotten_is_mapped_again(standing_cell: Cloud) -> None:
    """Who deletes a compute service in Nova deletes the mapping of its host with it."""
    cloud = standing_cell
    compute = cloud.connection.compute
    (service,) = [one for one in compute.services(binary="nova-compute") if one.host == HOST]
    compute.delete_service(service)
    assert HOST not in {one.name for one in compute.hypervisors()}
    # nova-compute registers when it starts.
    cloud.cluster.kubectl("rollout", "restart", f"deployment/{HOST}", "-n", cloud.namespace)
    cloud.cluster.kubectl(
        "rollout", "status", f"deployment/{HOST}", "-n", cloud.namespace, "--timeout=90s", seconds=100
    )

    def is_mapped(item: Any) -> bool:
        is_ready = condition(item, "HostsReady")["status"] == "True"
        return is_ready and HOST in {one.name for one in compute.hypervisors()}

    cloud.cluster.until("novas.openstack.k8s.io", "nova", cloud.namespace, is_mapped, "mapped again", READY_SECONDS)
    delete(cloud, boot(cloud, "on-the-forgotten"))


def test_a_compute_that_is_taken_out_is_forgotten_by_nova_and_may_come_back(standing_cell: Cloud) -> None:
    """Regression r14."""
    cloud = standing_cell

    def compute_of(template: Any) -> None:
        cloud.set(nova={"cellTemplates": {CELL: {"computes": {"compute": template}}}})

    def is_forgotten(item: Any) -> bool:
        return condition(item, "HostRemovalReady")["status"] == "True" and HOST not in {
            one.host for one in cloud.connection.compute.services()
        }

    compute_of(None)
    cloud.cluster.until("novas.openstack.k8s.io", "nova", cloud.namespace, is_forgotten, "no service", READY_SECONDS)
    assert HOST not in {one.name for one in cloud.connection.compute.hypervisors()}
    placement = cloud.connection.session.get_endpoint(service_type="placement", interface="public")
    providers = cloud.connection.session.get(f"{placement}/resource_providers?name={HOST}").json()
    assert providers == {"resource_providers": []}
    assert CELL in mappings(cloud)
    cloud.until_ready(READY_SECONDS)

    compute_of(TEMPLATE["computes"]["compute"])
    cloud.until_ready(READY_SECONDS)
    server = boot(cloud, "on-a-host-that-came-back")
    assert server.hypervisor_hostname == HOST
    delete(cloud, server)


def mappings(cloud: Cloud) -> dict[str, str]:
    """uuid of each cell that Nova knows, by name."""
    login, statement = cloud.secret("nova-api-db"), "SELECT name, uuid FROM nova_api.cell_mappings"
    client = f"read -r MYSQL_PWD; export MYSQL_PWD; mariadb -u {login['user']} -BN -e '{statement}'"
    where = ("-n", cloud.namespace, "mariadb-0", "-c", "mariadb")
    text = cloud.cluster.kubectl("exec", "-i", *where, "--", "sh", "-c", client, stdin=login["password"] + "\n")
    return dict(line.split("\t") for line in text.splitlines())


def test_another_password_of_a_cell_restarts_what_uses_it(standing_cell: Cloud) -> None:
    """Field case 52: the cells stay the same."""
    cloud = standing_cell
    before, cells = cloud.pods(), mappings(cloud)
    assert set(cells) == {"cell0", "cell1", CELL}
    reads = ("nova-api-", "nova-scheduler-", "nova-conductor-", "nova-metadata-", f"nova-{CELL}-")
    both = ("nova-api-", "nova-scheduler-", "nova-conductor-", f"nova-{CELL}-conductor-")
    for secret, more in ((f"nova-{CELL}-db", ()), (f"nova-{CELL}-mq", (f"nova-{CELL}-compute-",))):
        old = [name for name in cloud.pods() if name.startswith((*both, *more))]
        cloud.cluster.patch("secrets", secret, cloud.namespace, {"stringData": {"password": uuid.uuid4().hex}})
        # Until then something may be sent to a process that ends.
        for name in old:
            cloud.cluster.until_gone("pods", name, cloud.namespace, READY_SECONDS)
        cloud.until_settled()
    assert mappings(cloud) == cells
    server = boot(cloud, "after-the-password")
    delete(cloud, server)
    for name, state in cloud.pods().items():
        if not name.startswith(reads):
            assert before.get(name) == state, name
