"""The cloud of `./up` while something changes in it: patches, waits by watches, and what the operator spent meanwhile.

For `cells.py` and `day2.py`. Brings up what is missing with `./up --no-vm`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import report
import rollout
from openstack_operator.embedded import audit, cloud, node, paths, programs, up
from openstack_operator.kit import kinds
from openstack_operator.runtime import client, conditions
from openstack_operator.runtime.kinds import Resource

LIMIT_SECONDS = 900
AGENT = "openstack-operator"
Object = dict[str, Any]


def is_current(item: Object, condition: str) -> bool:
    """Whether the condition is True for the newest spec."""
    found = conditions.find(item, condition)
    return (
        found is not None
        and found["status"] == "True"
        and found.get("observedGeneration") == item["metadata"]["generation"]
    )


def requests(log: Path, since: audit.Place) -> int:
    """Requests of the operator in the audit log from a place on; the begin of a watch is none."""
    return sum(
        one["verb"] != "watch" and one["stage"] == "ResponseComplete" and one.get("userAgent") == AGENT
        for one in audit.events(log, since)
    )


class LiveCloud:
    """The cloud of `./up`."""

    def __init__(self) -> None:
        where = paths.default()
        self.target = up.run(up.Options(source=report.SOURCE, until="cloud")).cloud
        self._audit = where.logs / "audit.log"
        self._cluster = node.Node(where, programs.ensure(where.cache), print)

    @asynccontextmanager
    async def api(self) -> AsyncIterator[client.Client]:
        config = client.Config.load(str(self.target.kubeconfig))
        async with client.Client(config, "openstack-operator-bench") as api:
            yield api

    async def until(
        self, api: client.Client, resource: Resource, name: str, is_met: Callable[[Object], bool]
    ) -> Object:
        """Watches one object until it is as wanted; gives it."""
        async with asyncio.timeout(LIMIT_SECONDS):
            # The API server ends each watch after some minutes.
            while True:
                item: Object = await api.get(resource, name, self.target.namespace)
                if is_met(item):
                    return item
                version = item["metadata"]["resourceVersion"]
                async for event in api.watch(resource, self.target.namespace, {}, version):
                    item = event["object"]
                    if event["type"] != "BOOKMARK" and item["metadata"]["name"] == name and is_met(item):
                        return item

    async def until_ready(self, api: client.Client) -> None:
        """The control plane is Ready for its newest spec."""
        await self.until(api, kinds.CONTROL_PLANE, self.target.name, lambda item: is_current(item, "Ready"))

    def patch(self, spec: Object) -> None:
        """Merges into the spec of the control plane."""
        where = ("-n", self.target.namespace, "--type=merge", "-p", json.dumps({"spec": spec}))
        cloud.kubectl(self.target, "patch", "openstackcontrolplane", self.target.name, *where)

    async def timed(self, change: Callable[[], None], wait: Callable[[], Awaitable[None]]) -> dict[str, Any]:
        """Seconds from a change until it is through, and what the operator spent on it."""
        place = audit.end(self._audit)
        used = await asyncio.to_thread(rollout.Cpu, lambda: rollout.operator_parts(self._cluster, self.target))
        begin = time.monotonic()
        await asyncio.to_thread(change)
        await wait()
        seconds = round(time.monotonic() - begin, 1)
        count = await asyncio.to_thread(requests, self._audit, place)
        cpu = await asyncio.to_thread(used.used)
        return {"seconds": seconds, "operator requests": count, "operator CPU s": cpu["operator"]}
