"""Below Kubernetes' API: processes of containers, and daemons of the embedded node. For faults that no API makes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from clusters import Cluster, Object

from openstack_operator.embedded import node, paths, processes, programs

TASK_SECONDS = 30


def embedded_node() -> node.Node:
    """The node of `./up`."""
    where = paths.default()
    return node.Node(where, programs.ensure(where.cache))


def main_process(pod: Object, container: str = "") -> int:
    """pid of a container's first process as the machine sees it; of the pod's first container by default."""
    statuses = pod["status"]["containerStatuses"]
    status = next(one for one in statuses if not container or one["name"] == container)
    identifier = status["containerID"].rpartition("/")[2]
    command = [*embedded_node().ctr(), "-n", "k8s.io", "tasks", "list"]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1:]:
        task, pid, _ = line.split()
        if task == identifier:
            return int(pid)
    raise AssertionError(f"container {identifier} of pod {pod['metadata']['name']} has no process")


def kill(pid: int) -> None:
    """kill -9, and it is over when this returns."""
    started = processes.start_time(pid)
    assert started is not None, f"process {pid} does not run"
    identity = processes.Identity(pid, started, processes.boot())
    processes.kill(identity)
    end = time.monotonic() + TASK_SECONDS
    while processes.is_running(identity):
        assert time.monotonic() < end, f"process {pid} does not end"
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """The process and all that came from it."""
    found = [pid]
    for parent in found:
        for task in _tasks(parent):
            found += task
    return found


def _tasks(pid: int) -> Iterator[list[int]]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    yield [int(one) for one in file.read().split()]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process and its children hang for as long as the block lasts: connections open, and nobody answers."""
    family = descendants(pid)
    for one in family:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in family:
            # Who was killed meanwhile, for not answering, is gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether it is there, and stands still."""
    try:
        # Behind the name, which may have blanks and brackets of its own.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def command_line(pid: int) -> str:
    """Its words; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill_daemons(*names: str) -> None:
    """kill -9 of daemons of the node, and they are gone."""
    daemons = embedded_node().daemons
    for name in names:
        pid = daemons.pid(name)
        assert pid is not None, f"{name} does not run"
        kill(pid)


def start_again() -> None:
    """What `./up` does for a node whose daemons are gone."""
    embedded_node().start()


def kill_pod(cluster: Cluster, namespace: str, name: str) -> str:
    """kill -9 of all first processes of a pod's containers. Returns the pod's uid, which stays."""
    pod = cluster.get("pods", name, namespace)
    for status in pod["status"]["containerStatuses"]:
        kill(main_process(pod, status["name"]))
    uid: str = pod["metadata"]["uid"]
    return uid
