"""What is in the way is named before anything is started; what the machine had comes back."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from openstack_operator.embedded import host, ledger, mounts, paths


@pytest.fixture
def where(tmp_path: Path) -> paths.Paths:
    return paths.Paths(cache=tmp_path / "cache", state=tmp_path / "state", run=tmp_path / "run")


def test_a_state_directory_with_files_of_others_is_refused(where: paths.Paths) -> None:
    where.state.mkdir()
    (where.state / "thesis.tex").touch()
    assert host.conflicting_directories(where, ours=False) == [
        f"{where.state} holds files and was not made by `up`: move it away, or set OPENSTACK_OPERATOR_STATE"
    ]


def test_an_empty_or_absent_state_directory_is_taken(where: paths.Paths) -> None:
    assert host.conflicting_directories(where, ours=False) == []
    where.state.mkdir()
    assert host.conflicting_directories(where, ours=False) == []


def test_a_state_directory_that_up_made_is_taken(where: paths.Paths) -> None:
    where.state.mkdir()
    ledger.Ledger.begin(where.state)
    assert host.conflicting_directories(where, ours=ledger.Ledger.read(where.state) is not None) == []


def test_a_socket_of_somebody_else_is_refused(where: paths.Paths) -> None:
    where.run.mkdir()
    where.containerd_socket.touch()
    assert host.conflicting_directories(where, ours=False) == [
        f"{where.containerd_socket} exists and was not made by `up`"
    ]


@pytest.mark.parametrize(("listen", "ask", "taken"), [
    ("127.0.0.1", "127.0.0.1", True),
    ("0.0.0.0", "10.89.0.1", True),
    ("127.0.0.1", "10.89.0.1", False),
])  # fmt: skip
def test_a_port_is_taken_where_its_holder_listens(listen: str, ask: str, taken: bool) -> None:
    with socket.socket() as one:
        one.bind((listen, 0))
        one.listen()
        assert host.is_taken(ask, one.getsockname()[1]) is taken


def test_a_port_that_nobody_holds_is_free() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        # Bound, but nobody listens.
        assert not host.is_taken("127.0.0.1", port)


def test_whoever_holds_a_port_is_named() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        assert f"pid={os.getpid()}" in host.holder(one.getsockname()[1])


@pytest.mark.parametrize(("bounding", "expected"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_a_capability_is_looked_up_in_the_bounding_set(bounding: str, expected: bool) -> None:
    assert host.has_capability(host.CAP_SYS_RESOURCE, f"Name:\tsh\nCapBnd:\t{bounding}\n") is expected


@pytest.mark.parametrize("own", [None, "#!/bin/sh\nexit 0\n"])
def test_services_are_held_back_while_packages_are_installed(
    own: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, aside = tmp_path / "policy-rc.d", tmp_path / "aside"
    monkeypatch.setattr(host, "POLICY", policy)
    monkeypatch.setattr(host, "POLICY_ASIDE", aside)
    if own:
        policy.write_text(own)
        policy.chmod(0o755)
    with host.services_held_back():
        assert subprocess.run([policy], check=False).returncode == 101
    assert (policy.read_text() if policy.exists() else None) == own
    assert not aside.exists()


def test_a_policy_that_was_set_aside_by_a_run_that_was_killed_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, aside = tmp_path / "policy-rc.d", tmp_path / "aside"
    monkeypatch.setattr(host, "POLICY", policy)
    monkeypatch.setattr(host, "POLICY_ASIDE", aside)
    policy.write_text(host.DENY)
    aside.write_text("the machine's own")
    with host.services_held_back():
        pass
    assert policy.read_text() == "the machine's own"


def test_an_installed_package_is_not_installed_again() -> None:
    assert host.missing_packages(["dpkg", "no-such-package-anywhere"]) == ["no-such-package-anywhere"]


def test_what_was_written_down_is_read_again_and_kept_for_the_whole_boot(tmp_path: Path) -> None:
    first = ledger.Ledger.begin(tmp_path)
    first.made_shared.append("/somewhere")
    first.write()
    again = ledger.Ledger.begin(tmp_path)
    assert (again.boot, again.made_shared, again.sysctls) == (first.boot, ["/somewhere"], first.sysctls)


def test_settings_of_an_earlier_boot_are_forgotten_but_not_the_directories_it_made(tmp_path: Path) -> None:
    first = ledger.Ledger.begin(tmp_path)
    first.boot, first.sysctls, first.absent_directories = "earlier", {"kernel/panic": "7"}, ["/run/containerd"]
    first.write()
    again = ledger.Ledger.begin(tmp_path)
    assert again.sysctls.get("kernel/panic") == ledger.get("kernel/panic")
    assert "/run/containerd" in again.absent_directories


def test_only_empty_directories_are_removed(tmp_path: Path) -> None:
    (tmp_path / "made" / "empty").mkdir(parents=True)
    (tmp_path / "made" / "full").mkdir()
    (tmp_path / "made" / "full" / "file").touch()
    before = ledger.Ledger(tmp_path / "before.json")
    before.absent_directories = [str(tmp_path / "made")]
    before.remove_directories()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "full", "made"]


def test_a_mount_point_with_a_blank_is_read_as_it_is() -> None:
    assert mounts.plain(r"/mnt/my\040disk") == "/mnt/my disk"


def test_data_of_the_nodes_agents_goes_only_with_the_clusters_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets, disks, foreign = (tmp_path / name for name in ("run", "lib", "foreign"))
    for directory in (sockets, disks, foreign):
        (directory / "inside").mkdir(parents=True)
        (directory / "inside" / "file").touch()
    monkeypatch.setattr(ledger, "AGENT_RUN", (str(sockets), str(foreign)))
    monkeypatch.setattr(ledger, "AGENT_DATA", (str(disks),))
    before = ledger.Ledger(tmp_path / "before.json")
    before.absent_directories = [str(sockets), str(disks)]

    before.remove_agents(keep_data=True)
    assert (sockets.exists(), disks.exists(), foreign.exists()) == (False, True, True)
    before.remove_agents(keep_data=False)
    assert (disks.exists(), foreign.exists()) == (False, True)
