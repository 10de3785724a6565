"""HTTP/1.1 for requests that have one answer: connections that are kept, and as little as possible on top of them.

More than half of the operator's CPU time goes into its requests, and a client for every purpose takes half of that.
This one knows no redirects, cookies, proxies or compression, which the Kubernetes API does not ask for. ``client`` is
the only caller; watches and exec, which are streams, stay with aiohttp there.
"""

from __future__ import annotations

import asyncio
import asyncio.trsock
import socket
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

IDLE_SECONDS = 15.0
"""A connection that nobody wants for so long is closed: each holds the buffers of its TLS."""

# Who is gone without a word is found out after half a minute, where Linux alone begins to ask after two hours. By name,
# since not every system has all of them.
_LIVENESS = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}

# What may be sent again when a kept connection ends before an answer begins: the server closed it as we wrote.
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_WITHOUT_BODY = frozenset({204, 304})
# A path comes as it is to be sent, perhaps with a query: only what would end the line early is quoted.
_SAFE_IN_PATH = "/:@!$&'()*+,;=~?%[]"


def ask_for_life(connection: socket.socket | asyncio.trsock.TransportSocket) -> None:
    """Has the kernel find out whether the other side of a connection is still there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _LIVENESS.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Answer(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | bytearray


class ProtocolError(OSError):
    """What came is not HTTP/1.1."""


class _ClosedError(ConnectionError):
    """The connection ended, and nothing of the answer had come."""


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_reusable = True
        self.idle_since = 0.0
        self._waiter: asyncio.Future[Answer] | None = None
        self._start()

    def _start(self) -> None:
        self._buffer = bytearray()
        self._body = bytearray()
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        # Bytes of the body that are still to come; None: chunks, or until the end of the connection.
        self._left: int | None = None
        self._is_chunked = False

    async def exchange(self, request: bytes) -> Answer:
        """Sends a request and waits for its answer. Cancelled or failed, the connection is of no more use."""
        assert self.transport is not None
        self._start()
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            return await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Ends it at once."""
        self.is_reusable = False
        if self.transport is not None:
            self.transport.abort()

    # --- what the event loop calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_reusable = False
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._status and self._left is None and not self._is_chunked and problem is None:
            self._finish()
        elif self._status or self._buffer:
            waiter.set_exception(problem or ConnectionResetError("the connection ended within an answer"))
        else:
            waiter.set_exception(_ClosedError(str(problem or "the server closed the connection")))

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            # Nobody has asked.
            self.abort()
            return
        try:
            self._take_in(data)
        except (ValueError, IndexError) as problem:
            waiter.set_exception(ProtocolError(f"answer is not HTTP: {problem}"))
            self.abort()

    # --- parsing ----------------------------------------------------------------------------------------------------

    def _take_in(self, data: bytes) -> None:
        if self._status and not self._is_chunked:
            self._extend(data)
            return
        self._buffer += data
        while not self._status:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            self._read_head(head)
        if self._is_chunked:
            self._read_chunks()
        else:
            rest, self._buffer = self._buffer, bytearray()
            self._extend(rest)

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = int(rest[:3])
        if not version.startswith("HTTP/1.") or status < 100:
            raise ValueError(first[:100])
        if status < 200:
            # Something to be told on the way: the answer comes after it.
            return
        is_kept = version == "HTTP/1.1"
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            self._headers.append((name, value))
            if name == "content-length":
                self._left = int(value)
            elif name == "transfer-encoding":
                self._is_chunked = value.lower() == "chunked"
            elif name == "connection":
                is_kept = value.lower() != "close"
        self._status = status
        if status in _WITHOUT_BODY:
            self._left, self._is_chunked = 0, False
        if not is_kept or (self._left is None and not self._is_chunked):
            self.is_reusable = False

    def _extend(self, data: bytes | bytearray) -> None:
        if self._left is None:
            self._body += data
            return
        if len(data) > self._left:
            # More than was asked for: whose it is, nobody can tell.
            self.is_reusable = False
            data = data[: self._left]
        self._body += data
        self._left -= len(data)
        if self._left == 0:
            self._finish()

    def _read_chunks(self) -> None:
        buffer, at = self._buffer, 0
        while True:
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            size = int(bytes(buffer[at:end]).split(b";")[0], 16)
            if size == 0:
                # Trailers, of which there are none, would end with an empty line as well.
                last = buffer.find(b"\r\n\r\n", at)
                if last < 0:
                    break
                if len(buffer) > last + 4:
                    self.is_reusable = False
                self._finish()
                return
            after = end + 2 + size
            if len(buffer) < after + 2:
                break
            self._body += memoryview(buffer)[end + 2 : after]
            at = after + 2
        if at:
            del buffer[:at]

    def _finish(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(Answer(self._status, self._headers, self._body))


class Pool:
    """Connections to one server."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, headers: Mapping[str, str], connect: float) -> None:
        """``headers`` go with each request; ``connect`` is how many seconds a new connection may take."""
        parts = urlsplit(server)
        is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if is_secure else 80)
        self._tls: ssl.SSLContext | bool | None = (tls or True) if is_secure else None
        self._prefix = parts.path.rstrip("/")
        self._connect = connect
        self._common = "".join(
            f"{name}: {_in_header(value)}\r\n" for name, value in ({"Host": parts.netloc} | dict(headers)).items()
        )
        # The one used last comes first, so that what is not needed grows old.
        self._idle: list[Connection] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def request(
        self, verb: str, path: str, params: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        """Raises OSError, and what the caller's own time limit raises."""
        data = self._request(verb, path, params, headers, body)
        while True:
            connection = self._kept()
            is_kept = connection is not None
            if connection is None:
                connection = await self._new()
            try:
                answer = await connection.exchange(data)
            except _ClosedError:
                if is_kept and verb in _REPEATABLE:
                    continue
                raise
            self._keep(connection)
            return answer

    def _request(
        self, verb: str, path: str, params: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        query = f"{'&' if '?' in path else '?'}{urlencode(params)}" if params else ""
        own = "".join(f"{name}: {_in_header(value)}\r\n" for name, value in headers.items())
        size = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        where = quote(self._prefix + path, safe=_SAFE_IN_PATH)
        head = f"{verb} {where}{query} HTTP/1.1\r\n{self._common}{own}{size}\r\n".encode()
        return head if body is None else head + body

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
        return None

    async def _new(self) -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect):
            transport, connection = await loop.create_connection(Connection, self._host, self._port, ssl=self._tls)
        ask_for_life(transport.get_extra_info("socket"))
        return connection

    def _keep(self, connection: Connection) -> None:
        if not connection.is_reusable or self._is_closed:
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_old)

    def _drop_old(self) -> None:
        limit = time.monotonic() - IDLE_SECONDS
        for connection in self._idle:
            if connection.idle_since <= limit:
                connection.abort()
        self._idle = [connection for connection in self._idle if connection.is_reusable]
        again = bool(self._idle)
        self._sweep = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_old) if again else None

    async def close(self) -> None:
        """Ends all connections."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        ended, self._idle = self._idle, []
        for connection in ended:
            connection.abort()
        if ended:
            # Sockets close in the next rounds of the loop: TLS takes one, the socket below it another.
            for _ in range(3):
                await asyncio.sleep(0)


def _in_header(value: str) -> str:
    if "\r" in value or "\n" in value:
        raise ValueError("a header has one line")
    return value
