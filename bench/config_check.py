"""What the check of configuration text costs: a text of 2,000 lines, the start of `lint`, memory with all catalogues.

    python bench/config_check.py

Aims: 10 ms for the text after the first, 0.3 s from start to verdict.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report
from openstack_operator.kit import catalogues, custom_config

ROUNDS = 30


def text() -> str:
    """2,000 lines of options of Nova with their own defaults."""
    nova = catalogues.load("nova", catalogues.index().default_release)
    assert nova is not None
    lines: list[str] = []
    for section, name, option in nova:
        value = (option.default or ("",))[0]
        if "$" not in value and not option.sample:
            lines += [f"[{section}]", f"{name} = {value}"]
    return "\n".join(lines[:2000])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    report.add_options(options)
    arguments = options.parse_args()
    release = catalogues.index().default_release
    wanted = text()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = custom_config.check(wanted, "nova", release)
        times.append(time.perf_counter() - start)
    middle = sorted(times)[ROUNDS // 2] * 1e3
    lines = len(wanted.splitlines())

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nova.conf"
        file.write_text("[libvirt]\ncpu_modell = x\n")
        command = [sys.executable, "-m", "openstack_operator", "lint", str(file)]
        starts = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            starts.append(time.perf_counter() - start)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for one in catalogues.services(release):
        catalogues.load(one, release)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = {
        "lines": lines,
        "findings": len(found),
        "check ms": round(middle, 1),
        "lint s": round(min(starts), 2),
        "catalogues MB": round((after - before) / 1024, 1),
    }
    rows = [
        [f"a text of {lines} lines, {len(found)} findings; median of {ROUNDS} after the first", f"{middle:.1f} ms"],
        ["`lint` from start to verdict, best of five", f"{min(starts):.2f} s"],
        [f"memory of all catalogues of {release}", f"{(after - before) / 1024:.1f} MB"],
    ]
    report.publish(arguments, "config-check", result, report.table(("what", "figure"), rows))


if __name__ == "__main__":
    main()
