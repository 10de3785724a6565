"""What the check of configuration text costs: a text of 2,000 lines, the start of `lint`, memory with all catalogues.

    python bench/config_check.py

Aims: 10 ms for the text after the first, 0.3 s from start to verdict.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    release = catalogues.index().default_release
    wanted = text()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = custom_config.check(wanted, "nova", release)
        times.append(time.perf_counter() - start)
    middle = sorted(times)[ROUNDS // 2] * 1e3
    print(f"check of {len(wanted.splitlines())} lines: median {middle:.1f} ms, {len(found)} findings")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nova.conf"
        file.write_text("[libvirt]\ncpu_modell = x\n")
        command = [sys.executable, "-m", "openstack_operator", "lint", str(file)]
        starts = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            starts.append(time.perf_counter() - start)
    print(f"lint, start to verdict: best {min(starts):.2f} s")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for one in catalogues.services(release):
        catalogues.load(one, release)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"memory of all catalogues of {release}: {(after - before) / 1024:.1f} MB over {before / 1024:.1f} MB")


if __name__ == "__main__":
    main()
