"""Health, readiness and metrics over plain HTTP. Called by ``manager``."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


async def start(
    host: str, health_port: int, metrics_port: int, unready: Callable[[], str | None]
) -> list[web.AppRunner]:
    """Serves /healthz and /readyz on one port and /metrics on the other; a port of 0 is not served.

    ``unready`` says what is missing before other programs may rely on this one, None: nothing.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        missing = unready()
        return web.Response(text="ok") if missing is None else web.Response(status=503, text=missing)

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    runners = []
    for port, routes in (
        (health_port, [web.get("/healthz", healthz), web.get("/readyz", readyz)]),
        (metrics_port, [web.get("/metrics", scrape)]),
    ):
        if port:
            application = web.Application()
            application.add_routes(routes)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, host, port).start()
            runners.append(runner)
    return runners
