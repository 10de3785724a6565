"""What a program says under several hash seeds of Python: an order of a set or a dictionary would show."""

from __future__ import annotations

import subprocess
import sys


def answers(program: str, *seeds: str) -> set[str]:
    """What the program prints, each different answer once; one process for each seed."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in seeds
    }
