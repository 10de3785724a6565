"""The one question that the controller asks the Southbound database: which chassis have registered, and how.

OVSDB speaks JSON-RPC over a stream without delimiters (RFC 7047).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

from openstack_operator.runtime import errors

TIMEOUT_SECONDS = 10


@dataclasses.dataclass(frozen=True)
class Chassis:
    """A node's controller as it registered itself."""

    hostname: str
    is_userspace: bool
    is_gateway: bool


async def chassis(host: str, port: int) -> tuple[Chassis, ...]:
    """All registered chassis. Raises ``errors.Unavailable``."""
    where = f"Southbound database {host}:{port}"
    operation = {"op": "select", "table": "Chassis", "where": [], "columns": ["hostname", "other_config"]}
    request = {"method": "transact", "params": ["OVN_Southbound", operation], "id": 1}
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            answer = await _call(host, port, request)
    except (OSError, TimeoutError, EOFError) as problem:
        raise errors.Unavailable("DatabaseUnreachable", f"{where}: {type(problem).__name__}: {problem}") from None
    result = (answer.get("result") or [{}])[0]
    if "rows" not in result:
        raise errors.Unavailable("DatabaseError", f"{where}: {answer.get('error') or result.get('error')}")
    return tuple(parse(row) for row in result["rows"])


def parse(row: dict[str, Any]) -> Chassis:
    """A row; maps are written as ["map", [[key, value], …]]."""
    options = dict(row["other_config"][1])
    return Chassis(
        hostname=row["hostname"],
        is_userspace=options.get("datapath-type") == "netdev",
        is_gateway="enable-chassis-as-gw" in options.get("ovn-cms-options", "").split(","),
    )


async def _call(host: str, port: int, request: dict[str, Any]) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(json.dumps(request).encode())
        await writer.drain()
        decoder = json.JSONDecoder()
        text = b""
        while piece := await reader.read(65536):
            text += piece
            try:
                answer, _ = decoder.raw_decode(text.decode())
            except ValueError:  # cut within the text or within a letter: the rest is still to come
                continue
            if answer.get("id") == request["id"]:
                return dict(answer)
        raise EOFError("closed without an answer")
    finally:
        writer.close()
