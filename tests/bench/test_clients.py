"""The clients that count what fails while a cloud changes, against a server that fails on purpose."""

from __future__ import annotations

import asyncio
import collections
import re
import sys
from pathlib import Path

import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import clients

AUTH = {
    "username": "admin",
    "password": "secret",
    "project_name": "admin",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
}
RATE = 50.0


class Server:
    """An API of each kind: the third list of servers is refused with 503, and after it the first token with 401."""

    def __init__(self) -> None:
        self.asked: collections.Counter[str] = collections.Counter()
        self.logins: list[str] = []
        self.is_over = asyncio.Event()

    async def token(self, request: web.Request) -> web.Response:
        (method,) = (await request.json())["auth"]["identity"]["methods"]
        if method == "password":
            self.logins.append(method)
        return web.json_response({}, status=201, headers={"X-Subject-Token": f"token-{len(self.logins)}"})

    async def list(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        if request.path == "/servers/detail" and self.asked[request.path] == 3:
            return web.Response(status=503)
        is_refused = self.asked["/servers/detail"] > 3 and request.headers["X-Auth-Token"] == "token-1"
        if self.logins[1:] and all(self.asked[path] > 9 for path in clients.PATHS.values()):
            self.is_over.set()
        return web.Response(status=401 if is_refused and request.path == "/v2.0/networks" else 200)


async def test_failures_are_counted_by_status_and_a_refused_client_logs_in_again() -> None:
    server = Server()
    application = web.Application()
    application.add_routes([web.post("/auth/tokens", server.token), web.get("/{path:.*}", server.list)])
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    load = clients.Clients(dict.fromkeys(clients.PATHS, url), AUTH, RATE)
    try:
        async with asyncio.timeout(60), load.at_work():
            await server.is_over.wait()
    finally:
        await runner.cleanup()
    assert load.counts["nova"].failed == {"503": 1}
    assert load.counts["neutron"].failed.keys() == {"401"}
    assert server.logins[:2] == ["password", "password"]
    assert load.counts["glance"].failed == {}
    assert all(load.counts[name].answers > 0 for name in (*clients.PATHS, clients.LOGIN))


async def test_a_server_that_is_not_there_is_told_by_the_name_of_the_error() -> None:
    with_port_of_nobody = "http://127.0.0.1:1"
    load = clients.Clients(dict.fromkeys(clients.PATHS, with_port_of_nobody), AUTH, RATE)
    with pytest.raises(RuntimeError, match=re.escape("no token: {'ClientConnectorError': 1}")):
        async with load.at_work():
            raise AssertionError("no token, no work")
