"""Control groups on both versions: made and removed at the top level, each in every tree that the machine has.

Called by `node`. Version 1 has one tree per controller, version 2 has one for all; a machine can have both, and then
the controllers are where version 1 has them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from openstack_operator.embedded import processes

ROOT = Path("/sys/fs/cgroup")

# What pods and guests are limited and counted by; those that the kernel lacks are left out.
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")


def trees() -> list[Path]:
    """The mount points that hold controllers: one for version 2, several for version 1."""
    if is_unified():
        return [ROOT]
    if not ROOT.is_dir():
        return []
    # Beside version 1, a version 2 tree ("unified") has no controllers and pods are not put into it.
    return sorted(path for path in ROOT.iterdir() if path.is_dir() and (path / "cgroup.procs").exists()
                  and not (path / "cgroup.controllers").exists())  # fmt: skip


def is_unified() -> bool:
    """Whether the machine uses version 2 only."""
    return (ROOT / "cgroup.controllers").exists()


def make(name: str) -> None:
    """A group NAME at the top of every tree, ready to hold processes and groups."""
    if is_unified():
        enable(ROOT)
        (ROOT / name).mkdir(exist_ok=True)
        enable(ROOT / name)
        return
    for tree in trees():
        group = tree / name
        group.mkdir(exist_ok=True)
        # A new cpuset of version 1 is empty and takes no process until it names processors and memory.
        for what in ("cpuset.cpus", "cpuset.mems"):
            if (group / what).exists() and not (group / what).read_text().strip():
                (group / what).write_text((tree / what).read_text())


def enable(group: Path) -> None:
    """Hands every controller that `group` has down to its children."""
    available = (group / "cgroup.controllers").read_text().split()
    for controller in CONTROLLERS:
        if controller in available:
            # The kernel refuses one that is in use in a way that excludes it; pods run without that one.
            with contextlib.suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")


def members(name: str) -> set[int]:
    """The pids in NAME and below it."""
    found: set[int] = set()
    for tree in trees():
        # Groups go away while we read: os.walk and this loop pass over them.
        for directory, _, _ in os.walk(tree / name):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in Path(directory, "cgroup.procs").read_text().split())
    # One that has ended stays a member until its parent takes note.
    return {pid for pid in found if processes.start_time(pid) is not None}


def kill(name: str, *, grace: float = 0, seconds: float = 10) -> None:
    """Ends every process in NAME and below it: asks, waits `grace` seconds, kills."""
    if grace and signal_all(name, signal.SIGTERM):
        deadline = time.monotonic() + grace
        while members(name) and time.monotonic() < deadline:
            time.sleep(0.1)
    deadline = time.monotonic() + seconds
    # More than once: a process may fork while we read.
    while signal_all(name, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.05)


def signal_all(name: str, number: signal.Signals) -> bool:
    """Sends a signal to all members; whether there were any."""
    pids = members(name)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return bool(pids)


def remove(name: str) -> list[str]:
    """Removes NAME and all groups below it, which are empty. The groups that cannot be removed are returned."""
    left = []
    for tree in trees() + ([ROOT / "unified"] if (ROOT / "unified").is_dir() else []):
        for directory, _, _ in os.walk(tree / name, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                left.append(directory)
    return left
