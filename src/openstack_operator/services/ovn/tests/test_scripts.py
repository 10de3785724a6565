"""Start scripts of OVN: they parse, and every one of them is delivered."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openstack_operator.services.ovn import config, resources


@pytest.mark.parametrize("name", config.SCRIPTS)
def test_a_script_parses(name: str) -> None:
    answer = subprocess.run(
        ["sh", "-n"], input=config.script(name), text=True, capture_output=True, check=False, timeout=10
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_every_script_is_in_the_config_map() -> None:
    assert set(resources.scripts("ovn")["data"]) == set(config.SCRIPTS)


SERVER = """
. ./serve.sh
before_end() { echo before; }
serve sh -c 'trap "echo ended; exit 7" TERM; echo began; while :; do sleep 0.01; done'
serve_until_end
"""


def test_a_server_is_told_to_end_after_what_comes_before_and_its_end_is_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(config.script("serve.sh"))
    with subprocess.Popen(["sh", "-c", SERVER], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "began\n"
        script.terminate()
        assert script.stdout.read() == "before\nended\n"
    assert script.returncode == 7


@pytest.mark.parametrize(("server", "code"), [("exit 3", 3), ("kill -KILL $$", 128 + 9)])
def test_a_server_that_ends_by_itself_ends_its_script(tmp_path: Path, server: str, code: int) -> None:
    (tmp_path / "serve.sh").write_text(config.script("serve.sh"))
    text = f". ./serve.sh\nbefore_end() {{ :; }}\nserve sh -c '{server}'\nserve_until_end\n"
    answer = subprocess.run(["sh", "-c", text], cwd=tmp_path, check=False, timeout=10)
    assert answer.returncode == code


DENIED = """
mount -t tmpfs -o nodev none /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun && exec sh ./vswitchd.sh
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
def test_a_userspace_switch_without_its_device_says_why_and_changes_nothing(tmp_path: Path) -> None:
    """A mount without devices refuses to open one, as a runtime does that denies it to pods."""
    for name in ("serve.sh", "vswitchd.sh"):
        (tmp_path / name).write_text(config.script(name))
    asked = tmp_path / "asked"
    for name, code in (("ovs-vsctl", 0), ("ovs-dpctl", 1), ("ovs-vswitchd", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {asked}\nexit {code}\n')
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_NAME": "one", "DATAPATH": "Auto"}
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", DENIED],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert answer.returncode == 1
    assert answer.stdout == "datapath: netdev\n"
    assert answer.stderr.startswith("cannot open /dev/net/tun, which the userspace datapath needs")
    assert answer.stderr.count("\n") == 1
    assert [line.split()[0] for line in asked.read_text().splitlines()] == ["ovs-vsctl", "ovs-dpctl"]
