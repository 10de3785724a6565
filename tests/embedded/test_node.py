"""A real node from nothing to nothing: refused, started, killed, started again, removed without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("node_in_namespace.py")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script told; see there."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    command = ["unshare", "--net", "--mount", sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("node"))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told.update(json.loads(line))
    return told


def test_a_port_of_somebody_else_is_named_and_nothing_is_changed(facts: dict[str, Any]) -> None:
    (line,) = facts["refused"]
    assert line.startswith("  - port 127.0.0.1:10259, needed by kube-scheduler, is taken by ")
    assert facts["changed by a refusal"] == []


def test_a_second_start_changes_nothing(facts: dict[str, Any]) -> None:
    assert facts["daemons"] == [
        "containerd",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubelet",
        "provisioner",
    ]
    assert facts["same after a second start"] is True


def test_after_everything_was_killed_the_same_pods_come_back(facts: dict[str, Any]) -> None:
    assert facts["restarts of pods after everything was killed"] == [1, 1]


def test_guests_end_with_the_cluster(facts: dict[str, Any]) -> None:
    assert facts["guest"] == -9


def test_nothing_is_left_afterwards(facts: dict[str, Any]) -> None:
    assert facts["left"] == {}
    assert facts["state is there"] is False
