"""From the verdicts of Nova's upgrade check to a condition."""

from __future__ import annotations

import pytest

from openstack_operator.runtime.conditions import Outcome
from openstack_operator.services.nova import upgrade_check

CELLS = ["Cells v2", "Success", ""]
POLICY = ["Policy File JSON to YAML Migration", "Warning", "Your policy file is JSON.\nUse the tool."]
TOKEN = ["Service User Token Configuration", "Failure", "\nService user token configuration is required."]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([CELLS], Outcome("True", "Success", "passed: Cells v2")),
        (
            [CELLS, POLICY],
            Outcome(
                "True",
                "Warning",
                "Policy File JSON to YAML Migration: Your policy file is JSON. Use the tool.; passed: Cells v2",
            ),
        ),
        (
            [POLICY, TOKEN],
            Outcome(
                "False",
                "Failure",
                "Service User Token Configuration: Service user token configuration is required.; "
                "Policy File JSON to YAML Migration: Your policy file is JSON. Use the tool.",
            ),
        ),
    ],
    ids=["all passed", "a warning passes", "a failure does not"],
)
def test_the_worst_verdict_decides_and_bad_ones_come_first(found: list[list[str]], wanted: Outcome) -> None:
    assert upgrade_check.outcome(found) == wanted
