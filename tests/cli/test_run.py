"""The operator as a process: what it does when it may not lead any longer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.embedded.apiserver import ControlPlane

ARGUMENTS = ("--controllers=memcached", "--health-port=0", "--metrics-port=0")
LEASE = "openstack-operator-memcached"
IDENTITY = "the-pod"


@contextlib.contextmanager
def operator(apiserver: ControlPlane, namespace: str, where: Path, module: str) -> Iterator[subprocess.Popen[str]]:
    """One whose Lease is in this namespace; what it logs can be read."""
    config = yaml.safe_load(apiserver.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig = where / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    with subprocess.Popen(
        [sys.executable, "-u", "-m", *module.split(), *ARGUMENTS, f"--kubeconfig={kubeconfig}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "POD_NAME": IDENTITY},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """The next line of the log about this. The test's own time limit is that of the whole run: it ends at the log's
    end."""
    seen = []
    for line in process.stdout or ():
        seen.append(line)
        if line.startswith("{") and (found := json.loads(line))["event"] == event:
            return dict(found)
    raise AssertionError(f"never said {event!r}: {''.join(seen)}")


# As its pod starts it, and as a person does.
@pytest.mark.parametrize("module", ["openstack_operator.cli.run", "openstack_operator run"])
def test_an_operator_that_lost_its_lease_begins_anew_in_its_process(
    apiserver: ControlPlane, namespace: str, tmp_path: Path, module: str
) -> None:
    """kubelet would wait longer each time before it started its container again."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
    with operator(apiserver, namespace, tmp_path, module) as process:
        until(process, "leading")
        assert apiserver.request("GET", path)["spec"]["holderIdentity"] == IDENTITY
        other = {"spec": {"holderIdentity": "another"}}
        apiserver.request("PATCH", path, other, content_type="application/merge-patch+json")
        assert until(process, "begins anew")["problem"] == f"lease {LEASE} was taken by another replica"
        until(process, "starting")
        assert apiserver.request("GET", path)["spec"]["holderIdentity"] == "another"
        apiserver.request("DELETE", path)
        until(process, "leading")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert apiserver.request("GET", path)["spec"]["holderIdentity"] == ""
