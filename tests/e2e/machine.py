"""What a machine looks like: links, routes, name spaces, mounts, packet filter, processes. For comparing before `up`
with after `down`; and the processes of containers on it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from openstack_operator.embedded import ledger, paths

# Counters and handles change with each packet and each look.
_COUNTERS = re.compile(r" ?(counter packets \d+ bytes \d+|# handle \d+)|\[\d+:\d+\]")

# Installed packages stay, and have directories of their own.
_OF_A_CLOUD = re.compile("openstack|openvswitch|ovn|libvirt|nova|neutron|kube|containerd|cni")


@dataclass(frozen=True)
class Snapshot:
    """Each field is a set of lines."""

    links: frozenset[str]
    addresses: frozenset[str]
    routes: frozenset[str]
    rules: frozenset[str]
    network_namespaces: frozenset[str]
    mounts: frozenset[str]
    packet_filter: frozenset[str]
    iptables: frozenset[str]
    processes: frozenset[str]
    settings: frozenset[str]
    control_groups: frozenset[str]
    directories: frozenset[str]

    @classmethod
    def take(cls, where: paths.Paths) -> Snapshot:
        return cls(
            links=frozenset(line.split()[1] for line in _output("ip", "-o", "link")),
            addresses=frozenset(" ".join(line.split()[1:4]) for line in _output("ip", "-o", "addr")),
            routes=frozenset(
                line.strip()
                for family in ("-4", "-6")
                for line in _output("ip", family, "route", "show", "table", "all")
            ),
            rules=frozenset(line for family in ("-4", "-6") for line in _output("ip", family, "rule")),
            network_namespaces=frozenset(_names(Path("/run/netns"))),
            mounts=frozenset(_mounts()),
            packet_filter=frozenset(_COUNTERS.sub("", line) for line in _output("nft", "-a", "list", "ruleset")),
            iptables=frozenset(
                _COUNTERS.sub("", line)
                for program in ("iptables-save", "ip6tables-save")
                for line in _output(program)
                if not line.startswith("#")
            ),
            processes=frozenset(_processes(where)),
            settings=frozenset(f"{name}={ledger.get(name)}" for name in ledger.SYSCTLS),
            control_groups=frozenset(
                str(path) for pattern in ("*", "*/*") for path in Path("/sys/fs/cgroup").glob(pattern) if path.is_dir()
            ),
            directories=frozenset(
                f"{parent}/{name}"
                for parent in ("/run", "/etc", "/var/lib", "/var/log", "/var/run", "/opt")
                for name in _names(Path(parent))
                if _OF_A_CLOUD.search(name)
            ),
        )

    def differences(self, other: Snapshot) -> list[str]:
        """What this one has and the other lacks (-), and the other way round (+)."""
        found = []
        for one in fields(self):
            mine, others = getattr(self, one.name), getattr(other, one.name)
            found += [f"{one.name}: - {line}" for line in sorted(mine - others)]
            found += [f"{one.name}: + {line}" for line in sorted(others - mine)]
        return found


@dataclass(frozen=True)
class Start:
    """How a session found the machine, and what `./up` said; nothing where the cloud was taken as it was."""

    before: Snapshot
    was_up: bool
    output: str

    @property
    def may_go(self) -> bool:
        """Whether tests may take the cloud away. One that was there before the session is somebody's, unless he says
        otherwise: OPENSTACK_OPERATOR_E2E_DOWN=1."""
        return not self.was_up or bool(os.environ.get("OPENSTACK_OPERATOR_E2E_DOWN"))


def _output(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        # A fresh machine lacks the tool, and then there is nothing that it could show.
        return []
    return [line for line in done.stdout.splitlines() if line.strip()]


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()] if directory.is_dir() else []


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        # Mount point, options, propagation (without the number of the group), type and source.
        _, _, _, root, point, options, *propagation = front.split()
        kinds = sorted(one.partition(":")[0] for one in propagation)
        yield " ".join([root, point, options, *kinds, *back.split()[:2]])


def _processes(where: paths.Paths) -> Iterator[str]:
    """Programs of ours: out of our directories, or in a mount name space other than the machine's."""
    own = os.readlink("/proc/self/ns/mnt")
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            program, space = os.readlink(directory / "exe"), os.readlink(directory / "ns/mnt")
            words = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        ours = any(program.startswith(f"{root}/kubernetes/") for root in (where.cache, where.state))
        if ours or space != own or f"{where.state}/" in words:
            yield f"{program} {words[:120]}"


@functools.cache
def _own_mounts() -> str:
    return os.readlink("/proc/self/ns/mnt")


def processes() -> Iterator[Path]:
    """Processes of containers: those in another mount name space than the machine's."""
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(directory / "ns/mnt") != _own_mounts():
                yield directory
