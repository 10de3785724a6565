"""The machine's network around the cluster: bridges, routes and packet filter, made first and removed last.

Called by `node`. The rule of the house: no packet of the cluster or of a guest leaves by the machine's own
interfaces, whatever is up or down at the moment. Two things see to it, either of them alone would do:

  * unreachable routes of high metric for all ranges: where the real, better route is missing, the kernel refuses the
    packet;
  * an nft table that lets addresses of our ranges pass between our own interfaces only.

The bridge of the pods is filled by the CNI plugin, br-ex and br-int by the node agents of OVN.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack_operator.embedded import addresses, ledger
from openstack_operator.runtime import errors

# Interfaces carry this as their alias: how we know ours after a crash.
ALIAS = "openstack-operator"
TABLE = "openstack_operator"
# Any real route is better.
LAST_METRIC = 4278198272

# Tables of programs that run for the cluster; they would stay behind.
PROGRAM_TABLES = ("ip kube-proxy", "ip6 kube-proxy", "inet cni_hostport", "inet kube-network-policies")

# Feeds the policy agent's queue. Established connections and the machine's own packets (the kubelet's probes) pass by.
# The second form is for kernels that lack nft's own way to do so (NFT_QUEUE).
QUEUE = "100"
QUEUE_STATEMENTS = f"""\
    ct state established,related accept
    fib saddr type local accept
    ip saddr {addresses.POD_RANGE} queue flags bypass to {QUEUE}
    ip daddr {addresses.POD_RANGE} queue flags bypass to {QUEUE}
"""
QUEUE_RULES: tuple[tuple[str, ...], ...] = (
    ("-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "RETURN"),
    ("-m", "addrtype", "--src-type", "LOCAL", "-j", "RETURN"),
    ("-s", addresses.POD_RANGE, "-j", "NFQUEUE", "--queue-num", QUEUE, "--queue-bypass"),
    ("-d", addresses.POD_RANGE, "-j", "NFQUEUE", "--queue-num", QUEUE, "--queue-bypass"),
)
QUEUE_CHAIN = "OPENSTACK-OPERATOR-QUEUE"

# A firewall or a container engine of the machine may drop by default what we need; see `open_foreign_firewall`.
COMMENT = ("-m", "comment", "--comment", ALIAS)


class NetworkError(errors.OperatorError):
    """A command on the network failed; the message holds the command and what it said."""


def prepare(before: ledger.Ledger) -> None:
    """Routes, filter, bridges, settings. Safe to repeat."""
    if before.nft_tables is None:
        before.nft_tables = nft_tables()
        before.write()
    for range_ in addresses.RANGES:
        run("ip", "route", "replace", "unreachable", range_, "metric", str(LAST_METRIC))
    forwarding_was_off = before.sysctls.get("net/ipv4/ip_forward") == "0"
    taps = foreign_taps([item["ifname"] for item in json.loads(run("ip", "-j", "link", "show"))])
    for module in ("br_netfilter", "nf_conntrack", "nfnetlink_queue", "xt_NFQUEUE", "overlay", "openvswitch", "tun"):
        # Built in, absent, or loaded: which of them is seen where it matters.
        run_if_possible("modprobe", "-q", module)
    with_queue = has_nft_queue()
    run("nft", "-f", "-", stdin=guard(forwarding_was_off=forwarding_was_off, foreign=taps, with_queue=with_queue))
    for bridge, address in (
        (addresses.NODE_BRIDGE, f"{addresses.NODE_ADDRESS}/24"),
        (addresses.POD_BRIDGE, str(first_host(addresses.NODE_POD_RANGE))),
    ):
        make_bridge(bridge, address)
    # The machine's own packets to Services need a route before the packet filter can send them on to a pod.
    run("ip", "route", "replace", addresses.SERVICE_RANGE, "dev", addresses.NODE_BRIDGE)
    ledger.put("net/ipv4/ip_forward", "1")
    if ledger.get("net/bridge/bridge-nf-call-iptables") is not None:
        # An answer between two pods on one bridge must pass the filter that rewrote the question.
        ledger.put("net/bridge/bridge-nf-call-iptables", "1")
    if int(ledger.get("fs/inotify/max_user_instances") or 0) < 1024:
        ledger.put("fs/inotify/max_user_instances", "1024")
    if not with_queue:
        make_queue_rules()
    open_foreign_firewall()


def remove(before: ledger.Ledger | None) -> None:
    """Takes away what `prepare`, the CNI plugin, the cluster's programs and the OVN agents have made."""
    for name in interfaces_of_pods():
        run_if_possible("ip", "link", "delete", name)
    for name in (*addresses.OVN_INTERFACES, addresses.POD_BRIDGE, addresses.NODE_BRIDGE):
        if interface(name) is not None:
            run_if_possible("ip", "link", "delete", name)
    for path in sorted(Path("/run/netns").glob(f"{addresses.OVN_NAMESPACE_PREFIX}*")):
        run_if_possible("ip", "netns", "delete", path.name)
    close_foreign_firewall()
    remove_queue_rules()
    existing = nft_tables()
    were_there = existing if before is None or before.nft_tables is None else before.nft_tables
    ours = [f"inet {TABLE}", *PROGRAM_TABLES]
    for table in existing:
        if table in ours or (table not in were_there and is_empty_iptables(table)):
            run_if_possible("nft", "delete", "table", *table.split())
    if before is not None:
        before.restore_sysctls()
    for range_ in addresses.RANGES:
        # Last: until here nothing of ours can have left by the machine's own interfaces.
        run_if_possible("ip", "route", "delete", "unreachable", range_, "metric", str(LAST_METRIC))


