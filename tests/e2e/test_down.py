"""`./down` leaves the machine as it was before `./up` (acceptance 7). The very last test: it takes the cloud away.

Runs where this session started the cloud, since only then the machine was seen before. A cloud that was there already
is somebody's; OPENSTACK_OPERATOR_E2E_DOWN=1 says that it may go, and then only what is ours is looked for.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from machine import Snapshot, Start

from openstack_operator.embedded import paths

ROOT = Path(__file__).parents[2]


def _run(*command: str) -> str:
    done = subprocess.run(
        [str(ROOT / command[0]), *command[1:]], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_down_leaves_the_machine_as_it_was_and_up_works_again(start: Start) -> None:
    if not start.may_go:
        pytest.skip("the cloud was up before the tests")
    where = paths.default()
    _run("down")
    assert not where.state.exists()
    after_first = Snapshot.take(where)
    if not start.was_up:
        assert start.before.differences(after_first) == []
    _run("up", "--until", "cluster")
    assert where.kubeconfig.exists()
    _run("down")
    assert after_first.differences(Snapshot.take(where)) == []
    assert Snapshot.take(where).processes == after_first.processes
