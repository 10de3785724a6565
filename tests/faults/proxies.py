"""A proxy before the API server that refuses a part of what is asked, with the answers of a server that has too much to
do or is ill. Streams watches. For the operator, which is told of it by its environment.
"""

from __future__ import annotations

import asyncio
import collections
import random
import ssl
import threading
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from openstack_operator.embedded import addresses, paths

PORT = 16443
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host", "upgrade")
# Status, headers, weight.
ANSWERS = ((429, {"Retry-After": "1"}, 5), (500, {}, 3), (503, {}, 2))
START_SECONDS = 30


class Proxy:
    """Serves in a thread of its own while it is entered."""

    def __init__(self, part: float, seed: int) -> None:
        """``part`` of all requests is refused; which ones is chosen by ``seed``."""
        self.part = part
        self.counts: collections.Counter[int] = collections.Counter()
        """Answers by status; those of the server are counted as 200."""
        self.by_request: collections.Counter[str] = collections.Counter()
        self._random = random.Random(seed)
        self._started = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Watches that are open at the end are cancelled.
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def environment(self) -> list[dict[str, str]]:
        """Of a container that shall use it."""
        values = {"KUBERNETES_SERVICE_HOST": addresses.NODE_ADDRESS, "KUBERNETES_SERVICE_PORT": str(PORT)}
        return [{"name": name, "value": value} for name, value in values.items()]

    @property
    def total(self) -> int:
        return self.counts.total()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS), "the proxy does not start"
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._over is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(timeout=START_SECONDS)

    async def _serve(self) -> None:
        self._over, self._loop = asyncio.Event(), asyncio.get_running_loop()
        keys = paths.default().pki
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
        upward = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        connector = aiohttp.TCPConnector(ssl=upward, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            # Who did not ask for compressed answers cannot read them.
            skip_auto_headers=("Accept-Encoding",),
        ) as self._session:
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, addresses.NODE_ADDRESS, PORT, ssl_context=server).start()
            self._started.set()
            await self._over.wait()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.by_request[f"{request.method} {request.path}"] += 1
        if self._random.random() < self.part:
            status, headers, _ = self._random.choices(ANSWERS, weights=[weight for *_, weight in ANSWERS])[0]
            self.counts[status] += 1
            body = {"kind": "Status", "status": "Failure", "code": status, "message": "refused by a test"}
            return web.json_response(body, status=status, headers=headers)
        self.counts[200] += 1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = f"https://{addresses.NODE_ADDRESS}:{addresses.API_PORT}{request.raw_path}"
        async with self._session.request(
            request.method, URL(url, encoded=True), headers=headers, data=await request.read()
        ) as answer:
            given = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            if "Content-Encoding" in answer.headers:
                given["Content-Encoding"] = answer.headers["Content-Encoding"]
            response = web.StreamResponse(status=answer.status, headers=given)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
