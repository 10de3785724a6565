"""The packet filter keeps the cluster's packets inside, and ranges that the machine uses are seen."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

from openstack_operator.embedded import addresses, network

FREE: list[dict[str, Any]] = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
    {"dst": "192.0.2.0/24", "dev": "eth0"},
]


def test_a_machine_that_uses_none_of_our_ranges_is_free() -> None:
    assert network.uses_of_ours(FREE, []) == []


@pytest.mark.parametrize(
    ("route", "what"),
    [
        ({"dst": "10.0.0.0/8", "dev": "eth1"}, "the route to 10.0.0.0/8 on eth1"),
        ({"dst": "10.96.0.10", "dev": "wg0"}, "the route to 10.96.0.10 on wg0"),
        ({"type": "unreachable", "dst": "10.244.0.0/16", "metric": 100}, "the route to 10.244.0.0/16"),
        ({"dst": "172.24.4.0/24", "dev": "br-ex"}, "the route to 172.24.4.0/24 on br-ex"),
    ],
)
def test_a_route_into_our_ranges_is_named(route: dict[str, Any], what: str) -> None:
    assert [use.what for use in network.uses_of_ours([*FREE, route], [addresses.NODE_BRIDGE])] == [what]


@pytest.mark.parametrize(
    "route",
    [
        {"dst": "10.89.0.0/24", "dev": "osk0"},
        {"type": "unreachable", "dst": "10.96.0.0/16", "metric": network.LAST_METRIC},
        {"dst": "10.97.0.0/16", "dev": "eth1"},
    ],
)
def test_our_own_routes_and_neighbouring_ranges_are_no_conflict(route: dict[str, Any]) -> None:
    assert network.uses_of_ours([*FREE, route], [addresses.NODE_BRIDGE]) == []


def test_taps_of_other_virtual_machines_are_told_from_our_guests() -> None:
    names = ["eth0", "tap0", "tap1a2b3c4d-5e", "tapvpn", "tap1a2b3c4d-5eff"]
    assert network.foreign_taps(names) == ["tap0", "tapvpn", "tap1a2b3c4d-5eff"]


@pytest.mark.skipif(shutil.which("nft") is None or os.geteuid() != 0, reason="needs nft and root")
@pytest.mark.parametrize("forwarding_was_off", [True, False])
@pytest.mark.parametrize("foreign", [(), ("tap0", "tap1")])
def test_the_filter_is_what_nft_understands(forwarding_was_off: bool, foreign: tuple[str, ...]) -> None:
    text = network.guard(forwarding_was_off=forwarding_was_off, foreign=foreign)
    said = subprocess.run(["nft", "-c", "-f", "-"], input=text, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


def test_new_connections_of_pods_wait_for_a_verdict_in_either_form_of_the_rules() -> None:
    """The agent's own rules are not for it: they go and come, with what waits in them."""
    text = network.guard(forwarding_was_off=True, with_queue=True)
    chain = text[text.index("chain policies") :]
    assert chain.index("established,related accept") < chain.index("queue flags bypass to 100")
    assert chain.count("queue") == 2
    assert "queue" not in network.guard(forwarding_was_off=True)
    assert [rule[-1] for rule in network.QUEUE_RULES] == ["RETURN", "RETURN", "--queue-bypass", "--queue-bypass"]
    if network.has_nft_queue():
        said = subprocess.run(["nft", "-c", "-f", "-"], input=text, check=False, capture_output=True, text=True)
        assert (said.returncode, said.stderr) == (0, "")


def test_what_comes_from_a_guest_is_never_forwarded_to_the_machines_interfaces() -> None:
    rules = [line.strip() for line in network.guard(forwarding_was_off=False).splitlines()]
    assert 'iifname "br-ex" reject with icmpx admin-prohibited' in rules
    assert 'iifname "tap*" drop' in rules
    # The metadata service of a cloud that the machine may itself be a guest of.
    assert any("169.254.0.0/16 reject" in rule for rule in rules)


def test_a_machine_that_forwarded_nothing_forwards_nothing_but_ours() -> None:
    last = 'iifname != { "osk0", "oskpods0", "br-ex" } oifname != { "osk0", "oskpods0", "br-ex" } drop'
    assert last in network.guard(forwarding_was_off=True)
    assert last not in network.guard(forwarding_was_off=False)
