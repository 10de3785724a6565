"""Ports, scripts and connection strings of OVN. It has no configuration files: scripts read their environment, so that
a change of one setting restarts the pods that use it and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources

CLIENT_PORTS: Mapping[str, int] = {"nb": 6641, "sb": 6642}
RAFT_PORTS: Mapping[str, int] = {"nb": 6643, "sb": 6644}
SWITCH_PORT = 6640
"""The switch's database, on the node's loopback."""
SCRIPTS = ("database.sh", "northd.sh", "serve.sh", "ovsdb.sh", "vswitchd.sh", "controller.sh")
SCRIPTS_MOUNT = "/usr/local/bin/container-scripts"


def script(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text()


def connection(addresses: Iterable[str], port: int) -> str:
    """Connection string of all members, by address.

    Not by name: neither OVS's resolver (no search list) nor the Python one that Neutron uses (none without the unbound
    library) would find a name of the cluster.
    """
    return ",".join(f"tcp:{f'[{one}]' if ':' in one else one}:{port}" for one in addresses)


def mappings(bridges: Mapping[str, str]) -> str:
    """Value of ovn-bridge-mappings."""
    return ",".join(f"{network}:{bridge}" for network, bridge in sorted(bridges.items()))
