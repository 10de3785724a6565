"""What was seen of each fault, as JSON and as the table in docs/reliability.md.

`python tests/faults/records.py RESULT.json docs` writes the table again from a result. A run of some faults takes the
place of what an earlier one saw of the same ones, and leaves the rest of its result.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import demands

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
HELD_BEGIN, HELD_END = "<!-- held: begin -->", "<!-- held: end -->"
HELD = "What was not well last, and until when, of the slowest time of each that took so long:"
LATER_BEGIN, LATER_END = "<!-- later: begin -->", "<!-- later: end -->"
PAGE = "reliability.md"
GROUPS = ("operator", "infrastructure", "node", "hands", "inputs", "rollouts")
CLOUD, SMALL, ROLLED = "cloud", "small", "rolled"
"""Stages: the cloud of `./up` with a VM and a client of each API; a small cloud with a client of Keystone and no VM;
one that is rolled out again and again, without clients, a VM, and a reader of `status`."""
LONGEST, WIDTH = 110, 120
LONG_SECONDS = 30.0
"""What takes longer to be back is shown with what held it up."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One fault, once. Times in seconds; None for what was not measured."""

    group: str
    name: str
    stage: str
    blamed: float | None
    """From the fault to the first line of `status` that named it, or to the first of all where none is demanded; None
    where nothing was told."""
    told: str
    """That line."""
    is_named: bool
    """Whether a line that names it is demanded, and was told."""
    lasted: float
    """How long it was kept up; 0 for what happens once."""
    recovery: float
    """From the fault's end until everything was well again."""
    failed: dict[str, int] | None
    """Failed requests by service, until everything was well; services without any are not there."""
    problems: list[str]
    """What they failed with."""
    lost: int | None
    """Echoes without an answer, of ten a second."""
    silence: float | None
    """The longest time without an answer."""
    pods: int | None
    """Pods of the cloud that are others now, or started again."""
    ended: list[str] = dataclasses.field(default_factory=list)
    """Last words of containers that ended meanwhile and were started again in the same pod."""
    revision: str = ""
    """Of the code on which it was seen."""
    counted: str = ""
    """What else was counted, with its number."""
    waited: dict[str, float] = dataclasses.field(default_factory=dict)
    """What was not well last before everything was: how many seconds after the fault's end that was seen."""


def replaced(before: Mapping[str, tuple[str, int]], now: Mapping[str, tuple[str, int]]) -> int:
    """How many of these pods (uid and restarts by name) are others now, or gone, or started again."""
    return sum(now.get(name) != value for name, value in before.items())


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
    """Markdown: a row for each fault, of several times the worst."""
    lines = [
        "| fault | times | named after | `status` says | back after | failed requests | VM silent | pods replaced |",
        "|---|---|---|---|---|---|---|---|",
    ]
    faults = _by_fault(found)
    for group in GROUPS:
        rows = [_row(times) for times in faults if times[0].group == group]
        if rows:
            lines.append(f"| **{group}** | | | | | | | |")
        lines += rows
    return "\n".join(lines) + "\n"


def _by_fault(found: Sequence[Record]) -> list[list[Record]]:
    """The times of each fault, in the order in which the faults came first."""
    times: dict[tuple[str, str], list[Record]] = {}
    for one in found:
        times.setdefault((one.group, one.name), []).append(one)
    return list(times.values())


def _row(times: Sequence[Record]) -> str:
    lasted = max(one.lasted for one in times)
    least = min((one.counted for one in times if one.counted), key=_number, default="")
    latest = max(times, key=lambda one: -1.0 if one.blamed is None else one.blamed)
    told = "-" if latest.blamed is None else f"{latest.blamed:.1f} s"
    failed = [one.failed for one in times if one.failed is not None]
    silence = [one.silence for one in times if one.silence is not None]
    pods = [one.pods for one in times if one.pods is not None]
    cells = [
        times[0].name
        + (f", for {lasted:.0f} s" if lasted else "")
        + (f", {least}" if least else "")
        + (" (small cloud)" if times[0].stage == SMALL else ""),
        str(len(times)),
        f"({told})" if told != "-" and not latest.is_named else told,
        _text(latest.told) or "-",
        f"{max(one.recovery for one in times):.1f} s",
        _failed(max(failed, key=lambda one: sum(one.values()))) if failed else "-",
        f"{max(silence):.1f} s" if silence else "-",
        str(max(pods)) if pods else "-",
    ]
    return f"| {' | '.join(cells)} |"


def _failed(requests: Mapping[str, int]) -> str:
    return ", ".join(f"{service} {count}" for service, count in requests.items()) or "0"


def _number(counted: str) -> int:
    """What "23 kills" begins with."""
    return int(counted.split(maxsplit=1)[0])


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


def held_up(result: dict[str, Any]) -> str:
    """What was not well last, of the slowest time of each fault that took long; goes between marks of its own."""
    faults = _by_fault([Record(**one) for one in result["faults"]])
    slowest = [max(times, key=lambda one: one.recovery) for times in faults]
    lines = []
    for one in sorted(slowest, key=lambda one: -one.recovery):
        if one.recovery > LONG_SECONDS and one.waited:
            what = "; ".join(f"{_text(what)} ({seconds:.0f} s)" for what, seconds in one.waited.items())
            text = f"- {one.name}, {one.recovery:.0f} s: {what}"
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([HELD_BEGIN, *([HELD, "", *lines] if lines else []), HELD_END]) + "\n"


def later() -> str:
    """What is named later than everything else, and why; goes between marks of its own."""
    lines = [LATER_BEGIN]
    for why, faults in demands.LATER.items():
        names = ", ".join(f"{name} (at most {seconds:.0f} s)" for name, seconds in faults.items())
        lines += textwrap.wrap(f"- {names}: {why}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, LATER_END]) + "\n"


def published(page: str, result: dict[str, Any]) -> str:
    """The page with the table of a result, what held up the slow ones, and what is demanded now."""
    parts = (BEGIN, END, section(result)), (HELD_BEGIN, HELD_END, held_up(result)), (LATER_BEGIN, LATER_END, later())
    for begin, end, text in parts:
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = before + text + after.removeprefix("\n")
    return page


def publish(result: dict[str, Any], docs: Path) -> None:
    """Puts all of it into the documentation."""
    page = docs / PAGE
    page.write_text(published(page.read_text(), result))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
