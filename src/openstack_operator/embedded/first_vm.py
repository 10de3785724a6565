"""A first VM on a new cloud: image, flavor, networks, router, key pair, server, floating address.

usage: python -m openstack_operator.embedded.first_vm IMAGE PUBLIC_KEY [floating]. Everything is found before it is
made, so it may run again. The last line printed ends in the VM's address. A process of its own: ``cloud.first_vm``
starts it.

Without ``floating`` there is no external network that this machine could reach: the VM is on a private network alone,
and its console tells that it has its address, its metadata and an ssh server.
"""

from __future__ import annotations

import concurrent.futures
import socket
import sys
import time
from pathlib import Path
from typing import Any

import openstack
import openstack.exceptions

from openstack_operator.embedded import cloud

VM = "vm1"
IMAGE, FLAVOR, KEY = "tiny", "m1.tiny", "first-key"
PRIVATE, PUBLIC, ROUTER = "private", "public", "router1"
PRIVATE_RANGE = "10.77.0.0/24"
# For the networks that Neutron makes by itself, out of the way of the private one.
POOL, POOL_RANGE, POOL_SUBNET = "shared", "10.78.0.0/16", 26
ANSWER_SECONDS = 240
LOGIN_SECONDS = 30
READY = "=== guest ready"
"""What the guest image prints when its address, its metadata and its ssh server are there."""


def say(message: str) -> None:
    print(message, flush=True)


def ensure_image(connection: Any, file: Path) -> Any:
    """The guest image; the properties are what a guest of ours needs of its hardware."""
    return connection.image.find_image(IMAGE) or connection.image.create_image(
        name=IMAGE,
        filename=str(file),
        disk_format="qcow2",
        container_format="bare",
        visibility="public",
        hw_rng_model="virtio",
        os_shutdown_timeout="15",
    )


def ensure_flavor(connection: Any) -> Any:
    return connection.compute.find_flavor(FLAVOR) or connection.compute.create_flavor(
        name=FLAVOR, ram=192, vcpus=1, disk=1
    )


def ensure_private_network(connection: Any) -> tuple[Any, Any]:
    network = connection.network
    inside = network.find_network(PRIVATE) or network.create_network(name=PRIVATE)
    subnet = network.find_subnet(PRIVATE) or network.create_subnet(
        name=PRIVATE, network_id=inside.id, ip_version=4, cidr=PRIVATE_RANGE
    )
    return inside, subnet


def ensure_pool(connection: Any) -> None:
    """Addresses for those who ask for any network (`--nic auto`). A cloud has one default pool at most: somebody else's
    will do."""
    network = connection.network
    if not any(network.subnet_pools(is_default=True, ip_version=4)):
        network.create_subnet_pool(
            name=POOL, prefixes=[POOL_RANGE], default_prefix_length=POOL_SUBNET, is_shared=True, is_default=True
        )


def ensure_networks(connection: Any) -> Any:
    """A private network behind a router on the external one; returns the private network."""
    network = connection.network
    inside, subnet = ensure_private_network(connection)
    outside = network.find_network(PUBLIC) or network.create_network(
        name=PUBLIC,
        is_router_external=True,
        is_default=True,
        provider_network_type="flat",
        provider_physical_network="physnet1",
    )
    network.find_subnet(PUBLIC) or network.create_subnet(
        name=PUBLIC,
        network_id=outside.id,
        ip_version=4,
        cidr=f"{cloud.EXTERNAL_NETWORK}/{cloud.EXTERNAL_PREFIX}",
        gateway_ip=cloud.EXTERNAL_GATEWAY,
        enable_dhcp=False,
        allocation_pools=[{"start": cloud.EXTERNAL_FIRST, "end": cloud.EXTERNAL_LAST}],
    )
    router = network.find_router(ROUTER) or network.create_router(
        name=ROUTER, external_gateway_info={"network_id": outside.id}
    )
    if not any(network.ports(device_id=router.id, network_id=inside.id)):
        network.add_interface_to_router(router, subnet_id=subnet.id)
    return inside


def ensure_rules(connection: Any) -> None:
    """The default security group lets ping and ssh in."""
    project = connection.current_project_id
    group = next(iter(connection.network.security_groups(project_id=project, name="default")))
    present = {
        (rule.protocol, rule.port_range_min)
        for rule in connection.network.security_group_rules(security_group_id=group.id, direction="ingress")
    }
    for protocol, port in (("icmp", None), ("tcp", 22)):
        if (protocol, port) not in present:
            connection.network.create_security_group_rule(
                security_group_id=group.id,
                direction="ingress",
                ethertype="IPv4",
                protocol=protocol,
                port_range_min=port,
                port_range_max=port,
                remote_ip_prefix="0.0.0.0/0",
            )


