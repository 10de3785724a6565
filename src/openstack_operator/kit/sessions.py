"""HTTP sessions to what runs in the cloud and is asked by a controller: Keystone, Nova, RabbitMQ.

While one of them answers late, a pass waits, and the status of its object with it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import aiohttp

CONNECT_SECONDS = 3
"""A connection that is made while a pod goes and another comes may have been sent to the one that went; nobody refuses
it, and its repetitions go there too. In a cluster a connection takes milliseconds, or a second where one packet was
lost: after this time another one is better."""


def to_service(
    seconds: float, *, tls: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
) -> aiohttp.ClientSession:
    """A session whose requests take at most so many seconds each; a context manager."""
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls or True), timeout=timeout, headers=headers)
