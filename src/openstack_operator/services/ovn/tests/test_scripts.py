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


PROGRAMS = {
    "hostname": 'echo "$MEMBER.ovn-nb.cloud.svc.example.org"',
    "ovsdb-tool": """case $1 in
      needs-conversion) echo no; exit ;;
      create-cluster | create) kept=database ;;
      join-cluster) kept=member ;;
    esac
    echo "$1" >> "$CALLS"
    echo "$kept" > "$2"
    """,
    # Ends when the script has opened the port, which is the last that it does beside the server.
    "ovsdb-server": """echo "serves $(cat "$DATA")" >> "$CALLS"
    [ -n "${SOCKET:-}" ] || exit 0
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$SOCKET"
    until [ -e "$SOCKET.open" ]; do sleep 0.01; done
    """,
    "ovsdb-client": "echo no",
    "ovn-nbctl": "",
    "ovs-appctl": ': > "$SOCKET.open"',
}
"""Stand in for the programs of the images."""


def run(directory: Path, name: str, before: str | None, **environment: str) -> tuple[list[str], str]:
    """Runs a script on a file with such a content, None for no file: what was done, and what was said."""
    programs, data, sockets = (directory / one for one in ("bin", "data", "run"))
    for one in (programs, data, sockets):
        one.mkdir()
    for program, text in PROGRAMS.items():
        (programs / program).write_text(f"#!/bin/sh\nset -eu\n{text}\n")
        (programs / program).chmod(0o755)
    file = data / ("conf.db" if name == "ovsdb.sh" else "nb.db")
    if before is not None:
        file.write_text(before)
    text = config.script(name)
    for path in ("/var/lib/ovn", "/var/lib/openvswitch"):
        text = text.replace(path, str(data))
    for path in ("/run/ovn", "/run/openvswitch"):
        text = text.replace(path, str(sockets))
    (directory / name).write_text(text)
    (directory / "serve.sh").write_text(config.script("serve.sh"))
    answer = subprocess.run(
        ["sh", str(directory / name)],
        capture_output=True, text=True, check=True, timeout=20,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(directory / "calls"), "DATA": str(file)}
        | environment,
    )  # fmt: skip
    return (directory / "calls").read_text().splitlines(), answer.stderr


FOUND = ["create-cluster", "serves database"]
JOINED = ["join-cluster", "serves member"]


@pytest.mark.parametrize(
    ("member", "before", "done", "said"),
    [
        ("ovn-nb-0", None, FOUND, False),
        ("ovn-nb-0", "", FOUND, True),
        ("ovn-nb-0", "rows\n", ["serves rows"], False),
        ("ovn-nb-1", "", JOINED, True),
    ],
)
def test_a_database_of_ovn_is_made_where_there_is_none_and_kept_where_there_is(
    tmp_path: Path, member: str, before: str | None, done: list[str], said: bool
) -> None:
    """Regression f86: an empty file was taken for a database, and the server ended over and over."""
    calls, words = run(
        tmp_path, "database.sh", before, DATABASE="nb", POD_IP="192.0.2.1", MEMBER=member,
        SOCKET=str(tmp_path / "run" / "nb.sock"),
    )  # fmt: skip
    assert calls == done
    assert ("nb.db is empty" in words) == said
    assert '"ptcp:6641:0.0.0.0"' in (tmp_path / "run" / "nb.json").read_text()


@pytest.mark.parametrize(
    ("before", "done", "said"),
    [
        (None, ["create", "serves database"], False),
        ("", ["create", "serves database"], True),
        ("rows\n", ["serves rows"], False),
    ],
)
def test_the_switchs_database_is_made_where_there_is_none_and_kept_where_there_is(
    tmp_path: Path, before: str | None, done: list[str], said: bool
) -> None:
    """Regression f86."""
    calls, words = run(tmp_path, "ovsdb.sh", before)
    assert calls == done
    assert ("conf.db is empty" in words) == said
    assert len((tmp_path / "data" / "system-id").read_text().strip()) == 36
