"""Daemons of ours on this machine: started once, recognised after a crash or a reboot, ended in an orderly way.

Called by `node`. A pid alone proves nothing, since the kernel gives it to somebody else later: the pid file also
holds the process' start time and the boot it belongs to, and a process that does not match all three is never
touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openstack_operator.runtime import errors

PROC = Path("/proc")

# Open files of a daemon and of the pods below it. uWSGI and RabbitMQ allocate for each one that is allowed, and some
# systems allow a billion, so it is pinned (or lower, where the machine's hard limit is).
OPEN_FILES = 65536

# Runs before the daemon, in its process: the pid file exists before the daemon does, whatever becomes of the starter.
RECORD = """\
read -r boot < /proc/sys/kernel/random/boot_id
stat=$(cat /proc/$$/stat); stat=${stat##*) }
set -- "$@"; file=$1; limit=$2; shift 2
started=$(echo "$stat" | cut -d" " -f20)
echo "$$ $started $boot" > "$file.new" && mv "$file.new" "$file"
ulimit -n "$limit" 2>/dev/null || ulimit -n "$(ulimit -Hn)"
exec "$@"
"""


class ProcessError(errors.OperatorError):
    """A daemon does not start or does not end; the message says which and where its log is."""


@dataclass(frozen=True)
class Identity:
    """What makes a process that process: its pid is used again later, and even the start time is after a reboot."""

    pid: int
    started: int
    boot: str


@dataclass(frozen=True)
class Daemons:
    """The daemons whose pid files are in `pids`; their output goes to `logs`/NAME.log."""

    pids: Path
    logs: Path

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> bool:
        """Starts a daemon unless it runs. True when it was started."""
        if self.is_alive(name):
            return False
        self.pids.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        # What an ended one left would be taken for the new one's.
        (self.pids / name).unlink(missing_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            # A session of its own: ^C in the terminal and the end of the terminal do not reach it. And no child of
            # ours: whoever adopts orphans on this machine takes note of its end.
            subprocess.run(
                ["setsid", "--fork", "/bin/sh", "-c", RECORD, name, str(self.pids / name), str(OPEN_FILES), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd="/", check=True,
            )  # fmt: skip
        deadline = time.monotonic() + 5
        while self.identity(name) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return True

    def names(self) -> list[str]:
        """The daemons that have a pid file, alive or not."""
        return sorted(p.name for p in self.pids.iterdir()) if self.pids.is_dir() else []

    def identity(self, name: str) -> Identity | None:
        """What the pid file says, or None where there is none or it is not whole."""
        try:
            pid, started, boot = (self.pids / name).read_text().split()
            return Identity(int(pid), int(started), boot)
        except (OSError, ValueError):
            return None

    def is_alive(self, name: str) -> bool:
        identity = self.identity(name)
        return identity is not None and is_running(identity)

    def pid(self, name: str) -> int | None:
        """The pid of a daemon that runs."""
        identity = self.identity(name)
        return identity.pid if identity and is_running(identity) else None

    def started_at(self, name: str) -> float | None:
        """When a daemon that runs was started, in seconds since the epoch."""
        return (self.pids / name).stat().st_mtime if self.is_alive(name) else None

    def stop(self, *names: str, grace: float = 10) -> None:
        """Ends daemons: all are asked at once, and after `grace` seconds those that are left are killed."""
        for name in names:
            self._signal(name, signal.SIGTERM)
        self._wait(names, grace)
        for name in names:
            self._signal(name, signal.SIGKILL)
        left = self._wait(names, 5)
        if left:
            raise ProcessError(f"these do not end even when killed: {', '.join(left)}")
        for name in names:
            (self.pids / name).unlink(missing_ok=True)

    def log_tail(self, name: str, lines: int = 12) -> str:
        path = self.logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def _signal(self, name: str, number: signal.Signals) -> None:
        identity = self.identity(name)
        if identity is not None:
            kill(identity, number)

    def _wait(self, names: Sequence[str], seconds: float) -> list[str]:
        deadline = time.monotonic() + seconds
        while left := [name for name in names if self.is_alive(name)]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return left


def is_running(identity: Identity) -> bool:
    """Whether that very process runs; a zombie does not."""
    if identity.boot != boot():
        return False
    found = start_time(identity.pid)
    return found is not None and found == identity.started


def kill(identity: Identity, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to that very process, if it runs."""
    if is_running(identity):
        # It may end between the look and the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)


def kill_descendants() -> None:
    """Ends the programs that this process started and that belong to its session: builders, not daemons."""
    session, parents = os.getsid(0), {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            fields = stat_fields(int(entry.name))
            if fields is not None and int(fields[3]) == session:
                parents[int(entry.name)] = int(fields[1])
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    for pid in family - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def boot() -> str:
    """A name for the time since the machine was started."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None where it does not run or is a zombie."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat from the third field on: state, parent, group, session, …"""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses and may hold blanks and parentheses itself.
    return stat.rpartition(")")[2].split()
