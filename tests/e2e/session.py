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
from clusters import Cluster, ClusterError
from machine import Snapshot, Start

from openstack_operator.embedded import paths

ROOT = Path(__file__).parents[2]
AS_IS = "OPENSTACK_OPERATOR_E2E_AS_IS"
UP_SECONDS = 1800

POLICY = "e2e-no-schedules"
HELD = (
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
                ]
            },
            "validations": [
                {
                    "expression": "object.metadata.?ownerReferences.orValue([]).all(one, one.kind != 'CronJob') || "
                    "object.metadata.?annotations['cronjob.kubernetes.io/instantiate'].orValue('') == 'manual'",
                    "message": "nothing runs by schedule while tests run",
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    },
)
"""Keeps the clock out of the tests: a run at seven past three changes a Secret and has a Job, whichever test compares
what there was before with what there is now. What is due runs afterwards; a run by hand runs."""


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
    """Runs `./up`, which is quick where a cloud is up, and says how the machine was before. Nothing runs by schedule
    until `finish`."""
    where = paths.default()
    was_up = where.kubeconfig.exists()
    before = Snapshot.take(where)
    said = ""
    if not (was_up and takes_it_as_it_is()):
        done = up("--release", clouds.RELEASE)
        assert done.returncode == 0, f"./up: exit code {done.returncode}: {done.stdout[-3000:]}"
        said = done.stdout
    cluster().apply(*HELD)
    return Start(before, was_up, said)


def finish() -> None:
    """Schedules are in force again, where tests have held them and the cluster is still there."""
    if start.cache_info().currsize and paths.default().kubeconfig.exists():
        start.cache_clear()
        kinds = ",".join(one["kind"].lower() for one in HELD)
        try:
            cluster().kubectl("delete", kinds, POLICY, "--ignore-not-found")
        except ClusterError as error:
            # A failure here would hide what the tests have said.
            print(f"what is due by schedule does not run: {error}; kubectl delete {kinds} {POLICY}")


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
