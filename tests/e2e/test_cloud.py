"""The cloud does what a cloud is for, seen from outside the cluster: catalogue, images, and a VM from boot to deletion
(acceptance 1). One VM serves most tests, since a guest without KVM takes half a minute to boot.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guests
import paramiko
import pytest
import requests
import websocket
from clouds import Cloud
from clusters import condition
from guests import BOOT_SECONDS, Guest, until
from machine import Start

from openstack_operator.embedded import first_vm

SERVICES = {"compute", "identity", "image", "network", "placement"}
MEBIBYTE = 1 << 20
UPGRADE_CHECK_SECONDS = 120
WEB_PORT = 80


def test_up_ends_with_a_vm_that_answers(start: Start) -> None:
    """Case E1. Regression f75."""
    if not start.output:
        pytest.skip("the cloud was taken as it is")
    found = re.search(r"VM (\S+) answers at (\S+)", start.output)
    assert found, start.output[-2000:]
    assert first_vm.answers(found[2])


# --- the catalogue ----------------------------------------------------------------------------------------------------


def test_the_catalogue_is_complete(cloud: Cloud) -> None:
    catalogue = cloud.openstack_json("catalog", "list")
    assert {entry["Type"] for entry in catalogue} == SERVICES
    for entry in catalogue:
        assert sorted({end["interface"] for end in entry["Endpoints"]}) == ["internal", "public"], entry["Name"]
        assert {end["region"] for end in entry["Endpoints"]} == {"RegionOne"}, entry["Name"]


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_public_endpoint_answers_from_the_machine(cloud: Cloud, service: str) -> None:
    """Regression r51, r52, r88, r96."""
    url = cloud.connection.session.get_endpoint(service_type=service, interface="public")
    answer = requests.get(url, headers={"X-Auth-Token": cloud.token()}, timeout=30)
    assert answer.status_code in (200, 300), f"{url}: {answer.status_code} {answer.text[:200]}"


def test_every_agent_and_service_is_alive(cloud: Cloud) -> None:
    services = {(one.binary, one.state, one.status) for one in cloud.connection.compute.services()}
    assert services == {(f"nova-{name}", "up", "enabled") for name in ("scheduler", "conductor", "compute")}
    agents = {(one.agent_type, one.is_alive) for one in cloud.connection.network.agents()}
    assert {alive for _, alive in agents} == {True}, agents
    assert any("Controller" in kind for kind, _ in agents), agents


def test_novas_own_upgrade_check_has_passed(cloud: Cloud) -> None:
    """It runs a while after the cloud is Ready."""

    def is_told(item: Any) -> bool:
        return bool(condition(item, "UpgradeCheckPassed")["status"] == "True")

    item = cloud.cluster.until(
        "novas.openstack.k8s.io", "nova", cloud.namespace, is_told, "UpgradeCheckPassed", UPGRADE_CHECK_SECONDS
    )
    assert item is not None
    verdicts = {one["name"]: one["verdict"] for one in item["status"]["upgradeChecks"]}
    assert {"Cells v2", "Placement API", "Service User Token Configuration"} < set(verdicts)
    assert set(verdicts.values()) == {"Success"}
    assert condition(item, "UpgradeCheckPassed")["reason"] == "Success"


def test_the_client_pod_is_logged_in(cloud: Cloud) -> None:
    said = cloud.cluster.kubectl(
        "exec", "-n", cloud.namespace, "deployment/openstackclient", "--", "openstack", "token", "issue", "-f", "value",
        "-c", "user_id",
    )  # fmt: skip
    assert re.fullmatch("[0-9a-f]{32}", said.strip())


# --- images -----------------------------------------------------------------------------------------------------------


def _pieces(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize(
    ("name", "chunk"),
    [("with a length", None), ("in chunks of 8 MiB", 8 * MEBIBYTE), ("in chunks of 1 MiB", MEBIBYTE)],
)
def test_an_image_is_uploaded(cloud: Cloud, name: str, chunk: int | None) -> None:
    """Regression r4."""
    images = cloud.connection.image
    content = os.urandom(20 * MEBIBYTE + 17)
    image = images.create_image(name=f"e2e {name}", disk_format="raw", container_format="bare")
    try:
        url = cloud.connection.session.get_endpoint(service_type="image", interface="public")
        answer = requests.put(
            f"{url.rstrip('/')}/v2/images/{image.id}/file",
            # requests sends no length with a generator.
            data=content if chunk is None else _pieces(content, chunk),
            headers={"X-Auth-Token": cloud.token(), "Content-Type": "application/octet-stream"},
            timeout=120,
        )
        assert answer.status_code == 204, answer.text[:500]
        image = images.get_image(image.id)
        assert (image.status, image.size) == ("active", len(content))
        assert image.hash_value == hashlib.new(image.hash_algo, content).hexdigest()
        assert hashlib.sha256(images.download_image(image).content).digest() == hashlib.sha256(content).digest()
    finally:
        images.delete_image(image.id)
    assert images.find_image(image.id) is None


# --- a VM -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return guests.make_key(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def guest(cloud: Cloud, key: Path) -> Iterator[Guest]:
    """A running VM that answers at a floating address; its security group lets in ping and ssh, nothing else."""
    found = Guest(cloud, key)
    yield found
    found.delete()


def test_a_vm_is_active_and_got_its_address_by_dhcp(guest: Guest) -> None:
    assert guest.server.status == "ACTIVE"
    found = guest.until_console(r"^=== DHCP bound ip=(\S+) .*mtu=(\d+)")
    assert found[1] == guest.port.fixed_ips[0]["ip_address"]
    assert int(found[2]) < 1500


def test_a_vm_reads_its_metadata_and_runs_its_user_data(guest: Guest) -> None:
    """Regression r45."""
    found = guest.until_console(r"^=== metadata: instance i-(\w+) host (\S+)")
    # Nova's names: i-0000002a of EC2 and instance-0000002a of libvirt count the same servers.
    assert guest.server.instance_name == f"instance-{found[1]}"
    assert found[2].partition(".")[0] == guest.server.hostname
    guest.until_console(rf"^=== user data ran on {guest.server.hostname} as root")


def test_a_vm_answers_ping_at_its_floating_address(guest: Guest) -> None:
    assert [_echoes(guest.address, number) for number in range(3)] == [True, True, True]


def test_a_vm_lets_in_who_has_the_key(guest: Guest) -> None:
    assert guest.run("hostname").strip() == guest.server.hostname
    with pytest.raises(paramiko.AuthenticationException):
        guest.run("hostname", paramiko.RSAKey.generate(2048))


def _echoes(address: str, number: int) -> bool:
    """Whether an ICMP echo request is answered. Not every machine has a ping command."""
    request = guests.echo_request(number)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as link:
        link.settimeout(5)
        link.sendto(request, (address, 0))
        with contextlib.suppress(TimeoutError):
            # The socket sees everybody's ICMP; an answer is type 0 with our number, behind 20 bytes of IP.
            while True:
                packet, (sender, _) = link.recvfrom(1500)
                if sender == address and packet[20] == 0 and packet[24:28] == request[4:8]:
                    return True
    return False


def _is_open(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=3).close()
    except OSError:
        return False
    return True


def test_a_closed_security_group_blocks_what_an_open_one_lets_in(guest: Guest) -> None:
    page = f"wget -q -O - http://127.0.0.1:{WEB_PORT}/"
    until(lambda: "hello from" in guest.run(page), "the guest serves a page", 60)
    assert not _is_open(guest.address, WEB_PORT)
    rule = guest.open("tcp", WEB_PORT)
    until(lambda: _is_open(guest.address, WEB_PORT), "the port is open after its rule was made", 30)
    guest.connection.network.delete_security_group_rule(rule.id)
    until(lambda: not _is_open(guest.address, WEB_PORT), "the port is closed after its rule was deleted", 30)


def test_the_novnc_proxy_gives_the_banner_of_the_console(guest: Guest) -> None:
    url = guest.cloud.openstack_json("console", "url", "show", "--novnc", guest.server.id)["url"]
    page = requests.get(url, timeout=30)
    assert page.status_code == 200
    assert "noVNC" in page.text
    place = urllib.parse.urlsplit(url)
    # vnc_lite.html?path=%3Ftoken%3D…: the page opens its websocket at that path.
    path = urllib.parse.parse_qs(place.query)["path"][0]
    link = websocket.create_connection(
        f"ws://{place.netloc}/{path.removeprefix('/')}", timeout=30, subprotocols=["binary"],
        origin=f"http://{place.netloc}",
    )  # fmt: skip
    with contextlib.closing(link):
        assert link.recv().startswith(b"RFB 003.")


def test_a_wrong_token_gets_no_console(guest: Guest) -> None:
    url = guest.cloud.openstack_json("console", "url", "show", "--novnc", guest.server.id)["url"]
    place = urllib.parse.urlsplit(url)
    received: str | bytes = b""
    with contextlib.suppress(websocket.WebSocketException, OSError):
        link = websocket.create_connection(
            f"ws://{place.netloc}/?token=00000000-0000-0000-0000-000000000000", timeout=30, subprotocols=["binary"],
            origin=f"http://{place.netloc}",
        )  # fmt: skip
        with contextlib.closing(link):
            received = link.recv()
    assert not received


def test_a_snapshot_of_a_vm_becomes_an_image(guest: Guest) -> None:
    """Regression r4."""
    images = guest.connection.image
    image = guest.connection.compute.create_server_image(guest.server, name="e2e snapshot", wait=True, timeout=180)
    try:
        image = images.get_image(image.id)
        assert image.status == "active"
        assert image.size > MEBIBYTE
    finally:
        images.delete_image(image.id)


def _uptime(guest: Guest) -> float:
    return float(guest.run("cut -d' ' -f1 /proc/uptime"))


def test_a_tap_that_somebody_took_down_is_up_again(guest: Guest) -> None:
    """As the userspace switch itself may do it, which writes flags that it saw a moment ago."""
    name = f"tap{guest.port.id[:11]}"
    subprocess.run(["ip", "link", "set", name, "down"], check=True)
    until(lambda: "UP" in _flags(name), f"{name} is up", 30)
    until(lambda: first_vm.answers(guest.address), "the VM answers again", 30)


def _flags(name: str) -> list[str]:
    said = subprocess.run(["ip", "-json", "link", "show", name], check=True, capture_output=True, text=True).stdout
    flags: list[str] = json.loads(said)[0]["flags"]
    return flags


def test_a_vm_that_was_suspended_answers_again(guest: Guest) -> None:
    """libvirt makes its tap anew."""
    compute, before = guest.connection.compute, _uptime(guest)
    compute.suspend_server(guest.server)
    compute.wait_for_server(guest.server, status="SUSPENDED", wait=120, interval=0.5)
    compute.resume_server(guest.server)
    compute.wait_for_server(guest.server, status="ACTIVE", wait=120, interval=0.5)
    until(lambda: first_vm.answers(guest.address), "the VM answers again", 60)
    assert _uptime(guest) > before, "the VM was started anew"


def test_a_vm_that_was_rebooted_answers_again(guest: Guest) -> None:
    """It ends by itself, and its domain is started again with a new tap."""
    compute, began = guest.connection.compute, time.monotonic()
    compute.reboot_server(guest.server, "SOFT")

    def is_up_again() -> bool:
        if not first_vm.answers(guest.address):
            return False
        # The guest from before may greet, and end while it is asked.
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            return _uptime(guest) < time.monotonic() - began
        return False

    until(is_up_again, "the VM that was started anew answers", BOOT_SECONDS)
    until(lambda: compute.get_server(guest.server.id).status == "ACTIVE", "it is ACTIVE", 60)


def test_a_first_vm_that_somebody_stopped_is_started_by_the_next_up(cloud: Cloud) -> None:
    compute = cloud.connection.compute
    server = compute.find_server(first_vm.VM)
    compute.stop_server(server)
    compute.wait_for_server(server, status="SHUTOFF", wait=120, interval=0.5)
    found = first_vm.ensure_server(cloud.connection, image=None, flavor=None, network=None)
    assert (found.id, found.status) == (server.id, "ACTIVE")


def test_a_vm_survives_the_restart_of_every_node_agent(guest: Guest) -> None:
    """Regression r49, r62."""
    before = _uptime(guest)
    cluster, namespace = guest.cloud.cluster, guest.cloud.namespace
    agents = cluster.items("daemonsets", namespace)
    assert agents
    for agent in agents:
        selector = ",".join(f"{key}={value}" for key, value in agent["spec"]["selector"]["matchLabels"].items())
        cluster.kubectl("delete", "pods", "-n", namespace, "-l", selector, "--timeout=180s", seconds=200)
    for agent in agents:
        cluster.until_available("daemonsets", agent["metadata"]["name"], namespace)
    guest.cloud.until_ready()
    until(lambda: first_vm.answers(guest.address), "the VM answers again", 60)
    assert _uptime(guest) > before, "the VM was started anew"
    assert guest.connection.compute.get_server(guest.server.id).status == "ACTIVE"


def test_no_two_processes_ever_share_a_queue_of_replies(cloud: Cloud) -> None:
    """Nobody's queue has a name that another process of that host and program would have as well: half of the replies
    would go to one that is just ending, or that the bus has not noticed to be gone."""
    found = []
    for host in {cloud.secret(name)["vhost"] for name in ("nova-mq", "nova-cell1-mq", "neutron-mq")}:
        found += [line.split() for line in cloud.rabbitmqctl("-p", host, "list_queues", "name", "consumers")]
    # One that has ended leaves its own for half an hour.
    replies = {name: int(count) for name, count in found if name.startswith("reply_") and int(count)}
    assert replies
    assert [name for name, count in replies.items() if count > 1 or not re.fullmatch("reply_[0-9a-f]{32}", name)] == []


def test_a_deleted_vm_leaves_no_port_and_no_allocation(guest: Guest) -> None:
    connection, server = guest.connection, guest.server

    def allocations() -> Any:
        answer = connection.placement.get(f"/allocations/{server.id}", microversion="1.28")
        assert answer.status_code == 200, answer.text
        return answer.json()["allocations"]

    inside = connection.network.find_network(first_vm.PRIVATE)
    # A port that Nova made goes with the server; one that the user brought is let go.
    connection.compute.create_server_interface(server, net_id=inside.id)
    held = {port.id for port in connection.network.ports(device_id=server.id)}
    assert guest.port.id in held
    assert len(held) == 2
    assert allocations()
    connection.compute.delete_server(server.id)
    connection.compute.wait_for_delete(server, wait=90, interval=0.5)
    until(lambda: not list(connection.network.ports(device_id=server.id)), "the server's ports are let go", 30)
    assert [one for one in held - {guest.port.id} if connection.network.find_port(one)] == []
    until(lambda: not allocations(), "the server's allocations are gone", 30)
