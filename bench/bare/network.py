"""Addresses and names of the bare control plane: those of the Services, on the machine's own loopback interface.

So every configuration file is right as it is. Public endpoints answer at their node ports through one packet filter
table of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bare.snapshot import Snapshot
from openstack_operator.embedded import addresses, network

TABLE = "openstack_bench"
LOOPBACK = "127.0.0.1"


def clear() -> None:
    """Takes away what `prepare` made, also of a run that was killed."""
    if f"ip {TABLE}" in network.nft_tables():
        network.run("nft", "delete", "table", "ip", TABLE)
    for line in network.run("ip", "-o", "-4", "address", "show", "dev", "lo", "label", f"lo:{TABLE[:10]}").splitlines():
        network.run_if_possible("ip", "address", "delete", line.split()[3], "dev", "lo")


def prepare(snapshot: Snapshot) -> None:
    clear()
    # kube-proxy is not there to take its rules back.
    for table in network.nft_tables():
        if table in ("ip kube-proxy", "ip6 kube-proxy"):
            network.run("nft", "delete", "table", *table.split())
    for address in cluster_addresses(snapshot):
        network.run("ip", "address", "add", f"{address}/32", "dev", "lo", "label", f"lo:{TABLE[:10]}")
    rules = "\n".join(
        f"    ip daddr {addresses.NODE_ADDRESS} tcp dport {node_port} dnat to {addresses.NODE_ADDRESS}:{port}"
        for node_port, port in node_ports(snapshot)
    )
    chain = "type nat hook output priority -100; policy accept;"
    network.run("nft", "-f", "-", stdin=f"table ip {TABLE} {{\n  chain output {{\n    {chain}\n{rules}\n  }}\n}}\n")


def cluster_addresses(snapshot: Snapshot) -> list[str]:
    found = (one["spec"].get("clusterIP", "None") for one in snapshot.services)
    return sorted(address for address in found if address != "None")


def node_ports(snapshot: Snapshot) -> Iterable[tuple[int, int]]:
    for one in snapshot.services:
        for port in one["spec"]["ports"]:
            if "nodePort" in port:
                yield port["nodePort"], port["targetPort"]


def hosts_file(snapshot: Snapshot) -> str:
    """/etc/hosts of every process: the cluster's names, the longest first, since programs ask for the whole one.

    Pods come before Services, because some have the name of one: a host name's first line is its whole name.
    """
    lines = [f"{LOOPBACK} localhost"]
    for pod in snapshot.pods.values():
        service: Any = pod.spec.get("serviceName")
        if service:
            lines.append(f"{line(LOOPBACK, f'{pod.name}.{service}', snapshot.namespace)} {pod.name}")
        elif not pod.host_network:
            lines.append(f"{LOOPBACK} {pod.name}")
    for one in snapshot.services:
        name, spec = one["metadata"]["name"], one["spec"]
        address = LOOPBACK if spec.get("clusterIP") == "None" else spec["clusterIP"]
        lines.append(line(address, name, snapshot.namespace))
    return "\n".join(lines) + "\n"


def line(address: str, name: str, namespace: str) -> str:
    short = f"{name}.{namespace}.svc"
    return f"{address} {short}.{addresses.CLUSTER_DOMAIN} {short} {name}.{namespace} {name}"
