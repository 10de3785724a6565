"""Fixtures of the runtime's tests: toys on a real API server. What they are made of is in toyland.py and toy.py."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from openstack_operator.embedded.apiserver import ControlPlane, RequestError
from openstack_operator.runtime import client, logs

sys.path.insert(0, str(Path(__file__).parent))

from toyland import Proxy, World, install_toys  # the path is set above

# Two cores that are shared with an API server: slowness is no finding here.
hypothesis.settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared machine")


@pytest.fixture(scope="session", autouse=True)
def logging_configured() -> None:
    logs.configure("info")


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    """What a test forgot to close shows in that test. Later it would break another: Python before 3.11.5 cannot parse
    source while a collected object warns."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def toys_installed(apiserver: ControlPlane) -> ControlPlane:
    install_toys(apiserver)
    return apiserver


async def _world(control_plane: ControlPlane, namespace: str) -> AsyncIterator[World]:
    async with client.Client(client.Config.from_kubeconfig(control_plane.kubeconfig), "user") as api:
        yield World(control_plane, namespace, api)


@pytest.fixture
async def world(toys_installed: ControlPlane, namespace: str) -> AsyncIterator[World]:
    """A fresh namespace of the shared API server."""
    async for world in _world(toys_installed, namespace):
        yield world


@pytest.fixture
async def own_world(own_apiserver: ControlPlane) -> AsyncIterator[World]:
    """A namespace of an API server that the test may break."""
    install_toys(own_apiserver)
    with contextlib.suppress(RequestError):
        own_apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": "toys"}})
    async for world in _world(own_apiserver, "toys"):
        yield world


@pytest.fixture
async def proxy(world: World) -> AsyncIterator[Proxy]:
    """Between the operator and the shared API server: `world.operator(server=proxy.url)`."""
    async with Proxy(world.control_plane.url) as between:
        yield between
