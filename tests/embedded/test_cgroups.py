"""Control groups of this machine's own version, and of version 2 where the machine has it mounted beside version 1."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.embedded import cgroups

ROOTS = [
    root
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
    if (root / "cgroup.controllers").exists() or any(root.glob("*/cgroup.procs"))
]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=ROOTS, ids=str)
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(cgroups, "ROOT", request.param)
    name = f"openstack-operator-test-{uuid.uuid4().hex[:8]}"
    handed_down = request.param / "cgroup.subtree_control"
    before = handed_down.read_text().split() if handed_down.exists() else []
    cgroups.make(name)
    yield name
    cgroups.kill(name)
    cgroups.remove(name)
    for controller in handed_down.read_text().split() if handed_down.exists() else []:
        if controller not in before:
            handed_down.write_text(f"-{controller}")


def enter(group: Path, tree: Path, pid: int) -> None:
    """Puts a process below ours: a group of version 2 whose children have controllers holds none itself."""
    group.mkdir()
    for what in ("cpuset.cpus", "cpuset.mems"):
        if (group / what).exists() and not cgroups.is_unified():
            (group / what).write_text((tree / what).read_text())
    (group / "cgroup.procs").write_text(str(pid))


def test_a_group_takes_processes_in_every_tree_and_ends_them_all(group: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        for tree in cgroups.trees():
            enter(tree / group / "pod", tree, sleeper.pid)
        assert cgroups.members(group) == {sleeper.pid}
        cgroups.kill(group)
        assert sleeper.wait(10) == -9
    assert cgroups.members(group) == set()


def test_a_group_is_removed_with_all_below_it(group: str) -> None:
    for tree in cgroups.trees():
        (tree / group / "pod" / "container").mkdir(parents=True)
    assert cgroups.remove(group) == []
    assert not any((tree / group).exists() for tree in cgroups.trees())


def test_a_group_in_use_is_named_and_stays(group: str) -> None:
    tree = cgroups.trees()[0]
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        enter(tree / group / "pod", tree, sleeper.pid)
        assert cgroups.remove(group) == [str(tree / group / "pod"), str(tree / group)]
        sleeper.kill()


def test_making_a_group_twice_changes_nothing(group: str) -> None:
    cgroups.make(group)
    assert all((tree / group).is_dir() for tree in cgroups.trees())
