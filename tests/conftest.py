"""Fixtures for every test that needs a real kube-apiserver: one for the whole run, one namespace for each test.

The programs come from OPENSTACK_OPERATOR_KUBERNETES_BIN (a directory) or are built once into the cache.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openstack_operator.embedded import apiserver as apiserver_module
from openstack_operator.embedded import paths, programs

# For what several folders of tests import: watching.py.
sys.path.insert(0, str(Path(__file__).parent))

ControlPlane = apiserver_module.ControlPlane


@pytest.fixture(scope="session")
def kubernetes_programs() -> Path:
    """The directory of etcd, kube-apiserver, kube-controller-manager and kubectl."""
    given = os.environ.get("OPENSTACK_OPERATOR_KUBERNETES_BIN")
    return Path(given) if given else programs.ensure(paths.default().cache, needed=programs.CONTROL)


@pytest.fixture(scope="session")
def apiserver(kubernetes_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, shared by the whole run. Do not break it: a test of faults takes `own_apiserver`."""
    with ControlPlane(kubernetes_programs, tmp_path_factory.mktemp("apiserver")) as control_plane:
        yield control_plane


@pytest.fixture
def own_apiserver(kubernetes_programs: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """An apiserver of the test's own, to be killed, paused and restarted. Costs about four seconds."""
    with ControlPlane(kubernetes_programs, tmp_path / "apiserver") as control_plane:
        yield control_plane


@pytest.fixture
def make_namespace(apiserver: ControlPlane) -> Callable[[], str]:
    """Makes further namespaces of the test's own."""

    def make() -> str:
        name = f"test-{uuid.uuid4().hex[:12]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        apiserver.request("POST", "/api/v1/namespaces", body)
        return name

    return make


@pytest.fixture
def namespace(make_namespace: Callable[[], str]) -> str:
    """A fresh namespace. Nobody deletes it: no controller would finish that, and the whole store is thrown away."""
    return make_namespace()
