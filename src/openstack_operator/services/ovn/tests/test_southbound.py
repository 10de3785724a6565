"""The question to the Southbound database, against a server that speaks the protocol's bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from openstack_operator.runtime import errors
from openstack_operator.services.ovn import southbound


@contextlib.asynccontextmanager
async def _server(*pieces: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        yield port


async def test_an_answer_in_pieces_is_put_together() -> None:
    row = {"hostname": "knoten-ä", "other_config": ["map", []]}
    text = json.dumps({"id": 1, "error": None, "result": [{"rows": [row]}]}, ensure_ascii=False).encode()
    cut = text.index("ä".encode()) + 1
    async with _server(text[:cut], text[cut:]) as port:
        found = await southbound.chassis("127.0.0.1", port)
    assert found == (southbound.Chassis("knoten-ä", is_userspace=False, is_gateway=False),)


async def test_a_server_that_hangs_up_is_unavailable() -> None:
    async with _server(b'{"id": 1, "res') as port:
        with pytest.raises(errors.Unavailable, match="closed without an answer"):
            await southbound.chassis("127.0.0.1", port)


async def test_an_error_of_the_database_is_told() -> None:
    async with _server(b'{"id": 1, "error": null, "result": [{"error": "unknown table"}]}') as port:
        with pytest.raises(errors.Unavailable, match="unknown table"):
            await southbound.chassis("127.0.0.1", port)


async def test_a_closed_port_is_unavailable() -> None:
    async with _server() as port:
        pass
    with pytest.raises(errors.Unavailable, match="Southbound database"):
        await southbound.chassis("127.0.0.1", port)
