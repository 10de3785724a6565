"""What was seen of each fault, as JSON and as the table in docs/reliability.md.

`python tests/faults/records.py RESULT.json docs` writes the table again from a result. A run of some faults takes the
place of what an earlier one saw of the same ones, and leaves the rest of its result.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
PAGE = "reliability.md"
GROUPS = ("operator", "infrastructure", "node", "hands", "inputs", "rollouts")
LONGEST = 110


@dataclasses.dataclass(frozen=True)
class Record:
    """One fault, once. Times in seconds."""

    group: str
    name: str
    blamed: float | None
    """From the fault to the first `status` that named it; None where it was over before, or nothing was to be told."""
    told: str
    """That line."""
    lasted: float
    """How long it was kept up; 0 for what happens once."""
    recovery: float
    """From the fault's end until everything was well again."""
    failed: dict[str, int]
    """Failed requests by service, until everything was well."""
    problems: list[str]
    """What they failed with."""
    lost: int
    """Echoes without an answer, of ten a second."""
    silence: float
    """The longest time without an answer."""
    pods: int
    """Pods of the cloud that are others now, or started again."""
    ended: list[str] = dataclasses.field(default_factory=list)
    """Last words of containers that ended meanwhile and were started again in the same pod."""
    revision: str = ""
    """Of the code on which it was seen."""


class Kept(list[Record]):
    """Records that are in a file as soon as they are made: a run of hours may be cut off."""

    def __init__(self, path: Path | None, machine: dict[str, Any]) -> None:
        super().__init__()
        self._path, self._machine = path, machine
        there = json.loads(path.read_text())["faults"] if path is not None and path.exists() else []
        self._earlier = [Record(**one) for one in there]

    def append(self, record: Record) -> None:
        super().append(dataclasses.replace(record, revision=self._machine["revision"]))
        self.write()

    def write(self) -> None:
        """The JSON result, of this run and of what an earlier one saw besides."""
        if self._path is None:
            return
        seen = {(one.group, one.name) for one in self}
        found = [*(one for one in self._earlier if (one.group, one.name) not in seen), *self]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        result = {"machine": self._machine, "faults": [dataclasses.asdict(one) for one in found]}
        self._path.write_text(json.dumps(result, indent=1) + "\n")


def table(found: Sequence[Record]) -> str:
    """Markdown: a row for each fault, of several times the median, and the worst of what was lost."""
    lines = [
        "| fault | times | named after | `status` says | back after | failed requests | VM silent | pods replaced |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in GROUPS:
        names = list(dict.fromkeys(one.name for one in found if one.group == group))
        if names:
            lines.append(f"| **{group}** | | | | | | | |")
        lines += [_row([one for one in found if (one.group, one.name) == (group, name)]) for name in names]
    return "\n".join(lines) + "\n"


def _row(times: Sequence[Record]) -> str:
    blamed = [one.blamed for one in times if one.blamed is not None]
    told = next((one.told for one in times if one.told), "")
    lasted = max(one.lasted for one in times)
    worst = max(times, key=lambda one: sum(one.failed.values()))
    failed = ", ".join(f"{service} {count}" for service, count in worst.failed.items()) or "0"
    cells = [
        times[0].name + (f", for {lasted:.0f} s" if lasted else ""),
        str(len(times)),
        f"{statistics.median(blamed):.1f} s" if blamed else "-",
        _text(told) or "-",
        f"{statistics.median(one.recovery for one in times):.1f} s",
        failed,
        f"{max(one.silence for one in times):.1f} s",
        str(max(one.pods for one in times)),
    ]
    return f"| {' | '.join(cells)} |"


def _text(line: str) -> str:
    line = line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
    return line.replace("|", "\\|").replace("<", "&lt;")


def section(result: dict[str, Any]) -> str:
    """What goes between the marks."""
    machine = result["machine"]
    found = [Record(**one) for one in result["faults"]]
    revisions = list(dict.fromkeys(one.revision for one in found)) or [machine["revision"]]
    noun = "revision" if len(revisions) == 1 else "revisions"
    return f"""\
{BEGIN}
{machine["date"]}, {machine["processors"]}, {machine["memory"]}, Linux {machine["kernel"]}; OpenStack
{machine["release"]}, {noun} {", ".join(revisions)}. {len(found)} faults.

{table(found)}{END}
"""


def publish(result: dict[str, Any], docs: Path) -> None:
    """Puts the table into the documentation."""
    page = docs / PAGE
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + section(result) + after.lstrip("\n"))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
