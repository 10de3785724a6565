"""Who may connect to whom in a whole cloud, as it follows from what the services say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.controlplane import resources
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import labels
from openstack_operator.services import SERVICES

NODE = {
    "metadata": {"name": "n"},
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
}
POLICIES = {body["metadata"]["name"]: body for body in resources.network_policies("cloud", SERVICES, [NODE])}


def peers(policy: str, port: int) -> set[str]:
    """Names of the services that a port admits, `operator`, `nodes`, or `everyone`."""
    found: set[str] = set()
    for rule in POLICIES[policy]["spec"]["ingress"]:
        if port in [one["port"] for one in rule["ports"]]:
            found |= {name for peer in rule["from"] for name in named(peer)} if "from" in rule else {"everyone"}
    return found


def named(peer: dict[str, Any]) -> list[str]:
    if "ipBlock" in peer:
        return ["nodes"]
    if "namespaceSelector" in peer:
        return ["operator"]
    selector = peer["podSelector"]
    if "matchExpressions" in selector:
        found: list[str] = selector["matchExpressions"][0]["values"]
        return found
    return [f"{selector['matchLabels']['app.kubernetes.io/name']}/{selector['matchLabels'][labels.COMPONENT]}"]


@pytest.mark.parametrize(
    ("policy", "port", "expected"),
    [
        ("mariadb-server", 3306, {"glance", "keystone", "mariadb", "neutron", "nova", "placement", "operator"}),
        ("rabbitmq-server", 5672, {"neutron", "nova", "rabbitmq", "operator", "nodes"}),
        ("rabbitmq-server", 15672, {"operator"}),
        ("rabbitmq-server", 25672, {"rabbitmq/server"}),
        ("memcached-server", 11211, {"glance", "keystone", "memcached", "neutron", "nova", "placement", "operator"}),
        ("ovn-nb", 6641, {"neutron", "ovn", "operator", "nodes"}),
        ("ovn-sb", 6642, {"neutron", "ovn", "operator", "nodes"}),
        ("ovn-sb", 6644, {"ovn/sb"}),
        ("nova-metadata", 8775, {"nova", "operator", "nodes"}),
        ("keystone-api", 5000, {"everyone"}),
        ("nova-novncproxy", 6080, {"everyone"}),
    ],
)
def test_a_port_is_open_to_what_needs_it(policy: str, port: int, expected: set[str]) -> None:
    assert peers(policy, port) == expected


def test_whatever_has_no_token_to_ask_for_is_not_open_to_everyone() -> None:
    """New services included: only what Keystone's catalogue or a browser leads to may be."""
    opened = {
        (name, port["port"])
        for name, body in POLICIES.items()
        for rule in body["spec"]["ingress"]
        if "from" not in rule
        for port in rule["ports"]
    }
    assert {name.rpartition("-")[2] for name, _ in opened} <= {"api", "novncproxy"}


def test_every_service_that_another_needs_listens_on_something() -> None:
    needed = {need for service in SERVICES for need in service.needs}
    for service in SERVICES:
        if service.kinds[0].resource in needed:
            assert service.listeners, service.name


def test_no_two_policies_have_one_name_and_all_are_of_the_control_plane() -> None:
    bodies = resources.network_policies("cloud", SERVICES, [])
    assert len({body["metadata"]["name"] for body in bodies}) == len(bodies)
    assert {body["metadata"]["labels"]["app.kubernetes.io/instance"] for body in bodies} == {"cloud"}


@pytest.mark.parametrize("cidr", ["10.42.0.1/16", "10.42.0.0/33", "10.42.0.0", "300.0.0.0/8"])
def test_a_network_that_is_none_is_refused(cidr: str) -> None:
    with pytest.raises(ValueError, match="nodeCidrs"):
        OpenStackControlPlaneSpec.model_validate({"networkPolicies": {"nodeCidrs": [cidr]}})
