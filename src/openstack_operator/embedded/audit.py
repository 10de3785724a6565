"""The audit log of a kube-apiserver, read over its rotations.

An apiserver renames a log that has grown to its limit (`audit-2026-11-29T23-19-36.123.log` beside `audit.log`) and
begins another. A place in the log is therefore a file and an offset in it: a size alone lies beyond the end of the
new file. For tests and `bench/`, which ask what was requested since a moment.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from openstack_operator.runtime import errors


class AuditError(errors.OperatorError):
    """The log no longer holds what was asked for."""


class Place(NamedTuple):
    """Between two events of the log."""

    inode: int
    """The file's, which stays when it is renamed."""
    offset: int
    """Bytes from its beginning."""


def end(log: Path) -> Place:
    """The place after the last event. Raises FileNotFoundError without a log."""
    stat = log.stat()
    return Place(stat.st_ino, stat.st_size)


def events(log: Path, since: Place | None = None) -> Iterator[dict[str, Any]]:
    """Events (audit.k8s.io/v1 Event) from a place on, oldest first; without one, all that the log and its rotated
    files hold. Raises AuditError where the file of the place was removed by further rotations."""
    with contextlib.ExitStack() as stack:
        files: dict[int, IO[bytes]] = {}
        # Newest first, each opened at once and kept once: one that is renamed meanwhile is not missed.
        for path in (log, *sorted(log.parent.glob(f"{log.stem}-*{log.suffix}"), reverse=True)):
            file = stack.enter_context(path.open("rb"))
            files.setdefault(os.fstat(file.fileno()).st_ino, file)
            if since is not None and since.inode in files:
                break
        if since is not None:
            if since.inode not in files:
                raise AuditError(f"{log}: rotated so often that its events from the place asked for on are gone")
            files[since.inode].seek(since.offset)
        for lines in reversed(files.values()):
            # The last line may be half written.
            yield from (json.loads(line) for line in lines if line.endswith(b"\n"))
