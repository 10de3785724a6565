"""The script that cleans a node: guests end first, then what was kept of them goes, and only then is the node clean."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.services.nova.compute import config


@pytest.fixture
def guest() -> Iterator[subprocess.Popen[bytes]]:
    """A process, as QEMU's is one."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def run(directory: Path, *arguments: Path) -> int:
    """Runs the script with the machine's directories here; its exit code. It does not stay for good where it
    succeeds, and looks after its guests more often."""
    programs = directory / "bin"
    programs.mkdir()
    (programs / "sleep").write_text(f'#!/bin/sh\n[ "$1" = infinity ] || exec {shutil.which("sleep")} 0.05\n')
    (programs / "sleep").chmod(0o755)
    text = config.CLEAN.replace(config.CGROUPS, str(directory / "cg")).replace(
        config.CLEAN_MARK, str(directory / "mark")
    )
    done = subprocess.run(
        ["sh", "-c", text, "clean", *map(str, arguments)],
        check=False, timeout=20, env={"PATH": f"{programs}:{os.environ['PATH']}"},
    )  # fmt: skip
    return done.returncode


def kept(directory: Path) -> list[Path]:
    """Directories of the node with things in them."""
    made = [directory / "instances", directory / "qemu"]
    for one in made:
        (one / ".hidden" / "deep").mkdir(parents=True)
        (one / ".hidden" / "deep" / "disk").write_text("x")
        (one / "a b.xml").write_text("x")
    return made


@pytest.mark.parametrize("hierarchy", ["", "cpu,cpuacct/"])
def test_guests_end_and_everything_goes_but_the_directories_themselves(
    tmp_path: Path, guest: subprocess.Popen[bytes], hierarchy: str
) -> None:
    """Regression r14, r28: what a Nova that is gone leaves on its nodes is in the way of the next one. The groups of
    guests stand in one hierarchy (cgroup v2) or in several."""
    group = tmp_path / "cg" / hierarchy / config.GUESTS / "4711"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{guest.pid}\n")

    def leave() -> None:
        # As the kernel does when a process of the group has ended.
        guest.wait()
        (group / "cgroup.procs").unlink()

    end = threading.Thread(target=leave)
    end.start()
    directories = kept(tmp_path)
    code = run(tmp_path, *directories)
    end.join()

    assert guest.returncode == -9
    assert code == 0
    assert [list(one.iterdir()) for one in directories] == [[], []]
    assert (tmp_path / "mark").exists()
    assert not group.exists()


def test_a_node_with_a_guest_that_does_not_end_is_not_clean_and_keeps_its_disks(
    tmp_path: Path, guest: subprocess.Popen[bytes]
) -> None:
    """Nobody takes the end of this one from its group."""
    group = tmp_path / "cg" / config.GUESTS / "4711"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{guest.pid}\n")
    directories = kept(tmp_path)

    assert run(tmp_path, *directories) == 1
    assert [len(list(one.iterdir())) for one in directories] == [2, 2]
    assert not (tmp_path / "mark").exists()
    assert group.exists()


def test_a_node_without_guests_is_clean_at_once(tmp_path: Path) -> None:
    directories = kept(tmp_path)

    assert run(tmp_path, *directories) == 0
    assert [list(one.iterdir()) for one in directories] == [[], []]
    assert (tmp_path / "mark").exists()
