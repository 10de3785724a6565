"""What a cluster holds on its machine, counted, for finding what rollouts leave behind. Names are others each time, so
numbers are compared.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import machinery
import operators
from clusters import Cluster, Object, container_statuses

from openstack_operator.embedded import addresses, cgroups

KINDS = (
    "namespaces", "persistentvolumes", "pods", "persistentvolumeclaims", "services", "configmaps", "secrets", "jobs",
)  # fmt: skip


def counted(cluster: Cluster) -> dict[str, int]:
    """By what it is."""
    where = machinery.embedded_node().where
    links = _lines("ip", "-o", "link")
    objects = {kind: cluster.items(kind) for kind in KINDS}
    ended = _ended(objects["pods"])
    found = {
        "network name spaces": len(_lines("ip", "netns")),
        "veths": sum("veth" in line.split()[1] for line in links),
        "taps": sum(line.split()[1].startswith("tap") for line in links),
        "directories of volumes": len(list(where.volumes.iterdir())),
        "mounts": sum(str(root) in line for line in _mounts() for root in (where.state, where.run, "/run/netns")),
        "control groups": sum(1 for _ in (cgroups.trees()[0] / addresses.POD_CGROUP).rglob("cgroup.procs")),
        "guests' control groups": sum(1 for _ in (cgroups.trees()[0] / addresses.GUEST_CGROUP).rglob("cgroup.procs")),
        "guests": sum(_program(entry).startswith("qemu-system") for entry in Path("/proc").glob("[0-9]*")),
        "images": len(_ctr("images", "list", "-q")),
        "containers": len(_ctr("containers", "list", "-q")) - ended,
        "snapshots": len(_ctr("snapshots", "list")) - ended,
    }
    return found | {kind: len(items) for kind, items in objects.items()}


def _ended(pods: list[Object]) -> int:
    """Containers that were started again in their pod: a kubelet keeps the one before, for its log. How many there are
    is another number each time."""
    return sum(bool(one["lastState"]) for pod in pods for one in container_statuses(pod))


def memory(cluster: Cluster) -> tuple[int, int]:
    """pid of the operator's process, and its resident memory in KiB."""
    pid = machinery.main_process(operators.the_pod(cluster))
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    return pid, next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _program(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().split(b"\0")[0].rpartition(b"/")[2].decode(errors="replace")
    except OSError:
        return ""


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _ctr(*arguments: str) -> list[str]:
    return _lines(*machinery.embedded_node().ctr(), "-n", "k8s.io", *arguments)


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
