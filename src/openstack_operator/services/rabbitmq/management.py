"""The few calls of RabbitMQ's management API that the controller makes."""

from __future__ import annotations

import base64
import types
import urllib.parse
from typing import Any

import aiohttp
import yarl

from openstack_operator.kit import sessions
from openstack_operator.runtime import errors

TIMEOUT_SECONDS = 30


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


class Management:
    """One server, as administrator. Use as an asynchronous context manager."""

    def __init__(self, host: str, port: int, user: str, password: str) -> None:
        self._url = f"http://{host}:{port}/api"
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Management:
        self._session = sessions.to_service(TIMEOUT_SECONDS, headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def grant(self, vhost: str, user: str, password: str) -> None:
        """Virtual host, user, and the user's rights on it; all three calls may be repeated."""
        await self._call("PUT", f"/vhosts/{_quoted(vhost)}", {"default_queue_type": "quorum"})
        await self._call("PUT", f"/users/{_quoted(user)}", {"password": password, "tags": ""})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        await self._call("PUT", f"/permissions/{_quoted(vhost)}/{_quoted(user)}", everything)

    async def drop(self, vhost: str, user: str) -> None:
        """Both may be gone already."""
        await self._call("DELETE", f"/vhosts/{_quoted(vhost)}")
        await self._call("DELETE", f"/users/{_quoted(user)}")

    async def _call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> None:
        assert self._session is not None, "used outside its context"
        try:
            # The name is quoted already; a second quoting would turn %2F into %252F.
            url = self._url + path
            async with self._session.request(verb, yarl.URL(url, encoded=True), json=body) as response:
                if response.status >= 400 and not (verb == "DELETE" and response.status == 404):
                    raise errors.Unavailable(
                        "MessageBusError", f"RabbitMQ {self._url}: {verb} {path} answers {response.status}"
                    )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise errors.Unavailable("MessageBusUnreachable", f"RabbitMQ {self._url}: {problem!r}") from None
