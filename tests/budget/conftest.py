"""Where the tests of budgets find the toys, and what plays the node."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("tests/budget", "tests/runtime", "bench"):
    sys.path.insert(0, str(Path(__file__).parents[2] / folder))
