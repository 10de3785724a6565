"""What the machine looked like before `up` changed it, written down before the change, so that `down` can put it back.

Called by `network` and `node`. One JSON file in the state directory; it is also the mark that the state directory is
ours. Settings of the kernel are forgotten by a reboot, so what is written about them holds for one boot only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from openstack_operator.embedded import processes

SYSCTL = Path("/proc/sys")

# What we set, and what kubelet and kube-proxy set by themselves.
SYSCTLS = (
    "fs/inotify/max_user_instances",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/conf/default/forwarding",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)

# Directories outside of ours that the programs make by themselves; removed again where they were not there before.
DIRECTORIES = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/cni/results",
    "/var/lib/kubelet",
    "/var/lib/kubelet/device-plugins",
    "/var/log/containers",
)

# Directories of the node's OpenStack agents, made by their pods. Sockets and pid files go whenever the pods are gone.
AGENT_RUN = ("/run/libvirt", "/run/openvswitch", "/run/ovn")
# Guests' disks, the switch's configuration, the identity of the compute host: they go with the cluster's data.
AGENT_DATA = ("/var/lib/openstack",)


class Ledger:
    """The file; `open_` reads or makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot = ""
        self.sysctls: dict[str, str] = {}
        self.made_shared: list[str] = []
        # None: not looked at yet, since the program to look with was not installed yet.
        self.nft_tables: list[str] | None = None
        self.absent_directories: list[str] = []

    @classmethod
    def path_in(cls, state: Path) -> Path:
        return state / "before.json"

    @classmethod
    def read(cls, state: Path) -> Ledger | None:
        """The ledger of a state directory; None where `up` never ran."""
        ledger = cls(cls.path_in(state))
        try:
            content = json.loads(ledger.path.read_text())
        except OSError:
            return None
        for name in ("boot", "sysctls", "made_shared", "nft_tables", "absent_directories"):
            setattr(ledger, name, content[name])
        return ledger

    @classmethod
    def begin(cls, state: Path) -> Ledger:
        """The ledger of this boot, written now where it is missing or older than the boot."""
        ledger = cls.read(state)
        if ledger is not None and ledger.boot == processes.boot():
            return ledger
        earlier = ledger.absent_directories if ledger else []
        ledger = cls(cls.path_in(state))
        ledger.boot = processes.boot()
        ledger.sysctls = {name: value for name in SYSCTLS if (value := get(name)) is not None}
        # What a crashed boot left on the disk is ours still.
        ledger.absent_directories = [
            d for d in (*DIRECTORIES, *AGENT_RUN, *AGENT_DATA) if d in earlier or not Path(d).exists()
        ]
        ledger.write()
        return ledger

    def write(self) -> None:
        content = {name: value for name, value in vars(self).items() if name != "path"}
        staging = self.path.with_suffix(".new")
        staging.write_text(json.dumps(content, indent=1))
        staging.rename(self.path)

    def restore_sysctls(self) -> None:
        """Puts back what differs, unless a reboot has done so."""
        if self.boot != processes.boot():
            return
        for name, value in self.sysctls.items():
            if get(name) not in (value, None):
                put(name, value)

    def remove_agents(self, *, keep_data: bool) -> None:
        """Removes what the node's OpenStack agents left in directories that were not there before."""
        for name in (*AGENT_RUN, *(() if keep_data else AGENT_DATA)):
            if name in self.absent_directories:
                shutil.rmtree(name, ignore_errors=True)

    def remove_directories(self) -> None:
        """Removes directories that were not there before, as far as they are empty of files."""
        for name in self.absent_directories:
            if name in AGENT_DATA:
                continue
            for directory, _, _ in os.walk(name, topdown=False):
                # One that holds something is not ours to remove.
                with contextlib.suppress(OSError):
                    os.rmdir(directory)


def get(name: str) -> str | None:
    """A kernel setting; None where this kernel has none of that name."""
    try:
        return (SYSCTL / name).read_text().strip()
    except OSError:
        return None


def put(name: str, value: str) -> None:
    (SYSCTL / name).write_text(value)