# --- packet filter ----------------------------------------------------------------------------------------------------


def guard(*, forwarding_was_off: bool, foreign: Sequence[str] = (), with_queue: bool = False) -> str:
    """The nft table that keeps the cluster's packets between the cluster's interfaces.

    `forwarding_was_off`: the machine forwarded nothing before us, so it goes on forwarding nothing but ours.
    `foreign`: tap devices that are not our guests'. `with_queue`: the policy agent is asked about new connections here.
    Chains that are there stay, with new rules: with a chain goes all that waits for the agent's verdict anywhere.
    """
    taps = f'iifname != {{ {", ".join(foreign)} }} iifname "tap*"' if foreign else 'iifname "tap*"'
    ours = ", ".join(f'"{name}"' for name in (addresses.NODE_BRIDGE, addresses.POD_BRIDGE, "br-ex"))
    inside = f'"{addresses.NODE_BRIDGE}", "{addresses.POD_BRIDGE}"'
    ranges = ", ".join(addresses.RANGES)
    hook = "type filter hook postrouting priority mangle; policy accept;"
    policies = f"  chain policies {{\n    {hook}\n{QUEUE_STATEMENTS}  }}\n" if with_queue else ""
    rest = f"iifname != {{ {ours} }} oifname != {{ {ours} }} drop" if forwarding_was_off else "accept"
    return f"""\
table inet {TABLE} {{}}
flush table inet {TABLE}
table inet {TABLE} {{
  set ranges {{
    type ipv4_addr; flags interval
    elements = {{ {ranges} }}
  }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    # A guest's broadcasts and its traffic to anywhere are the virtual network's, not the machine's.
    iifname {{ "br-int", "ovs-netdev" }} drop
    {taps} drop
    oifname {{ "br-int", "ovs-netdev" }} drop
    # Guests answer the cluster, and ask nothing of it or of the world.
    iifname "br-ex" oifname {{ {inside} }} ct state established,related accept
    iifname "br-ex" reject with icmpx admin-prohibited
    # The cloud that this machine may itself be a guest of.
    iifname {{ {ours} }} ip daddr 169.254.0.0/16 reject with icmpx admin-prohibited
    ip saddr @ranges oifname != {{ {ours} }} reject with icmpx admin-prohibited
    ip daddr @ranges oifname != {{ {ours} }} reject with icmpx admin-prohibited
    iifname {{ {ours} }} oifname != {{ {ours} }} reject with icmpx admin-prohibited
    # Nobody outside of the machine gets in either.
    iifname != {{ {ours} }} ip daddr @ranges drop
    {rest}
  }}
  chain input {{
    type filter hook input priority -10; policy accept;
    iifname {{ "br-int", "ovs-netdev" }} drop
    {taps} drop
    # A guest may answer the machine and be pinged; the machine's services are not for it.
    iifname "br-ex" ct state established,related accept
    iifname "br-ex" meta l4proto {{ tcp, udp }} reject with icmpx admin-prohibited
    iifname != {{ "lo", {ours} }} ip daddr @ranges drop
  }}
  chain output {{
    type filter hook output priority 10; policy accept;
    ip daddr @ranges oifname != {{ "lo", {ours} }} reject with icmpx admin-prohibited
  }}
{policies}}}
"""


