"""What Tempest said, beside what it is to say: `scripts/tempest.sh` calls it after each run.

`python verdicts.py SET WORKSPACE RESULT DOCS` reads `ids.txt` and `output.txt` of the workspace, compares them with
SET.txt beside this file, puts the set into the JSON file RESULT and the table of all sets into DOCS/reliability.md. The
verdicts of the run are left in the workspace, in the form of SET.txt.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
BEGIN, END = "<!-- tempest: begin -->", "<!-- tempest: end -->"
PAGE = "reliability.md"
SETS = ("smoke", "identity", "image", "network", "compute", "scenario")

_LINE = re.compile(r"^\{\d+\} (.+?)(?: \[[\d.]+s\])? \.\.\. (ok|SKIPPED|FAILED)(?:: (.*))?$", re.MULTILINE)
_CLASS = re.compile(r"^(?:setUpClass|tearDownClass) \((.+)\)$")
_SECONDS = re.compile(r"^Ran: \d+ tests in ([\d.]+) sec", re.MULTILINE)
_VERDICTS = {"ok": "passed", "SKIPPED": "skipped", "FAILED": "failed"}


def expected(listing: str) -> dict[str, str]:
    """Test to verdict, of a file with a verdict and a test on each line and a reason after `#`."""
    rows = (line.split("#")[0].split() for line in listing.splitlines())
    return {row[1]: row[0] for row in rows if len(row) == 2}


def verdicts(output: str, tests: Iterable[str]) -> dict[str, str]:
    """Test to verdict, of what `tempest run` printed; a class that was skipped or failed as a whole counts for each of
    its tests. What did not run is missing."""
    return {test: verdict for test, (verdict, _) in _said(output, tests).items()}


def _said(output: str, tests: Iterable[str]) -> dict[str, tuple[str, str]]:
    """As ``verdicts``, with the reason of each skip."""
    found: dict[str, tuple[str, str]] = {}
    classes: dict[str, tuple[str, str]] = {}
    for name, word, why in _LINE.findall(output):
        whole = _CLASS.match(name)
        if whole:
            classes[whole[1]] = _VERDICTS[word], why
        else:
            found[name.split("[")[0]] = _VERDICTS[word], why
    for test in tests:
        verdict = classes.get(test.rpartition(".")[0])
        if verdict is not None and (verdict[0] == "failed" or test not in found):
            found[test] = verdict
    return found


def listing(output: str, tests: Iterable[str]) -> str:
    """The verdicts as a file of expectations."""
    rows = sorted(_said(output, tests).items())
    return "".join(f"{verdict:7} {test}{f'   # {why}' if why else ''}\n" for test, (verdict, why) in rows)


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """One line for each test that did not do what it should; a test that passes where none was wanted is fine."""
    lines = []
    for test in sorted(wanted.keys() | found.keys()):
        before, after = wanted.get(test, "absent"), found.get(test, "absent")
        if after not in (before, "passed"):
            lines.append(f"{test}: {after}, expected: {before}")
    return lines


def table(sets: Mapping[str, Mapping[str, float]]) -> str:
    """Markdown: a row for each set, in the order of ``SETS``."""
    lines = ["| set | tests | passed | skipped | failed | seconds |", "|---|---|---|---|---|---|"]
    for name in SETS:
        if name in sets:
            one = sets[name]
            total = one["passed"] + one["skipped"] + one["failed"]
            lines.append(
                f"| {name} | {total} | {one['passed']} | {one['skipped']} | {one['failed']} | {one['seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def publish(sets: Mapping[str, Mapping[str, float]], page: Path) -> None:
    """Puts the table between its marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table(sets)}{END}{after}")


def main(name: str, workspace: Path, result: Path, docs: Path) -> int:
    tests = [line.split("[")[0] for line in (workspace / "ids.txt").read_text().splitlines() if "tempest." in line]
    output = (workspace / "output.txt").read_text()
    found = verdicts(output, tests)
    (workspace / f"{name}.txt").write_text(listing(output, tests))
    counts: dict[str, float] = {one: list(found.values()).count(one) for one in _VERDICTS.values()}
    seconds = _SECONDS.search(output)
    counts["seconds"] = float(seconds[1]) if seconds else 0.0
    sets = json.loads(result.read_text()) if result.exists() else {}
    sets[name] = counts
    result.write_text(json.dumps(sets, indent=1, sort_keys=True) + "\n")
    publish(sets, docs / PAGE)
    wanted = HERE / f"{name}.txt"
    wrong = differences(expected(wanted.read_text()), found) if wanted.exists() else [f"there is no {wanted.name}"]
    said = ", ".join(f"{counts[one]} {one}" for one in _VERDICTS.values())
    print("\n".join([*wrong, f"{name}: {said}; {len(wrong)} not as expected"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(Path(argument) for argument in sys.argv[2:5])))
