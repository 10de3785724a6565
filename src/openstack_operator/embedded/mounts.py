"""What is mounted where, read from the kernel's own table.

Called by `host`, `ledger` and `node`. `os.path.ismount` does not see a bind mount within one file system, which is what
ours mostly are.
"""

from __future__ import annotations

import re
from pathlib import Path

from openstack_operator.embedded import network


def below(*roots: Path) -> list[str]:
    """The mount points at and below some directories, in the order they were made."""
    found = []
    for line in table().splitlines():
        point = plain(line.split()[4])
        if any(point == str(root) or point.startswith(f"{root}/") for root in roots):
            found.append(point)
    return found


def is_mounted(point: Path) -> bool:
    return str(point) in below(point)


def unmount(*roots: Path) -> None:
    """Unmounts everything at and below some directories, the last mounted first."""
    for point in reversed(below(*roots)):
        network.run_if_possible("umount", "-l", point)


def point_of(path: Path) -> str:
    """The mount point that a path lies below."""
    points = [plain(line.split()[4]) for line in table().splitlines()]
    return max((p for p in points if path.is_relative_to(p)), key=len)


def is_shared(point: str) -> bool:
    """Whether what is mounted below a mount point appears in the other mount namespaces that have it."""
    shared = False
    for line in table().splitlines():
        fields = line.split()
        if plain(fields[4]) == point:
            # From the seventh field to the hyphen: optional fields such as shared:1. The last mount is the visible one.
            shared = any(f.startswith("shared:") for f in fields[6 : fields.index("-")])
    return shared


def table() -> str:
    return Path("/proc/self/mountinfo").read_text()


def plain(escaped: str) -> str:
    """A path as the kernel writes it, with blanks as \\040, in plain text."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), escaped)
