"""An operator as a process of its own: its start, its end, and what it uses.

Called by the scenarios.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from openstack_operator.cli import generate

SOURCE = Path(generate.__file__).parents[2]

# As in the operator's pod. Go does not use this allocator, and kopf gains by it.
ENVIRONMENT = {**generate.MALLOC, "PYTHONPATH": str(SOURCE)}

QUIET_SECONDS = 2.0
QUIET_CPU_SECONDS = 0.04
"""A Lease and a few timers go on in a process that has nothing to do."""


class Process:
    """A context manager that ends the process with SIGTERM."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command, self._log = command, log
        self._environment = {**os.environ, **ENVIRONMENT, **(environment or {})}

    async def __aenter__(self) -> Process:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    @property
    def _files(self) -> Path:
        return Path(f"/proc/{self._process.pid}")

    def check(self) -> None:
        """Raises when it has ended, with the end of its log."""
        if self._process.returncode is not None:
            text = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.returncode}: {text}")

    def cpu(self) -> float:
        """Seconds of CPU time until now."""
        self.check()
        fields = (self._files / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Megabytes that are resident."""
        return self._status("VmRSS")

    def peak(self) -> float:
        """Megabytes that were resident at most."""
        return self._status("VmHWM")

    def _status(self, field: str) -> float:
        self.check()
        for line in (self._files / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return round(int(value.split()[0]) * 1024 / 1e6, 1)
        raise RuntimeError(f"no {field}")

    async def quiet(self, position: Callable[[], int], limit: float = 900) -> None:
        """Returns when it has nothing left to do: hardly any CPU time for a while. ``position`` (of the audit log) only
        tells that the cluster is quiet as well."""
        deadline = time.monotonic() + limit
        while True:
            cpu, place = self.cpu(), position()
            await asyncio.sleep(QUIET_SECONDS)
            # A Lease writes a few lines.
            if self.cpu() - cpu <= QUIET_CPU_SECONDS and position() - place < 20_000:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._command[0]} is never quiet")