def ensure_key(connection: Any, public: Path) -> None:
    if connection.compute.find_keypair(KEY) is None:
        connection.compute.create_keypair(name=KEY, public_key=public.read_text().strip())


# Methods of openstacksdk's compute proxy.
WAYS_ON = {"SHUTOFF": "start_server", "PAUSED": "unpause_server", "SUSPENDED": "resume_server"}
"""What brings a server back that somebody, or the end of its node, has stopped; by its status."""


def ensure_server(connection: Any, image: Any, flavor: Any, network: Any) -> Any:
    compute = connection.compute
    server = compute.find_server(VM)
    if server is not None and server.status == "ERROR":
        say(f"server {VM} of an earlier run has failed and is made anew")
        compute.delete_server(server)
        compute.wait_for_delete(server, wait=ANSWER_SECONDS)
        server = None
    if server is not None and server.status in WAYS_ON:
        say(f"server {VM} is {server.status} and goes on")
        getattr(compute, WAYS_ON[server.status])(server)
    server = server or compute.create_server(
        name=VM, image_id=image.id, flavor_id=flavor.id, networks=[{"uuid": network.id}], key_name=KEY
    )
    say(f"server {VM} is being built")
    try:
        return compute.wait_for_server(server, wait=ANSWER_SECONDS, interval=0.5)
    except openstack.exceptions.ResourceFailure:
        found = compute.get_server(server.id)
        fault = (found.fault or {}).get("message", "Nova gives no reason")
        sys.exit(f"server {VM} is {found.status}: {fault} (`openstack server show {VM}` has more)")


def ensure_floating_address(connection: Any, server: Any) -> str:
    network = connection.network
    port = next(iter(network.ports(device_id=server.id)))
    held = next(iter(network.ips(port_id=port.id)), None)
    if held is None:
        outside = network.find_network(PUBLIC)
        held = network.create_ip(floating_network_id=outside.id, port_id=port.id)
    return str(held.floating_ip_address)


def answers(address: str, port: int = 22) -> bool:
    """Whether an ssh server greets there."""
    try:
        with socket.create_connection((address, port), timeout=1) as link:
            link.settimeout(2)
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_for_answer(connection: Any, server: Any, address: str) -> None:
    """Returns once an ssh server greets at the address. Exits with the console's end if none does."""
    say(f"server {VM} is ACTIVE, waiting for ssh on {address}")
    deadline = time.monotonic() + ANSWER_SECONDS
    while not answers(address):
        if time.monotonic() > deadline:
            sys.exit(f"no answer from {address}; the console ends in: {console(connection, server)[-1500:]}")
        time.sleep(0.3)


def wait_for_console(connection: Any, server: Any) -> None:
    """Returns once the guest says that it is ready. Exits with the console's end if it does not."""
    say(f"server {VM} is ACTIVE, waiting for its console to say that it is up")
    deadline = time.monotonic() + ANSWER_SECONDS
    while READY not in (text := console(connection, server)):
        if time.monotonic() > deadline:
            sys.exit(f"server {VM} does not come up; the console ends in: {text[-1500:]}")
        time.sleep(1)


def console(connection: Any, server: Any) -> str:
    return str(connection.compute.get_server_console_output(server, length=40)["output"] or "")


def log_in(connection: Any) -> None:
    """Asks for a token; for a while again where a pod of the API that is being replaced cuts the connection."""
    deadline = time.monotonic() + LOGIN_SECONDS
    while True:
        try:
            connection.authorize()
            return
        except openstack.exceptions.SDKException as problem:
            if time.monotonic() > deadline:
                sys.exit(f"nobody can log in: {problem}")
            time.sleep(0.5)


def main(image_file: Path, public_key: Path, *, is_floating: bool) -> None:
    connection = openstack.connect(app_name="openstack-operator")
    log_in(connection)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        image = pool.submit(ensure_image, connection, image_file)
        flavor = pool.submit(ensure_flavor, connection)
        pool.submit(ensure_key, connection, public_key).result()
        network = ensure_networks(connection) if is_floating else ensure_private_network(connection)[0]
        ensure_rules(connection)
        server = ensure_server(connection, image.result(), flavor.result(), network)
    if is_floating:
        # While it boots.
        ensure_pool(connection)
        address = ensure_floating_address(connection, server)
        wait_for_answer(connection, server, address)
    else:
        address = next(iter(connection.network.ports(device_id=server.id))).fixed_ips[0]["ip_address"]
        wait_for_console(connection, server)
    for line in console(connection, server).splitlines()[-6:]:
        say(f"{cloud.CONSOLE}{line}")
    say(f"VM {VM} {'answers' if is_floating else 'is up'} at {address}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), is_floating="floating" in sys.argv[3:])
