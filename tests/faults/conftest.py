"""Fixtures of the faults: one scene for the session, on the cloud of `./up`.

Without more, only the faults that are marked `chosen` run, once each: they are a part of `./test`. With
OPENSTACK_OPERATOR_FAULTS=all (`make faults`) all of them run, each repeated; OPENSTACK_OPERATOR_FAULTS_RESULT names a
file for what was seen. Runs where end-to-end tests run, after what breaks nothing (`e2e/conftest.py`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import zlib
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
import small_scene

HERE = Path(__file__).parent
RESULT = "OPENSTACK_OPERATOR_FAULTS_RESULT"

# What is on stage for several faults. It goes when the last one that plays on it is over, not with the session: what
# comes after the faults takes the cluster away, and rollouts are not to share the processors with observers.
STAGE, ON_STAGE = contextlib.ExitStack(), {"scene", "small"}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    items = item.session.items
    rest = (one for one in items[items.index(item) + 1 :] if isinstance(one, pytest.Function))
    is_last = nextitem is None or ON_STAGE.isdisjoint(name for one in rest for name in one.fixturenames)
    if item.path.parent == HERE and is_last:
        STAGE.close()


def pytest_itemcollected(item: pytest.Item) -> None:
    session.mark(item)


def pytest_sessionfinish() -> None:
    session.finish()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the faults that were not asked for."""
    left, out = [], []
    for item in items:
        if item.path.parent != HERE:
            left.append(item)
            continue
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
def seen() -> Iterator[list[records.Record]]:
    """What was seen of all faults, whatever scene they were on."""
    path = os.environ.get(RESULT)
    found = records.Kept(Path(path), _machine()) if path else records.Kept(None, {"revision": ""})
    yield found
    # Some tests take a record back.
    found.write()


@pytest.fixture(scope="session")
def small(seen: list[records.Record]) -> small_scene.SmallScene:
    """A small cloud that runs, with its observers. Whatever is broken of it must mend itself."""
    session.start()
    found = STAGE.enter_context(small_scene.played(session.cluster(), "faults-small", seen))
    found.make()
    found.until_whole(time.monotonic())
    return found


@pytest.fixture(params=range(scenes.times()))
def again(request: pytest.FixtureRequest) -> int:
    """Makes a test as often as each fault is made, and counts from 0. What is `fresh` is so for each."""
    found: int = request.param
    return found


@pytest.fixture
def fresh(seen: list[records.Record], request: pytest.FixtureRequest) -> Iterator[small_scene.SmallScene]:
    """A namespace of the test's own for a small cloud, which the test makes itself."""
    session.start()
    name = f"faults-{zlib.crc32(request.node.name.encode()):08x}"
    with small_scene.played(session.cluster(), name, seen) as found:
        yield found


@pytest.fixture(scope="session")
def scene(cloud: clouds.Cloud, seen: list[records.Record], tmp_path_factory: pytest.TempPathFactory) -> scenes.Scene:
    """The cloud with a VM and its observers."""
    key = guests.make_key(tmp_path_factory.mktemp("key"))
    found = scenes.Scene(cloud, key)
    found.records = seen
    STAGE.callback(_end, found)
    found.start()
    return found


def _end(found: scenes.Scene) -> None:
    found.end()
    found.guest.connection = found.cloud.connect()
    found.guest.delete()


def _machine() -> dict[str, Any]:
    import report  # the benchmarks say in the same words what they ran on

    return report.machine() | {"release": clouds.RELEASE}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """A failure tells what the cloud waits for."""
    report = yield
    played = (scenes.Scene, small_scene.SmallScene)
    for found in getattr(item, "funcargs", {}).values():
        if not report.failed or item.path.parent != HERE or not isinstance(found, played):
            continue
        with contextlib.suppress(AssertionError, OSError):
            report.sections.append(("state of the cloud", found.cluster.diagnosis(found.namespace)))
        report.sections.append(("what status said", "\n".join(map(str, found.blame.said[-5:]))))
    return report
