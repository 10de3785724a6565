"""Who may connect to the pods of a cloud: what services listen on, and the NetworkPolicies that follow. Pure.

A service says in its ``Service`` what its pods listen on and for whom (``Listener``); which services need it, their
``needs`` say already. ``closed`` lets nobody connect to any pod of ours, ``admitting`` opens the ports of one component
to those it is for. The control plane applies both. docs/adr/0006-network-policies.md has the reasons.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openstack_operator.kit import labels, names, settings
from openstack_operator.runtime.client import Object

Peer = dict[str, Any]
_NETWORK_NAMESPACE = "kubernetes.io/metadata.name"


class Audience(enum.Enum):
    """Who connects to a port. The operator may always, but for members' own ports."""

    EVERYONE = "everyone"
    """An API: its callers are anywhere and show a token."""
    SERVICES = "services"
    """The service itself and those that need it."""
    SERVICES_AND_NODES = "services and nodes"
    """Agents on nodes as well."""
    MEMBERS = "members"
    """The pods of the same component among themselves."""
    OPERATOR = "operator"
    """Nobody but the operator."""


@dataclass(frozen=True)
class Listener:
    """A port of the pods of a component (label app.kubernetes.io/component)."""

    component: str
    port: int
    audience: Audience


def blocks(nodes: Iterable[Object], further: Iterable[str] = ()) -> list[str]:
    """The addresses that agents on nodes come from, as few CIDRs as possible.

    Those in the nodes' status. Where a network plugin wraps what one node's own network sends to a pod of another node,
    the sender is the end of its tunnel: Calico writes it into annotations of the node, and Flannel's is the first
    address of the node's pod range. ``further`` are CIDRs that the user knows of.
    """
    found = {ipaddress.ip_network(one) for one in further}
    for node in nodes:
        for one in _addresses(node):
            try:
                found.add(ipaddress.ip_network(one))
            except ValueError:
                # A host name, or what somebody else's annotation holds.
                continue
    # No sort and no join across versions.
    return [
        str(one)
        for version in (4, 6)
        for one in ipaddress.collapse_addresses([one for one in found if one.version == version])  # type: ignore[type-var]
    ]


TUNNELS = (
    "projectcalico.org/IPv4IPIPTunnelAddr",
    "projectcalico.org/IPv4VXLANTunnelAddr",
    "projectcalico.org/IPv6VXLANTunnelAddr",
    "projectcalico.org/IPv4WireguardInterfaceAddr",
    "projectcalico.org/IPv6WireguardInterfaceAddr",
)
FLANNEL = "flannel.alpha.coreos.com/backend-type"


def _addresses(node: Object) -> Iterable[str]:
    for address in node.get("status", {}).get("addresses") or ():
        if address["type"] in ("InternalIP", "ExternalIP"):
            yield address["address"]
    annotations = node["metadata"].get("annotations") or {}
    yield from (annotations[name] for name in TUNNELS if name in annotations)
    if FLANNEL in annotations:
        yield from (one.split("/")[0] for one in node.get("spec", {}).get("podCIDRs") or ())


def closed(control_plane: str) -> Object:
    """No pod of ours takes a connection that no other policy allows."""
    selected = {"matchLabels": {labels.MANAGED_BY: labels.OPERATOR}}
    return _policy(names.closed_policy(control_plane), labels.common("openstack", control_plane), selected, [])


def admitting(
    control_plane: str,
    service: str,
    component: str,
    listeners: Sequence[Listener],
    clients: Iterable[str],
    nodes: Sequence[str],
) -> Object:
    """The policy of a component's pods. ``clients`` are the names of the services that need this one, ``nodes`` the
    CIDRs of ``blocks``."""
    own: Mapping[str, str] = {"app.kubernetes.io/name": service, labels.COMPONENT: component}
    peers: dict[Audience, list[Peer]] = {
        Audience.EVERYONE: [],
        Audience.SERVICES: [_services({service, *clients}), _operator()],
        Audience.SERVICES_AND_NODES: [
            _services({service, *clients}),
            _operator(),
            *({"ipBlock": {"cidr": one}} for one in nodes),
        ],
        Audience.MEMBERS: [{"podSelector": {"matchLabels": _ours(own)}}],
        Audience.OPERATOR: [_operator()],
    }
    rules = []
    for audience, allowed in peers.items():
        ports = sorted({one.port for one in listeners if one.audience is audience})
        if ports:
            # Without `from` everyone is allowed: that is for one audience only.
            rules.append(
                {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
                | ({} if audience is Audience.EVERYONE else {"from": allowed})
            )
    return _policy(
        names.network_policy(service, component),
        labels.common(service, control_plane, component),
        {"matchLabels": _ours(own)},
        rules,
    )


def _ours(tags: Mapping[str, str]) -> dict[str, str]:
    return {**tags, labels.MANAGED_BY: labels.OPERATOR}


def _services(services: Iterable[str]) -> Peer:
    return {
        "podSelector": {
            "matchLabels": _ours({}),
            "matchExpressions": [
                {"key": "app.kubernetes.io/name", "operator": "In", "values": sorted(services)},
            ],
        }
    }


def _operator() -> Peer:
    return {
        "namespaceSelector": {"matchLabels": {_NETWORK_NAMESPACE: settings.namespace()}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": labels.OPERATOR}},
    }


def _policy(name: str, tags: dict[str, str], selected: dict[str, Any], rules: list[dict[str, Any]]) -> Object:
    return {
        "metadata": {"name": name, "labels": tags},
        "spec": {"podSelector": selected, "policyTypes": ["Ingress"], "ingress": rules},
    }
