"""Ways to wait without sleeping, for the worlds of tests/runtime (toyland.py) and tests/controllers (world.py)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from openstack_operator.runtime import client, errors, kinds

Object = dict[str, Any]


async def eventually(condition: Callable[[], Any], what: str = "", seconds: float = 20) -> Any:
    """Waits for a condition on the memory of this process and returns its value; of the cluster, `until` asks by a
    watch."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never happened: {what or condition}"
        await asyncio.sleep(0.005)
    return value


async def find(api: client.Client, resource: kinds.Resource, namespace: str, name: str) -> Object | None:
    """One object, None when there is none."""
    try:
        return await api.get(resource, name, namespace)
    except errors.ApiError as problem:
        if problem.status == 404:
            return None
        raise


async def until(
    api: client.Client,
    resource: kinds.Resource,
    namespace: str,
    name: str,
    is_met: Callable[[Object | None], Any],
    seconds: float,
) -> Any:
    """Watches one object until the condition (of the object, None when there is none) is true; returns the object."""
    selectors = {"fieldSelector": f"metadata.name={name}"}
    item: Object | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                async for page in api.list_pages(resource, namespace, selectors):
                    item = next(iter(page["items"]), None)
                if is_met(item):
                    return item
                version = page["metadata"]["resourceVersion"]
                stream = api.watch(resource, namespace, selectors, version)
                async with contextlib.aclosing(stream):
                    async for event in stream:
                        if event["type"] == "BOOKMARK":
                            continue
                        item = None if event["type"] == "DELETED" else event["object"]
                        if is_met(item):
                            return item
    except TimeoutError:
        status = (item or {}).get("status")
        raise AssertionError(f"{resource.kind} {name} never came to it: {status if status else item}") from None
