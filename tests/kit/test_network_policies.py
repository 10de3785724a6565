"""NetworkPolicies: who is admitted to a port, and where agents on nodes come from."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.kit import network_policies, settings
from openstack_operator.kit.network_policies import Audience, Listener

SERVICES = {
    "podSelector": {
        "matchLabels": {"app.kubernetes.io/managed-by": "openstack-operator"},
        "matchExpressions": [
            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["almanac", "diary", "post"]}
        ],
    }
}
OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openstack-operator-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "openstack-operator"}},
}
OWN = {
    "app.kubernetes.io/name": "almanac",
    "app.kubernetes.io/component": "api",
    "app.kubernetes.io/managed-by": "openstack-operator",
}


def rules(*listeners: Listener, nodes: tuple[str, ...] = ("192.0.2.1/32",)) -> list[dict[str, Any]]:
    body = network_policies.admitting("cloud", "almanac", "api", listeners, ("post", "diary"), nodes)
    assert body["metadata"]["name"] == "almanac-api"
    assert body["spec"]["podSelector"] == {"matchLabels": OWN}
    found: list[dict[str, Any]] = body["spec"]["ingress"]
    return found


def port(number: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": number}]


@pytest.mark.parametrize(
    ("audience", "peers"),
    [
        (Audience.SERVICES, [SERVICES, OPERATOR]),
        (Audience.SERVICES_AND_NODES, [SERVICES, OPERATOR, {"ipBlock": {"cidr": "192.0.2.1/32"}}]),
        (Audience.MEMBERS, [{"podSelector": {"matchLabels": OWN}}]),
        (Audience.OPERATOR, [OPERATOR]),
    ],
    ids=lambda value: getattr(value, "value", ""),
)
def test_a_port_admits_those_it_is_for(audience: Audience, peers: list[Any]) -> None:
    assert rules(Listener("api", 9555, audience)) == [{"ports": port(9555), "from": peers}]


def test_a_port_for_everyone_names_nobody() -> None:
    assert rules(Listener("api", 9555, Audience.EVERYONE)) == [{"ports": port(9555)}]


def test_no_other_rule_is_without_peers_because_that_would_admit_everyone() -> None:
    for audience in set(Audience) - {Audience.EVERYONE}:
        (rule,) = rules(Listener("api", 1, audience), nodes=())
        assert rule["from"], audience


def test_ports_of_one_audience_share_a_rule() -> None:
    found = rules(
        Listener("api", 2, Audience.MEMBERS),
        Listener("api", 1, Audience.MEMBERS),
        Listener("api", 3, Audience.OPERATOR),
    )
    assert [rule["ports"] for rule in found] == [port(1) + port(2), port(3)]


def test_what_nothing_opens_is_closed() -> None:
    body = network_policies.closed("cloud")
    assert body["metadata"]["name"] == "cloud-closed"
    assert body["spec"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "openstack-operator"}},
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


def test_the_operator_is_admitted_from_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "elsewhere")
    (rule,) = rules(Listener("api", 1, Audience.OPERATOR))
    assert rule["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "elsewhere"}
    monkeypatch.delenv("POD_NAMESPACE")
    assert settings.namespace() == "openstack-operator-system"


def node(*addresses: tuple[str, str], pods: tuple[str, ...] = (), **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "annotations": annotations},
        "spec": {"podCIDRs": list(pods)},
        "status": {"addresses": [{"type": kind, "address": one} for kind, one in addresses]},
    }


def test_agents_come_from_the_nodes_addresses_and_neighbours_are_joined() -> None:
    nodes = [
        node(("InternalIP", "192.0.2.3"), ("Hostname", "node-b"), pods=("10.244.1.0/24",)),
        node(("InternalIP", "192.0.2.2"), ("InternalIP", "2001:db8::2"), ("ExternalIP", "198.51.100.7")),
        {"metadata": {"name": "new"}},
    ]
    assert network_policies.blocks(nodes) == ["192.0.2.2/31", "198.51.100.7/32", "2001:db8::2/128"]
    assert network_policies.blocks(reversed(nodes)) == network_policies.blocks(nodes)


def test_agents_come_from_the_ends_of_tunnels() -> None:
    calico = node(("InternalIP", "192.0.2.2"), **{"projectcalico.org/IPv4VXLANTunnelAddr": "10.1.7.64"})
    flannel = node(pods=("10.42.3.0/24",), **{"flannel.alpha.coreos.com/backend-type": "vxlan"})
    assert network_policies.blocks([calico, flannel]) == ["10.1.7.64/32", "10.42.3.0/32", "192.0.2.2/32"]


def test_an_address_that_is_none_is_passed_over() -> None:
    broken = node(("InternalIP", "192.0.2.2"), **{"projectcalico.org/IPv4VXLANTunnelAddr": ""})
    assert network_policies.blocks([broken]) == ["192.0.2.2/32"]


def test_networks_that_the_user_names_are_added() -> None:
    nodes = [node(("InternalIP", "192.0.2.2"))]
    assert network_policies.blocks(nodes, ("10.42.0.0/16", "192.0.2.0/30")) == ["10.42.0.0/16", "192.0.2.0/30"]
