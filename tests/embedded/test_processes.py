"""Daemons are recognised by more than their pid, and nothing that is not ours is ever ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from openstack_operator.embedded import processes


@pytest.fixture
def daemons(tmp_path: Path) -> processes.Daemons:
    return processes.Daemons(tmp_path / "pid", tmp_path / "log")


def test_a_daemon_is_started_once_and_ends_when_it_is_asked_to(daemons: processes.Daemons) -> None:
    assert daemons.start("sleeper", ["sleep", "60"])
    first = daemons.pid("sleeper")
    assert not daemons.start("sleeper", ["sleep", "60"])
    assert daemons.pid("sleeper") == first
    daemons.stop("sleeper")
    assert daemons.names() == []
    assert not daemons.is_alive("sleeper")


def test_a_daemon_that_ignores_sigterm_is_killed(daemons: processes.Daemons) -> None:
    daemons.start("deaf", ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
    deadline = time.monotonic() + 5
    while daemons.log_tail("deaf") != "ready" and time.monotonic() < deadline:
        time.sleep(0.01)
    daemons.stop("deaf", grace=0.2)
    assert not daemons.is_alive("deaf")


def test_a_daemon_runs_in_a_session_of_its_own_and_outlives_an_interrupt(daemons: processes.Daemons) -> None:
    daemons.start("sleeper", ["sleep", "60"])
    pid = daemons.pid("sleeper")
    assert pid is not None
    try:
        assert os.getsid(pid) != os.getsid(0)
        processes.kill_descendants()
        time.sleep(0.1)
        assert daemons.is_alive("sleeper")
    finally:
        daemons.stop("sleeper")


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param("{pid} 1 {boot}", id="the pid went to a process that started at another time"),
        pytest.param("{pid} {started} 00000000-0000-0000-0000-000000000000", id="the pid file is older than the boot"),
        pytest.param("{pid}", id="the pid file is not whole"),
        pytest.param("", id="the pid file is empty"),
    ],
)
def test_a_process_that_only_has_the_pid_of_a_daemon_is_left_alone(daemons: processes.Daemons, forged: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as foreign:
        started = processes.start_time(foreign.pid)
        daemons.pids.mkdir()
        (daemons.pids / "etcd").write_text(forged.format(pid=foreign.pid, started=started, boot=processes.boot()))
        assert not daemons.is_alive("etcd")
        daemons.stop("etcd")
        assert foreign.poll() is None
        foreign.kill()


def test_a_zombie_does_not_count_as_running() -> None:
    with subprocess.Popen(["true"]) as child:
        deadline = time.monotonic() + 5
        while processes.start_time(child.pid) is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes.start_time(child.pid) is None


def test_a_new_daemon_is_not_taken_for_the_one_that_was_killed(daemons: processes.Daemons) -> None:
    daemons.start("sleeper", ["sleep", "60"])
    killed = daemons.pid("sleeper")
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    while processes.start_time(killed) is not None:
        time.sleep(0.01)
    assert daemons.start("sleeper", ["sleep", "60"])
    try:
        assert daemons.is_alive("sleeper")
        assert daemons.pid("sleeper") != killed
    finally:
        daemons.stop("sleeper")


def test_open_files_are_limited_for_daemons(daemons: processes.Daemons) -> None:
    daemons.start("limits", ["/bin/sh", "-c", "ulimit -n"])
    deadline = time.monotonic() + 5
    while not daemons.log_tail("limits") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert int(daemons.log_tail("limits")) <= processes.OPEN_FILES
