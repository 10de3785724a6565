"""Our own HTTP/1.1 towards servers that answer in every way that the protocol allows, and in some that it does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from openstack_operator.runtime import http
from watching import eventually

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"


class Server:
    """Answers each request with the next of its answers, bytes or a list of pieces; None ends the connection."""

    def __init__(self, *answers: Any, pause: float = 0) -> None:
        self.answers = list(answers)
        self.pause = pause
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        await eventually(lambda: self.open == 0, "all connections have ended")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                    body = await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
                    self.requests.append(head + body)
                    answer = self.answers.pop(0) if self.answers else PLAIN
                    if answer is None:
                        return
                    for piece in [answer] if isinstance(answer, bytes) else answer:
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(self.pause)
                    if b"close" in bytes(answer[0] if isinstance(answer, list) else answer).lower():
                        return
        finally:
            self.open -= 1
            writer.close()


@contextlib.asynccontextmanager
async def pool(server: Server, path: str = "") -> AsyncIterator[http.Pool]:
    made = http.Pool(server.url + path, None, {"User-Agent": "tester"}, 5)
    try:
        yield made
    finally:
        await made.close()


async def get(connections: http.Pool, verb: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    async with asyncio.timeout(20):
        answer = await connections.request(verb, "/x", None, {}, body)
    return answer.status, bytes(answer.body)


async def test_a_request_says_what_was_asked_for() -> None:
    async with Server() as server, pool(server, "/prefix/") as connections:
        await connections.request("PATCH", "/a b/ü", {"force": "true", "q": "a&b"}, {"Content-Type": "x/y"}, b"{}")
        host = server.url.removeprefix("http://")
        assert server.requests == [
            b"PATCH /prefix/a%20b/%C3%BC?force=true&q=a%26b HTTP/1.1\r\n"
            + f"Host: {host}\r\nUser-Agent: tester\r\nContent-Type: x/y\r\nContent-Length: 2\r\n\r\n".encode()
            + b"{}"
        ]


async def test_a_query_in_the_path_is_kept() -> None:
    async with Server() as server, pool(server) as connections:
        await connections.request("POST", "/x?dryRun=All", {"force": "true"}, {}, b"")
        assert server.requests[0].startswith(b"POST /x?dryRun=All&force=true HTTP/1.1\r\n")


async def test_a_header_that_has_two_lines_is_not_sent() -> None:
    async with Server() as server, pool(server) as connections:
        with pytest.raises(ValueError, match="one line"):
            await connections.request("GET", "/x", None, {"Authorization": "a\r\nHost: b"}, None)
        assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (PLAIN, b"ok"),
        (CHUNKED, b"abc0123456789"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN, b"ok"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", b"until the end"),
    ],
    ids=("length", "chunks", "no body", "something before", "until the end"),
)
async def test_an_answer_is_whole_however_it_comes(answer: bytes, body: bytes) -> None:
    pieces = [answer[at : at + 1] for at in range(len(answer))]
    if b"close" in answer:
        pieces = [answer[:-3], answer[-3:]]
    async with Server(answer, pieces, pause=0.001) as server, pool(server) as connections:
        assert [(await get(connections))[1], (await get(connections))[1]] == [body, body]


async def test_a_connection_is_used_again() -> None:
    async with Server(PLAIN, CHUNKED, PLAIN) as server, pool(server) as connections:
        for _ in range(3):
            await get(connections)
        assert (len(server.requests), server.connections) == (3, 1)


async def test_a_connection_that_the_server_wants_closed_is_not_used_again() -> None:
    closing = PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with Server(closing, PLAIN) as server, pool(server) as connections:
        assert await get(connections) == (200, b"ok")
        assert await get(connections) == (200, b"ok")
        assert server.connections == 2


@pytest.mark.parametrize(
    ("verb", "is_repeated"), [("GET", True), ("PUT", True), ("DELETE", True), ("POST", False), ("PATCH", False)]
)
async def test_what_may_be_repeated_is_when_a_kept_connection_has_ended(verb: str, is_repeated: bool) -> None:
    async with Server(PLAIN, None) as server, pool(server) as connections:
        await get(connections)
        if is_repeated:
            assert await get(connections, verb) == (200, b"ok")
        else:
            with pytest.raises(ConnectionError):
                await get(connections, verb, b"{}")
        assert len(server.requests) == (3 if is_repeated else 2)


async def test_an_answer_that_breaks_off_is_an_error_and_never_repeated() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\nok"
    async with Server(PLAIN, half) as server, pool(server) as connections:
        await get(connections)
        with pytest.raises(ConnectionError):
            await get(connections)
        assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", CHUNKED.replace(b"A;x=y", b"zz")])
async def test_what_is_not_http_is_an_error(answer: bytes) -> None:
    async with Server(answer) as server, pool(server) as connections:
        with pytest.raises(http.ProtocolError):
            await get(connections)


async def test_a_request_that_is_given_up_takes_its_connection_with_it() -> None:
    async with Server([b"HTTP/1.1 200 OK\r\n"], PLAIN, pause=0.2) as server, pool(server) as connections:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connections.request("GET", "/x", None, {}, None)
        assert await get(connections) == (200, b"ok")
        assert server.connections == 2


async def test_more_than_was_asked_for_ends_the_connection() -> None:
    async with Server(PLAIN + b"HTTP/1.1 200 OK\r\n", PLAIN) as server, pool(server) as connections:
        assert await get(connections) == (200, b"ok")
        assert await get(connections) == (200, b"ok")
        assert server.connections == 2


async def test_connections_that_nobody_wants_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.05)
    async with Server(*[[PLAIN[:5], PLAIN[5:]]] * 4, pause=0.02) as server, pool(server) as connections:
        await asyncio.gather(*(get(connections) for _ in range(4)))
        assert server.connections == 4
        await eventually(lambda: server.open == 0, "idle connections are closed")