def foreign_taps(names: Iterable[str]) -> list[str]:
    """The tap devices of others: those of our guests are named by a port's id, as in tap1a2b3c4d-5e."""
    return [n for n in names if n.startswith("tap") and re.fullmatch(r"tap[0-9a-f]{8}-[0-9a-f]{2}", n) is None]


def has_nft_queue() -> bool:
    """Whether the kernel has nft's queue statement."""
    probe = f"table inet openstack_operator_probe {{ chain c {{ queue flags bypass to {QUEUE}; }}; }}"
    return (
        subprocess.run(["nft", "-c", "-f", "-"], input=probe, check=False, capture_output=True, text=True).returncode
        == 0
    )


def make_queue_rules() -> None:
    iptables = ("iptables", "-w", "-t", "mangle")
    if not succeeds(*iptables, "-n", "-L", QUEUE_CHAIN):
        run(*iptables, "-N", QUEUE_CHAIN)
    # While the chain is filled, connections pass that are not allowed.
    if not all(succeeds(*iptables, "-C", QUEUE_CHAIN, *rule) for rule in QUEUE_RULES):
        run(*iptables, "-F", QUEUE_CHAIN)
        for rule in QUEUE_RULES:
            run(*iptables, "-A", QUEUE_CHAIN, *rule)
    if not succeeds(*iptables, "-C", "POSTROUTING", "-j", QUEUE_CHAIN):
        run(*iptables, "-A", "POSTROUTING", "-j", QUEUE_CHAIN)


def remove_queue_rules() -> None:
    iptables = ("iptables", "-w", "-t", "mangle")
    if shutil.which("iptables") is None or not succeeds(*iptables, "-n", "-L", QUEUE_CHAIN):
        return
    run_if_possible(*iptables, "-D", "POSTROUTING", "-j", QUEUE_CHAIN)
    run_if_possible(*iptables, "-F", QUEUE_CHAIN)
    run_if_possible(*iptables, "-X", QUEUE_CHAIN)


def open_foreign_firewall() -> None:
    """Where the machine's firewall drops by default (ufw, a container engine), lets the cluster's interfaces pass."""
    for chain, rules in foreign_rules().items():
        said = subprocess.run(["iptables", "-w", "-S", chain], check=False, capture_output=True, text=True).stdout
        if not said.startswith(f"-P {chain} DROP"):
            continue
        for rule in rules:
            if not succeeds("iptables", "-w", "-C", chain, *rule):
                run("iptables", "-w", "-I", chain, *rule)


def close_foreign_firewall() -> None:
    if shutil.which("iptables") is None:
        return
    for chain, rules in foreign_rules().items():
        for rule in rules:
            if succeeds("iptables", "-w", "-C", chain, *rule):
                run_if_possible("iptables", "-w", "-D", chain, *rule)


