"""Fixtures of the end-to-end tests: the cloud of `./up`, and a small cloud that tests may break.

The session runs `./up` first, which is quick where a cloud is up. With OPENSTACK_OPERATOR_E2E_AS_IS=1 it takes the
cloud as it stands: for work on the tests. OPENSTACK_OPERATOR_E2E_RELEASE names another OpenStack release than the
default one; `make e2e RELEASE=...` sets it. Whatever fails is followed by the state of the clouds at that moment.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import clouds  # the path is set above
import session
from clusters import Cluster, ClusterError
from machine import Start

from openstack_operator.embedded import paths

HERE = Path(__file__).parent
FAULTS = HERE.with_name("faults")
SMALL_NAMESPACE = "e2e-small"

# The cheap and harmless first, what breaks things later, what takes everything away at the very end.
ORDER = (
    "cloud",
    "kubectl",
    "questions",
    "field_cases",
    "hygiene",
    "network_policies",
    "bad_input",
    "status",
    "cells",
    "repair",
    FAULTS.name,
    "delete",
    "aftermath",
    "down",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    session.mark(item)


def pytest_sessionfinish() -> None:
    session.finish()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End-to-end tests run after all others, in an order of their own."""

    def rank(item: pytest.Item) -> int:
        if item.path.parent == FAULTS:
            return ORDER.index(FAULTS.name)
        if item.path.parent != HERE:
            return -1
        return ORDER.index(item.path.stem.removeprefix("test_"))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def start() -> Start:
    """The cloud is up."""
    return session.start()


@pytest.fixture(scope="session")
def cluster(start: Start) -> Cluster:
    return session.cluster()


@pytest.fixture(scope="session")
def cloud(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> clouds.Cloud:
    """The cloud of `./up`, Ready, with a connection from outside the cluster. Do not break it."""
    return session.cloud(tmp_path_factory.mktemp("openstack"))


@pytest.fixture(scope="session")
def small_cloud(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[clouds.Cloud]:
    """A cloud with an identity service only, whose passwords the user brought. Tests may break it, if they mend it
    again."""
    found = clouds.Cloud(cluster, SMALL_NAMESPACE, "small")
    namespace, control_plane = clouds.small(
        cluster,
        SMALL_NAMESPACE,
        keystone={
            "adminPasswordSecretRef": {"name": "brought", "key": "admin"},
            "credentials": {"database": {"name": "brought", "key": "database"}},
        },
    )
    cluster.apply(namespace, clouds.secret(SMALL_NAMESPACE, "brought", **clouds.BROUGHT), control_plane)
    found.until_ready()
    found.log_in(tmp_path_factory.mktemp("small"))
    yield found
    # The very last test takes the whole cluster down.
    if paths.default().kubeconfig.exists():
        clouds.remove_namespace(cluster, SMALL_NAMESPACE)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own, without a control plane."""
    name = f"e2e-{uuid.uuid4().hex[:12]}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    clouds.remove_namespace(cluster, name, wait=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """A failure tells what the clouds wait for."""
    report = yield
    if report.failed and item.path.parent == HERE:
        arguments = getattr(item, "funcargs", {})
        where = arguments.get("cluster") or next(
            (one.cluster for one in arguments.values() if isinstance(one, clouds.Cloud)), None
        )
        names = {one.namespace for one in arguments.values() if isinstance(one, clouds.Cloud)}
        names |= {arguments["namespace"]} if "namespace" in arguments else set()
        tell: Callable[[str, str], None] = lambda title, text: report.sections.append((title, text))  # noqa: E731
        for name in sorted(names):
            with contextlib.suppress(ClusterError, subprocess.TimeoutExpired):
                tell(f"state of namespace {name}", where.diagnosis(name))
        if where is not None:
            with contextlib.suppress(ClusterError, subprocess.TimeoutExpired):
                tell("operator's log", where.operator_log())
    return report
