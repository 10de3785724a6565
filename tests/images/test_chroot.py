"""Commands inside a root file system: they cannot change the machine, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openstack_operator.embedded.images import chroot, layers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def root(tmp_path: Path) -> chroot.Root:
    """A root file system that borrows the machine's programs, read-only."""
    directory = tmp_path / "root"
    for name in ("dev", "etc", "proc", "run", "tmp", "usr"):
        (directory / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (directory / name).symlink_to(f"usr/{name}")
    return chroot.Root(directory, tmp_path / "work", {"/usr": Path("/usr")})


def shell(root: chroot.Root, script: str, *, network: bool = False) -> str:
    """Runs a script inside; returns what it printed."""
    logfile = root.work / "log"
    logfile.parent.mkdir(parents=True, exist_ok=True)
    logfile.unlink(missing_ok=True)
    chroot.run(root, ["sh", "-euc", script], logfile, network=network)
    return logfile.read_text()


def test_a_script_cannot_write_what_is_mounted_for_it_to_read(root: chroot.Root, tmp_path: Path) -> None:
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 192.0.2.1\n")
    inside = root.having({"/etc/resolv.conf": resolver}, {})
    with pytest.raises(layers.ImageError, match="Read-only file system"):
        shell(inside, ": > /etc/resolv.conf")
    assert resolver.read_text() == "nameserver 192.0.2.1\n"


def test_without_network_there_is_no_interface_and_no_file_of_the_machine(root: chroot.Root) -> None:
    seen = shell(root, "ls /etc /run; tail -n +3 /proc/net/dev | cut -d: -f1")
    assert seen.split() == ["/etc:", "/run:", "lo"]


def test_a_script_sees_only_its_own_processes(root: chroot.Root) -> None:
    assert shell(root, "echo $$").strip() == "1"


def test_outputs_are_kept_and_mount_points_below_run_leave_no_trace(root: chroot.Root, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    shell(
        root.having({}, {f"{chroot.INPUTS}/layer": output}),
        f"echo made > {chroot.INPUTS}/layer/file; echo x > /tmp/scratch",
    )
    assert (output / "file").read_text() == "made\n"
    assert list((root.directory / "run").iterdir()) == list((root.directory / "tmp").iterdir()) == []


def test_a_failure_tells_the_exit_code_the_log_and_the_last_lines(root: chroot.Root) -> None:
    with pytest.raises(layers.ImageError) as failure:
        shell(root, "echo no such package; exit 7")
    assert str(failure.value) == f"sh failed with exit code 7; log {root.work}/log:\n  no such package"


def test_a_missing_program_of_the_machine_is_named(tmp_path: Path) -> None:
    with pytest.raises(layers.ImageError, match="mmdebstrap cannot start: no-such-program is not installed"):
        chroot.execute(["no-such-program"], tmp_path / "log", "mmdebstrap")
