"""Questions to services that a connection is never made to."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from openstack_operator.kit import identity, sessions
from openstack_operator.runtime import errors
from openstack_operator.services.nova import compute_api
from openstack_operator.services.rabbitmq import management

HOST = "127.0.0.1"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Who connects to it hears nothing: as many wait there as may, and the kernel drops what comes after them."""
    with contextlib.ExitStack() as held:
        server = held.enter_context(socket.create_server((HOST, 0), backlog=0))
        port = server.getsockname()[1]
        while (waiting := _connection(port)) is not None:
            held.enter_context(waiting)
        yield port


def _connection(port: int) -> socket.socket | None:
    with contextlib.suppress(TimeoutError):
        return socket.create_connection((HOST, port), timeout=0.2)
    return None


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for a whole request stays what it is."""
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 0.2)


UNMADE = "Connection timeout to host"


async def test_keystone(silent_port: int) -> None:
    admin = {"user": "admin", "password": "secret", "project": "admin"}
    async with identity.Client(f"http://{HOST}:{silent_port}/v3", admin) as client:
        with pytest.raises(errors.Unavailable, match=UNMADE):
            await client.ensure_project("service")


async def test_nova(silent_port: int) -> None:
    url = f"http://{HOST}:{silent_port}"
    with pytest.raises(errors.Unavailable, match=UNMADE):
        await compute_api.missing_hosts(f"{url}/v3", "nova", "secret", url, url, ["node1"])


async def test_rabbitmq(silent_port: int) -> None:
    async with management.Management(HOST, silent_port, "admin", "secret") as server:
        with pytest.raises(errors.Unavailable, match=UNMADE):
            await server.drop("nova", "nova")
