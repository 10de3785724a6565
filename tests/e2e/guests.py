"""A VM of the end-to-end tests, and how to reach it: ssh, its console, ICMP echo. For the cloud's own tests and for
those of faults.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
from clouds import Cloud

from openstack_operator.embedded import first_vm, paths

BOOT_SECONDS = 240
USER_DATA = '#!/bin/sh\necho "=== user data ran on $(hostname) as $(id -un)" > /dev/console\n'
USER = "guest"
# What paramiko gives for a command that the other side did not say the end of.
NO_EXIT_STATUS = -1


def until(is_met: Callable[[], Any], what: str, seconds: float, pause: float = 0.5) -> Any:
    """For what no watch tells about. Returns what `is_met` gave."""
    end = time.monotonic() + seconds
    while not (found := is_met()):
        assert time.monotonic() < end, f"not after {seconds:.0f} s: {what}"
        time.sleep(pause)
    return found


class Guest:
    """A server of the tests, with all that it needs. Everything that it makes is called ``name``."""

    def __init__(self, cloud: Cloud, key: Path, name: str = "e2e") -> None:
        self.cloud, self.connection, self.name = cloud, cloud.connection, name
        self.key = paramiko.Ed25519Key.from_private_key_file(str(key))
        self._forget_earlier()
        compute, network = self.connection.compute, self.connection.network
        image = first_vm.ensure_image(self.connection, _guest_image())
        flavor = first_vm.ensure_flavor(self.connection)
        inside = first_vm.ensure_networks(self.connection)
        self.group = network.create_security_group(name=name)
        for protocol, port in (("icmp", None), ("tcp", 22)):
            self.open(protocol, port)
        compute.create_keypair(name=name, public_key=key.with_suffix(".pub").read_text().strip())
        self.port = network.create_port(name=name, network_id=inside.id, security_group_ids=[self.group.id])
        self.server = compute.create_server(
            name=f"{name}-vm", image_id=image.id, flavor_id=flavor.id, networks=[{"port": self.port.id}], key_name=name,
            user_data=_base64(USER_DATA),
        )  # fmt: skip
        self.server = compute.wait_for_server(self.server, wait=BOOT_SECONDS, interval=0.5)
        outside = network.find_network(first_vm.PUBLIC)
        self.floating = network.create_ip(floating_network_id=outside.id, port_id=self.port.id)
        self.address: str = self.floating.floating_ip_address
        try:
            until(lambda: first_vm.answers(self.address), f"an answer from {self.address}", BOOT_SECONDS)
        except AssertionError as problem:
            problem.add_note(self.told())
            raise

    def open(self, protocol: str, port: int | None) -> Any:
        return self.connection.network.create_security_group_rule(
            security_group_id=self.group.id, direction="ingress", ethertype="IPv4", protocol=protocol,
            port_range_min=port, port_range_max=port,
        )  # fmt: skip

    def told(self) -> str:
        """What a person would look at who cannot reach it: its console's end, its ports, and the way to its address."""
        network = self.connection.network
        ports = [port.to_dict() for port in network.ports(device_id=self.server.id)]
        way = subprocess.run(["ip", "neigh", "show", self.address], check=False, capture_output=True, text=True)
        bindings = self.cloud.cluster.kubectl(
            "exec", "-n", self.cloud.namespace, "ovn-sb-0", "--", "ovn-sbctl", "--db=unix:/run/ovn/sb.sock",
            "--no-leader-only", "show",
        )  # fmt: skip
        return "\n".join(
            [
                f"console of {self.server.id}:", self.console()[-3000:], "ports:", *(str(port) for port in ports),
                f"floating address: {network.get_ip(self.floating.id).to_dict()}", f"neighbour: {way.stdout}", bindings,
            ]
        )  # fmt: skip

    def console(self) -> str:
        return self.cloud.openstack("console", "log", "show", self.server.id)

    def until_console(self, pattern: str) -> re.Match[str]:
        """The console holds a line that matches."""
        end = time.monotonic() + 60
        while True:
            text = self.console()
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found
            assert time.monotonic() < end, f"{pattern!r} is not on the console:\n{text[-3000:]}"

    def run(self, command: str, key: paramiko.PKey | None = None) -> str:
        """Output of a command in the guest, over ssh with the key pair or another key.

        Raises EOFError where the guest went away before the command had ended: what came until then is no output.
        """
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        with contextlib.closing(client):
            client.connect(
                self.address, username=USER, pkey=key or self.key, timeout=30, banner_timeout=60, auth_timeout=60,
                allow_agent=False, look_for_keys=False,
            )  # fmt: skip
            _, out, _ = client.exec_command(command, timeout=60)
            text: str = out.read().decode()
            if out.channel.recv_exit_status() == NO_EXIT_STATUS:
                raise EOFError(f"the connection to {self.address} ended before `{command}` did")
            return text

    def _forget_earlier(self) -> None:
        """Takes away what a run of the tests that was cut off has left."""
        compute, network = self.connection.compute, self.connection.network
        for server in compute.servers(name=f"^{self.name}-vm$"):
            compute.delete_server(server.id, ignore_missing=True)
            compute.wait_for_delete(server, wait=90, interval=0.5)
        for port in network.ports(name=self.name):
            for address in network.ips(port_id=port.id):
                network.delete_ip(address.id)
            network.delete_port(port.id)
        for group in network.security_groups(name=self.name):
            network.delete_security_group(group.id)
        compute.delete_keypair(self.name, ignore_missing=True)

    def delete(self) -> None:
        compute, network = self.connection.compute, self.connection.network
        compute.delete_server(self.server.id, ignore_missing=True)
        compute.wait_for_delete(self.server, wait=90, interval=0.5)
        network.delete_ip(self.floating.id)
        network.delete_port(self.port.id, ignore_missing=True)
        network.delete_security_group(self.group.id)
        compute.delete_keypair(self.name)


def _guest_image() -> Path:
    return next((paths.default().cache / "guest").glob("guest-*/**/guest.qcow2"))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def make_key(directory: Path) -> Path:
    """The private half of a new key pair in a file; the public one is beside it."""
    path = directory / "id_ed25519"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def echo_request(number: int) -> bytes:
    """An ICMP echo request of this process; its answer has the same bytes 4 to 7 behind 20 bytes of IP."""
    header = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, number)
    words = sum(struct.unpack("!4H", header))
    checksum = ~(words + (words >> 16)) & 0xFFFF
    return header[:2] + struct.pack("!H", checksum) + header[4:]
