"""The live table of `up` on a terminal of eighty columns."""

from __future__ import annotations

from terminal import Terminal

MESSAGE = (
    "MariaDBReady: MariaDB openstack/mariadb: DeploymentReady: StatefulSet openstack/mariadb: 0 of 1 pods ready: pod "
    "mariadb-0: container mariadb: CrashLoopBackOff: exit code 1: " + "[ERROR] InnoDB: no space left on the device " * 6
)
SCRIPT = f"""
import sys, time
from openstack_operator.embedded import progress
with progress.Progress(sys.stdout) as shown:
    with shown.stage("images") as stage:
        stage.log("unpacking")
    with shown.stage("control plane") as stage:
        stage.log({MESSAGE!r})
        input()
"""


def test_what_a_stage_waits_for_is_told_in_a_few_lines_of_the_terminals_width() -> None:
    with Terminal(["-c", SCRIPT], 80, 24) as terminal:
        lines = terminal.until(lambda found: any("left on the device" in line for line in found))
        assert max(map(len, lines)) <= 80
        text = " ".join(" ".join(line.split()) for line in lines)
        assert "… control plane" in text
        assert "MariaDBReady: MariaDB openstack/mariadb:" in text, "where it begins"
        assert lines[-1].rstrip().endswith("left on the device"), "and where it ends"
        assert len(lines) == 5
        assert terminal.screen.overflows == []
