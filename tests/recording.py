"""Every state that conditions and Events went through, seen by watches: for tests that count transitions
(tests/controllers with played nodes, tests/e2e with a real cloud)."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

from openstack_operator.runtime import client, errors, kinds

Object = dict[str, Any]
Place = tuple[str, str, str]
"""Kind and name of an object, and type of a condition of it."""

# What a message names: an object, a pod of the object that the message is about, a host of Nova, the URL of a server,
# or a condition of the same object.
_NAMES = re.compile(
    r"[A-Z][A-Za-z]+ [-a-z0-9]+/[-a-z0-9.]+|\b(pod|host) [-a-z0-9]+|http://[-a-z0-9]|\bspec\.[a-z]|"
    r"[A-Z][A-Za-z]+(Ready|Valid|Accepted)\b"
)

# What a condition may go through in one rollout, each state once. Stalled never is.
_FORWARD = {"Unknown": 0, "False": 1, "True": 2}
_WORKING = {"Unknown": 0, "True": 1, "False": 2}


class Recording:
    """What was seen of the objects of a namespace."""

    def __init__(self, api: client.Client, namespace: str, resources: Iterable[kinds.Resource]) -> None:
        self._api, self._namespace, self._resources = api, namespace, tuple(resources)
        self._synced = {resource: asyncio.Event() for resource in self._resources}
        self.states: dict[Place, list[str]] = collections.defaultdict(list)
        """The states of each condition, one after another, without repetitions."""
        self.messages: dict[Place, list[str]] = collections.defaultdict(list)
        """Reason and message of each condition that was not True, without repetitions."""
        self.versions: collections.Counter[tuple[str, str]] = collections.Counter()
        """How often each object's status was written."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Recording]:
        """Records while it is open; from the first moment on nothing is missed."""
        tasks = [asyncio.ensure_future(self._follow(resource)) for resource in self._resources]
        try:
            await asyncio.gather(*(one.wait() for one in self._synced.values()))
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, resource: kinds.Resource) -> None:
        version = ""
        while True:
            with contextlib.suppress(errors.ApiUnreachableError):
                if not version:
                    async for page in self._api.list_pages(resource, self._namespace, {}):
                        version = page["metadata"]["resourceVersion"]
                        for item in page["items"]:
                            self._see(resource, item)
                    self._synced[resource].set()
                async with contextlib.aclosing(self._api.watch(resource, self._namespace, {}, version)) as stream:
                    async for event in stream:
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in ("ADDED", "MODIFIED"):
                            self._see(resource, event["object"])

    def _see(self, resource: kinds.Resource, item: Object) -> None:
        name = item["metadata"]["name"]
        found = item.get("status", {}).get("conditions", [])
        self.versions[resource.kind, name] += bool(found)
        for one in found:
            place = (resource.kind, name, one["type"])
            if self.states[place][-1:] != [one["status"]]:
                self.states[place].append(one["status"])
            said = f"{one['reason']}: {one['message']}"
            if one["status"] != "True" and said not in self.messages[place]:
                self.messages[place].append(said)

    def flaps(self) -> dict[Place, list[str]]:
        """The conditions that went back, or came to the same state twice."""

        def is_steady(place: Place, states: list[str]) -> bool:
            order = _WORKING if place[2] == "Reconciling" else _FORWARD
            ranks = [order[state] for state in states]
            return ranks == sorted(ranks) and (place[2] != "Stalled" or "True" not in states)

        return {place: states for place, states in self.states.items() if not is_steady(place, states)}

    def unfinished(self) -> list[Place]:
        """The conditions that did not end as they should be in an object that is Ready."""
        wanted = {"Reconciling": "False", "Stalled": "False"}
        return [place for place, states in self.states.items() if states[-1] != wanted.get(place[2], "True")]

    def steps(self) -> collections.Counter[Place]:
        """The Events that there have to be: one for each condition that became True."""
        return collections.Counter(place for place in self.states if place[2] not in ("Reconciling", "Stalled"))

    def nameless(self) -> dict[Place, list[str]]:
        """What was said of conditions that were not True yet, and names nothing that is waited for."""
        found = {
            place: [one for one in said if not _NAMES.search(one)]
            for place, said in self.messages.items()
            if place[2] not in ("Reconciling", "Stalled")
        }
        return {place: said for place, said in found.items() if said}


async def told(api: client.Client, namespace: str, resources: Iterable[kinds.Resource]) -> collections.Counter[Place]:
    """Events about objects of these kinds in a namespace: how many there are of each kind, name and reason, with their
    repetitions."""
    wanted = {resource.kind for resource in resources}
    found: collections.Counter[Place] = collections.Counter()
    async for page in api.list_pages(kinds.EVENT, namespace, {}):
        for event in page["items"]:
            about = event["involvedObject"]
            if about["kind"] in wanted:
                found[about["kind"], about["name"], event["reason"]] += event.get("count", 1)
    return found
