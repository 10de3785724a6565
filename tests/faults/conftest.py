"""Fixtures of the faults: one scene for the session, on the cloud of `./up`.

Without more, only the faults that are marked `chosen` run, once each: they are a part of `./test`. With
OPENSTACK_OPERATOR_FAULTS=all (`make faults`) all of them run, each repeated; OPENSTACK_OPERATOR_FAULTS_RESULT names a
file for what was seen. Runs where end-to-end tests run, after what breaks nothing (`e2e/conftest.py`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parent))

import clouds  # the paths are set above
import guests
import records
import scene as scenes
import session

HERE = Path(__file__).parent
RESULT = "OPENSTACK_OPERATOR_FAULTS_RESULT"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the faults as end-to-end tests, and leaves out those that were not asked for."""
    left, out = [], []
    for item in items:
        if item.path.parent != HERE:
            left.append(item)
            continue
        item.add_marker(pytest.mark.e2e)
        for category in ("DeprecationWarning", "PendingDeprecationWarning", "ResourceWarning", "FutureWarning"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"))
        is_wanted = scenes.repeats_all() or item.get_closest_marker("chosen") is not None
        (left if is_wanted else out).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = left


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> clouds.Cloud:
    session.start()
    return session.cloud(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def scene(cloud: clouds.Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[scenes.Scene]:
    """The cloud with a VM and its observers."""
    found = scenes.Scene(cloud, guests.make_key(tmp_path_factory.mktemp("key")), is_repeated=scenes.repeats_all())
    found.start()
    yield found
    found.end()
    if path := os.environ.get(RESULT):
        records.write(Path(path), _machine(), found.records)
    found.guest.connection = found.connect()
    found.guest.delete()


def _machine() -> dict[str, Any]:
    import bring_up  # the benchmarks say in the same words what they ran on

    return bring_up.machine() | {"release": clouds.RELEASE}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """A failure tells what the cloud waits for."""
    report = yield
    found = getattr(item, "funcargs", {}).get("scene")
    if report.failed and item.path.parent == HERE and isinstance(found, scenes.Scene):
        with contextlib.suppress(AssertionError, OSError):
            report.sections.append(("state of the cloud", found.cluster.diagnosis(found.namespace)))
        report.sections.append(("what status said", "\n".join(map(str, found.blame.said[-5:]))))
    return report
