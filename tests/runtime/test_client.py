"""The client's own rules: when it asks again, what it makes of strange answers, and how it finds its server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from openstack_operator.runtime import client, errors, kinds


@contextlib.asynccontextmanager
async def answering(*answers: Any) -> AsyncIterator[tuple[client.Client, list[str]]]:
    """A client of something on loopback that gives these answers in turn: what an overloaded server or a proxy in
    its place would say, which a real one cannot be asked for."""
    left, seen = list(answers), []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.method)
        return left.pop(0)

    async with asked_of("*", "/{path:.*}", handle) as api:
        yield api, seen


@contextlib.asynccontextmanager
async def asked_of(method: str, path: str, handle: Any) -> AsyncIterator[client.Client]:
    """A client of a server on loopback."""
    application = web.Application()
    application.router.add_route(method, path, handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with client.Client(client.Config(server=url, ssl_context=None), "test") as api:
            yield api
    finally:
        await runner.cleanup()


def busy(status: int, retry_after: str | None) -> web.Response:
    body = {"kind": "Status", "reason": "TooManyRequests", "message": "later"}
    return web.json_response(body, status=status, headers={"Retry-After": retry_after} if retry_after else {})


def fine() -> web.Response:
    return web.json_response({"metadata": {"name": "a"}})


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says_so(status: int) -> None:
    """Case 121."""
    async with answering(busy(status, "0"), busy(status, "0"), fine()) as (api, seen):
        assert await api.get(kinds.CONFIGMAP, "a", "b") == {"metadata": {"name": "a"}}
    assert seen == ["GET"] * 3


async def test_a_server_that_stays_busy_is_reported_in_the_end() -> None:
    async with answering(*[busy(429, "0") for _ in range(client.ATTEMPTS)]) as (api, seen):
        with pytest.raises(errors.ApiError, match="429 TooManyRequests: later"):
            await api.get(kinds.CONFIGMAP, "a", "b")
    assert len(seen) == client.ATTEMPTS


@pytest.mark.parametrize("header", [None, "Sat, 28 Nov 2026 00:00:00 GMT"])
async def test_without_seconds_to_wait_the_error_is_reported_at_once(header: str | None) -> None:
    async with answering(busy(503, header)) as (api, seen):
        with pytest.raises(errors.ApiError):
            await api.get(kinds.CONFIGMAP, "a", "b")
    assert len(seen) == 1


async def test_an_answer_that_is_not_json_is_not_the_servers() -> None:
    async with answering(web.Response(text="<html>captive portal")) as (api, _):
        with pytest.raises(errors.ApiUnreachableError, match="not JSON"):
            await api.get(kinds.CONFIGMAP, "a", "b")


async def test_a_refusal_that_is_not_json_keeps_its_status() -> None:
    async with answering(web.Response(text="<html>bad gateway", status=502)) as (api, _):
        with pytest.raises(errors.ApiError, match="502 Unknown: <html>bad gateway"):
            await api.get(kinds.CONFIGMAP, "a", "b")


async def test_events_of_a_watch_are_whole_lines_of_any_length() -> None:
    long = b'{"type":"ADDED","object":{"metadata":{"name":"' + b"x" * 300_000 + b'"}}}'
    text = long + b'\n\n{"type":"BOOKMARK","object":{}}\n{"type":"ADDED","obj'
    async with answering(web.Response(body=text)) as (api, _):
        found = [event["type"] async for event in api.watch(kinds.CONFIGMAP, None, {}, "1")]
    assert found == ["ADDED", "BOOKMARK"], "the line that was cut is not an event"


async def test_an_error_in_a_watch_is_raised_with_its_code() -> None:
    text = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}\n'
    async with answering(web.Response(body=text)) as (api, _):
        with pytest.raises(errors.ApiError, match="410 Expired: too old"):
            _ = [event async for event in api.watch(kinds.CONFIGMAP, None, {}, "1")]


async def test_a_server_that_refuses_connections_is_unreachable() -> None:
    config = client.Config(server="http://127.0.0.1:1", ssl_context=None)
    async with client.Client(config, "test") as api:
        with pytest.raises(errors.ApiUnreachableError, match="GET /api/v1/namespaces/b/configmaps/a: "):
            await api.get(kinds.CONFIGMAP, "a", "b")


async def test_a_write_with_an_old_version_is_a_conflict(world: Any) -> None:
    first = await world.secret("a", k="")
    await world.patch(kinds.SECRET, "a", {"data": {"k": "eA=="}})
    with pytest.raises(errors.ApiError, match="409 Conflict"):
        await world.api.replace(kinds.SECRET, first)


async def test_deleting_what_is_gone_or_was_made_anew_is_fine(world: Any) -> None:
    await world.api.delete(kinds.SECRET, "a", world.namespace)
    await world.secret("a", k="")
    await world.api.delete(kinds.SECRET, "a", world.namespace, uid="00000000-0000-0000-0000-000000000000")
    assert await world.find(kinds.SECRET, "a"), "another object of the same name is not the one that was meant"


def test_a_broken_kubeconfig_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: [")
    with pytest.raises(errors.OperatorError, match=f"kubeconfig {path}: "):
        client.Config.from_kubeconfig(path)


def test_without_a_cluster_the_places_that_were_looked_at_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.OperatorError, match="KUBECONFIG names no file, no --kubeconfig was given"):
        client.Config.load()


def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    api = client.Client(client.Config(server="", ssl_context=None, token_file=path), "test")
    for token in ("first", "rotated"):
        path.write_text(token + "\n")
        assert api._headers() == {"Authorization": f"Bearer {token}"}


@contextlib.asynccontextmanager
async def executing(*messages: bytes) -> AsyncIterator[client.Client]:
    """A client of something that ends every exec with these messages: a real one needs a node (tests/e2e)."""

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.query.getall("command") == ["cat", "a b"]
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        await socket.close()
        return socket

    async with asked_of("GET", "/api/v1/namespaces/space/pods/pod/exec", handle) as api:
        yield api


FAILURE = (
    b'\x03{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}'
)


@pytest.mark.parametrize(
    ("messages", "ended"),
    [
        ((b"\x01one ", b"\x01two", b'\x03{"status":"Success"}'), client.Ended(b"one two", b"", 0)),
        ((b"\x02no", FAILURE), client.Ended(b"", b"no", 3)),
        ((b'\x03{"status":"Failure","message":"no such program"}',), client.Ended(b"", b"", 126)),
    ],
)
async def test_a_command_in_a_container_ends_with_its_output_and_code(
    messages: tuple[bytes, ...], ended: client.Ended
) -> None:
    async with executing(*messages) as api:
        assert await api.execute("space", "pod", "container", ("cat", "a b")) == ended


async def test_a_command_gets_what_it_reads_in_pieces() -> None:
    given, got = bytes(range(256)) * 200, bytearray()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.query["stdin"] == "true"
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        while len(got) < len(given):
            piece = await socket.receive_bytes()
            assert piece[0] == 0
            got.extend(piece[1:])
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket

    async with asked_of("GET", "/api/v1/namespaces/space/pods/pod/exec", handle) as api:
        assert await api.execute("space", "pod", "container", ("cat",), given) == client.Ended(b"", b"", 0)
    assert got == given


async def test_a_command_whose_end_nobody_told_is_an_error() -> None:
    async with executing(b"\x01half") as api:
        with pytest.raises(errors.ApiUnreachableError, match="ended before the command"):
            await api.execute("space", "pod", "container", ("cat", "a b"))


async def test_an_exec_that_is_refused_says_so() -> None:
    async with answering(web.json_response({}, status=403)) as (api, _):
        with pytest.raises(errors.ApiError, match="403 ExecRefused"):
            await api.execute("space", "pod", "container", ("true",))


async def test_warnings_of_the_server_are_kept_once() -> None:
    headers = {"Warning": '299 - "say \\"hello\\""'}
    answers = [web.json_response({"metadata": {}}, headers=headers) for _ in range(2)]
    async with answering(*answers) as (api, _):
        for _ in range(2):
            await api.get(kinds.CONFIGMAP, "a", "b")
    assert api.warnings == ['say "hello"']


async def test_the_kernel_asks_whether_a_silent_server_is_still_there(world: Any) -> None:
    """Watches are silent for minutes; a server whose machine is gone says no farewell."""
    port = urllib.parse.urlsplit(world.control_plane.url).port
    async with client.Client(client.Config.from_kubeconfig(world.control_plane.kubeconfig), "lively") as api:
        opened = asyncio.Event()
        events = api.watch(kinds.CONFIGMAP, world.namespace, {}, "0", opened=opened.set)
        following = asyncio.ensure_future(anext(events))
        await opened.wait()
        assert await api.get(kinds.NAMESPACE, world.namespace)
        listing = await asyncio.create_subprocess_exec(
            "ss", "-tnoHp", "dport", "=", f":{port}", stdout=asyncio.subprocess.PIPE
        )
        shown = (await listing.communicate())[0].decode()
        following.cancel()
        await asyncio.wait([following])
        await events.aclose()
    own = [line for line in shown.splitlines() if f"pid={os.getpid()}," in line]
    # The watch, the request, and those of the fixture.
    assert len(own) >= 2
    assert [line for line in own if "timer:(keepalive," not in line] == []
