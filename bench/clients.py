"""Steady clients of a cloud's APIs, one for each, which count what fails and why.

For `day2.py`. Each asks so many times a second whatever becomes of earlier requests, over a new connection each time,
as many clients would. A client whose token is refused logs in again, after the refusal was counted.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import yaml

from openstack_operator.embedded import cloud

PATHS: Mapping[str, str] = {
    "keystone": "/services",
    "glance": "/v2/images",
    "placement": "/resource_providers",
    "neutron": "/v2.0/networks",
    "nova": "/servers/detail",
}
"""What is asked of each service, below its public URL."""
LOGIN = "keystone: token"
PATIENCE = aiohttp.ClientTimeout(total=60)


@dataclass
class Count:
    """What became of the requests to one API."""

    answers: int = 0
    failed: collections.Counter[str] = field(default_factory=collections.Counter)
    """By status, or by the name of what went wrong on the way."""
    longest: float = 0.0
    """Seconds of the slowest answer."""


class Clients:
    """One client for each API. ``counts`` grow while they run."""

    def __init__(self, urls: Mapping[str, str], auth: Mapping[str, str], rate: float) -> None:
        """``urls`` by service, ``auth`` as in clouds.yaml, and how many requests a second each client sends."""
        self.counts: dict[str, Count] = collections.defaultdict(Count)
        self._urls = urls
        user = {
            "name": auth["username"],
            "password": auth["password"],
            "domain": {"name": auth["user_domain_name"]},
        }
        self._scope = {"project": {"name": auth["project_name"], "domain": {"name": auth["project_domain_name"]}}}
        self._password = {"methods": ["password"], "password": {"user": user}}
        self._pause = 1 / rate
        self._token = ""
        self._requests: set[asyncio.Task[Any]] = set()

    @classmethod
    def of(cls, target: cloud.Cloud, rate: float) -> Self:
        """Those of a cloud, at its public endpoints."""
        auth = yaml.safe_load(target.clouds_yaml.read_text())["clouds"]["openstack"]["auth"]
        return cls(cloud.endpoints(target), auth, rate)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """They ask while the block runs; answers that are due at its end are waited for."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=PATIENCE) as session:
            self._token = await self._log_in(session)
            if not self._token:
                raise RuntimeError(f"no token: {dict(self.counts[LOGIN].failed)}")
            clients = [asyncio.create_task(self._repeat(session, name)) for name in (LOGIN, *PATHS)]
            try:
                yield
            finally:
                for one in clients:
                    one.cancel()
                await asyncio.gather(*clients, return_exceptions=True)
                await asyncio.gather(*self._requests)

    async def _repeat(self, session: aiohttp.ClientSession, name: str) -> None:
        while True:
            asking: Coroutine[Any, Any, Any] = self._renew(session) if name == LOGIN else self._ask(session, name)
            request = asyncio.create_task(asking)
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            await asyncio.sleep(self._pause)

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> None:
        url = f"{self._urls[name]}{PATHS[name]}"
        status, _ = await self._request(session, name, "GET", url, headers={"X-Auth-Token": self._token})
        if status == 401:
            self._token = await self._log_in(session) or self._token

    async def _log_in(self, session: aiohttp.ClientSession) -> str:
        """A new token for the password; empty where there is none."""
        _, token = await self._issue(session, self._password)
        return token

    async def _renew(self, session: aiohttp.ClientSession) -> None:
        """Asks for a token with the token: to check a password takes Keystone a quarter of a CPU second, by intent. The
        clients go on with the one they have, because whether it stays good is a question too."""
        status, _ = await self._issue(session, {"methods": ["token"], "token": {"id": self._token}})
        if status == 401:
            self._token = await self._log_in(session) or self._token

    async def _issue(self, session: aiohttp.ClientSession, identity: dict[str, Any]) -> tuple[int, str]:
        url = f"{self._urls['keystone']}/auth/tokens"
        body = {"auth": {"identity": identity, "scope": self._scope}}
        status, headers = await self._request(session, LOGIN, "POST", url, json=body)
        return status, headers.get("X-Subject-Token", "")

    async def _request(
        self, session: aiohttp.ClientSession, name: str, method: str, url: str, **options: Any
    ) -> tuple[int, Mapping[str, str]]:
        count, begin = self.counts[name], time.monotonic()
        try:
            async with session.request(method, url, **options) as answer:
                await answer.read()
                status, headers = answer.status, answer.headers
        except (aiohttp.ClientError, TimeoutError) as problem:
            count.failed[type(problem).__name__] += 1
            return 0, {}
        count.longest = max(count.longest, time.monotonic() - begin)
        count.answers += 1
        if status >= 400:
            count.failed[str(status)] += 1
        return status, headers
