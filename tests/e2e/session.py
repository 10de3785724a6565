"""What one run of pytest shares: the cloud of `./up`, brought up once, whoever asks first. For the fixtures of `e2e`
and `faults`.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import clouds
import pytest
from clusters import Cluster
from machine import Snapshot, Start

from openstack_operator.embedded import paths

ROOT = Path(__file__).parents[2]
AS_IS = "OPENSTACK_OPERATOR_E2E_AS_IS"
UP_SECONDS = 1800


def mark(item: pytest.Item) -> None:
    """Says that a test is an end-to-end test. While it is collected: `-m` has chosen by the marks when all are."""
    item.add_marker(pytest.mark.e2e)
    # The client libraries warn about each other; what our own code warns about is an error elsewhere.
    for category in ("DeprecationWarning", "PendingDeprecationWarning", "ResourceWarning", "FutureWarning"):
        item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"))


def takes_it_as_it_is() -> bool:
    """For work on the tests: no `./up`, and the cloud need not be Ready."""
    return bool(os.environ.get(AS_IS))


@functools.cache
def start() -> Start:
    """Runs `./up`, which is quick where a cloud is up, and says how the machine was before."""
    where = paths.default()
    was_up = where.kubeconfig.exists()
    before = Snapshot.take(where)
    if was_up and takes_it_as_it_is():
        return Start(before, was_up, "")
    done = up("--release", clouds.RELEASE)
    assert done.returncode == 0, f"./up: exit code {done.returncode}: {done.stdout[-3000:]}"
    return Start(before, was_up, done.stdout)


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `./up` and prints what it says."""
    done = subprocess.run(
        [str(ROOT / "up"), *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        stdin=subprocess.DEVNULL, timeout=UP_SECONDS,
    )  # fmt: skip
    print(done.stdout)
    return done


def cluster() -> Cluster:
    where = paths.default()
    return Cluster(kubectl_program=where.tools / "kubectl", kubeconfig=where.kubeconfig, state=where.state)


def cloud(directory: Path) -> clouds.Cloud:
    """The cloud of `./up`, Ready, with a connection from outside the cluster."""
    found = clouds.Cloud(cluster(), "openstack")
    if not takes_it_as_it_is():
        found.until_ready()
    found.log_in(directory)
    return found