def foreign_rules() -> dict[str, list[tuple[str, ...]]]:
    ours = (addresses.NODE_BRIDGE, addresses.POD_BRIDGE, "br-ex")
    return {
        "INPUT": [("-i", name, *COMMENT, "-j", "ACCEPT") for name in ours],
        "FORWARD": [("-i", a, "-o", b, *COMMENT, "-j", "ACCEPT") for a in ours for b in ours],
    }


def nft_tables() -> list[str]:
    """The tables there are, as "family name"."""
    said = subprocess.run(["nft", "list", "tables"], check=False, capture_output=True, text=True)
    return [line.removeprefix("table ") for line in said.stdout.splitlines()]


def is_empty_iptables(table: str) -> bool:
    """Whether a table is one that the iptables command made and that holds no rule any more."""
    if table.rpartition(" ")[2] not in ("filter", "nat", "mangle", "raw"):
        return False
    said = subprocess.run(["nft", "-j", "list", "table", *table.split()], check=False, capture_output=True, text=True)
    if said.returncode:
        return False
    return not any("rule" in item for item in json.loads(said.stdout)["nftables"])


# --- interfaces and routes --------------------------------------------------------------------------------------------


def make_bridge(name: str, address: str) -> None:
    if interface(name) is None:
        run("ip", "link", "add", name, "type", "bridge")
        run("ip", "link", "set", name, "alias", ALIAS)
    run("ip", "address", "replace", address, "dev", name)
    run("ip", "link", "set", name, "up")


def interface(name: str) -> dict[str, Any] | None:
    """What `ip` knows of an interface; None where there is none."""
    said = subprocess.run(["ip", "-j", "link", "show", "dev", name], check=False, capture_output=True, text=True)
    if said.returncode:
        return None
    found: dict[str, Any] = json.loads(said.stdout)[0]
    return found


def is_ours(name: str) -> bool:
    """Whether an interface exists and carries our mark."""
    found = interface(name)
    return found is not None and found.get("ifalias") == ALIAS


def interfaces_of_pods() -> list[str]:
    """The ends, on the machine's side, of pods' interfaces: what is plugged into the bridge of the pods."""
    if interface(addresses.POD_BRIDGE) is None:
        return []
    said = run("ip", "-j", "link", "show", "master", addresses.POD_BRIDGE)
    return [item["ifname"] for item in json.loads(said or "[]")]


@dataclass(frozen=True)
class Use:
    """A range of addresses that the machine uses already, and for what."""

    range: ipaddress.IPv4Network
    what: str


def uses_of_ours(routes: Sequence[dict[str, Any]], links: Sequence[str]) -> list[Use]:
    """The routes (as `ip -j route` tells them) that overlap our ranges and are not on our own `links`."""
    ours = [ipaddress.IPv4Network(text) for text in addresses.RANGES]
    found = []
    for route in routes:
        destination = route["dst"]
        if destination == "default" or str(route.get("dev", "")) in links:
            continue
        if route.get("type") == "unreachable" and route.get("metric") == LAST_METRIC:
            continue
        range_ = ipaddress.IPv4Network(destination, strict=False)
        if any(range_.overlaps(one) for one in ours):
            where = f" on {route['dev']}" if "dev" in route else ""
            found.append(Use(range_, f"the route to {destination}{where}"))
    return found


def routes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("ip", "-j", "-4", "route", "show") or "[]")
    return found


def first_host(range_: str) -> ipaddress.IPv4Interface:
    """The first address of a range with the range's length: "10.244.1.1/24"."""
    network = ipaddress.IPv4Network(range_)
    return ipaddress.IPv4Interface(f"{network[1]}/{network.prefixlen}")


# --- commands ---------------------------------------------------------------------------------------------------------


def run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NetworkError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def succeeds(*command: str) -> bool:
    """Whether a command ends well; a program that is not installed does not."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def run_if_possible(*command: str) -> None:
    """For taking things away: what is not there any more is no fault."""
    succeeds(*command)
