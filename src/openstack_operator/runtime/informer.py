"""Caches of what the API server holds: one LIST, then a WATCH that is resumed for as long as it can be.

    list --> watch --(ends, is cut, goes silent, 429, 503)--> watch again from where it was
      ^        |
      +--------+ 410 and every other refusal

One ``Informer`` per resource (and selector), shared by all controllers of a manager. Handlers are called with
``(new, old)`` for every change; a deletion passes ``new=None``. Cached objects must not be edited in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openstack_operator.runtime import errors, logs, metrics
from openstack_operator.runtime.client import Client, Object
from openstack_operator.runtime.kinds import Resource

Key = tuple[str | None, str]
"""Namespace (None for cluster-scoped objects) and name."""

Handler = Callable[[Object | None, Object | None], None]

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0

# A watch that lasted this long shows a server in order: what ended it calls for no delay.
HEALTHY_SECONDS = 1.0

# So long a server may refuse that starts, or that makes room for a kind anew: the next attempts tell.
REFUSAL_SECONDS = 3.0

# Longer strings are rarely the same in two objects.
LONGEST_SHARED = 100

log = logs.get("informer")


def key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace"), metadata["name"]


@dataclass(frozen=True)
class Break:
    """A watch that ended, and no other can be had: what is cached may be over."""

    since: datetime.datetime
    problem: errors.OperatorError
    """What the last attempt met."""


class Informer:
    """The cache of one resource in one namespace (None: all of them)."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None,
        selectors: Mapping[str, str] | None = None,
        trim: Callable[[Object], Object | None] = lambda item: item,
    ) -> None:
        """``trim`` gives what is kept of an object; None: it is not kept at all."""
        self.resource = resource
        self.selectors = dict(selectors or {})
        self._trim = trim
        self.synced = asyncio.Event()
        self._client, self._namespace = client, namespace
        self._label = str(resource)
        self._store: dict[Key, Object] = {}
        # Caches of single objects would tell their own count as that of the whole kind.
        if "fieldSelector" not in self.selectors:
            metrics.CACHED_OBJECTS.labels(self._label).set_function(self._store.__len__)
        # The same by namespace: what lies in other namespaces must not cost those who look into one.
        self._namespaces: dict[str | None, dict[Key, Object]] = {}
        self.handlers: list[Handler] = []
        self.broken: Break | None = None
        """None while it is watched, and between one watch and the next."""
        self._break_handlers: list[Callable[[], None]] = []
        # When the last watch ended, and whether the attempt that is under way has got one.
        self._ended_at: datetime.datetime | None = None
        self._is_open = False
        self._hurried = asyncio.Event()
        # resourceVersion that the cache stands at, where a watch starts; empty: a LIST comes first.
        self._position = ""
        # The same as a number, kept over relists.
        self._reached = 0

    def get(self, namespace: str | None, name: str) -> Object | None:
        return self._store.get((namespace, name))

    def items(self, namespace: str | None = None) -> Iterator[Object]:
        """Cached objects of one namespace, or all of them, as they are now."""
        found = self._store if namespace is None else self._namespaces.get(namespace, {})
        return iter(list(found.values()))

    def __len__(self) -> int:
        return len(self._store)

    def subscribe(self, handler: Handler) -> None:
        self.handlers.append(handler)

    def subscribe_breaks(self, handler: Callable[[], None]) -> None:
        """The handler is called when ``broken`` changed."""
        self._break_handlers.append(handler)

    def hurry(self) -> None:
        """Whoever waits for the next attempt waits no longer: the server is known to answer."""
        self._hurried.set()

    def unsubscribe_breaks(self, handler: Callable[[], None]) -> None:
        self._break_handlers.remove(handler)

    def observe(self, item: Object) -> None:
        """Takes in an object that a write of ours returned, so that the next reconcile does not act on a stale one.

        What the watch has reached already is ignored: the object may have been deleted since, and would stay in the
        cache for ever.
        """
        item["metadata"].pop("managedFields", None)
        if _version(item) > self._reached:
            self._put(item)

    def start_over(self) -> None:
        """The next ``run`` begins with a LIST; what is cached stays until then."""
        self.synced.clear()
        self._position = ""

    async def fill(self) -> None:
        """One LIST and no watch: for somebody who looks once. Raises what the request raises."""
        await self._list()
        self.synced.set()

    def forget(self, key: Key) -> None:
        """Takes an object out of the cache, as a watch does that tells of its end."""
        if key in self._store:
            self._drop(key)

    async def run(self) -> None:
        """Lists and watches until cancelled. Every failure is survived, with a jittered growing delay."""
        delay = 0.0
        listed_at = float("-inf")
        while True:
            began = time.monotonic()
            problem: errors.OperatorError | None = None
            how = "ended"
            self._is_open = False
            self._hurried.clear()
            try:
                if not self._position:
                    listed_at = began
                    await self._list()
                    self.synced.set()
                await self._watch()
            except errors.WatchSilentError as silent:
                # The usual end on a quiet cluster.
                how = "silent"
                log.debug("watch ended", resource=str(self.resource), problem=str(silent))
            except errors.ApiUnreachableError as unreachable:
                problem, how = unreachable, "unreachable"
            except errors.ApiError as refused:
                problem, how = refused, "refused"
                if refused.status not in (429, 503):
                    self._position = ""
                # The ordinary end of an old watch: relist at once, but not twice in a row.
                if refused.status == 410 and began - listed_at > HEALTHY_SECONDS:
                    metrics.WATCH_RESTARTS.labels(str(self.resource), how).inc()
                    continue
            self._ended(problem)
            metrics.WATCH_RESTARTS.labels(str(self.resource), how).inc()
            delay = 0.0 if time.monotonic() - began > HEALTHY_SECONDS else _grown(delay)
            if problem is not None:
                log.warning(
                    "watch ended", resource=str(self.resource), delay=round(delay, 1), problem=str(problem),
                    relist=not self._position,
                )  # fmt: skip
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay * random.uniform(0.8, 1.2)):
                    await self._hurried.wait()

    def _opened(self) -> None:
        self._is_open = True
        self._broke(None)

    def _ended(self, problem: errors.OperatorError | None) -> None:
        """After each attempt. A watch that was open and ended is no break: whether there is another, the next one
        tells."""
        now = datetime.datetime.now(datetime.UTC)
        if self._is_open or self._ended_at is None:
            self._ended_at = now
        if problem is None or self._is_open:
            return
        is_lasting = (now - self._ended_at).total_seconds() > REFUSAL_SECONDS
        if is_lasting or isinstance(problem, errors.ApiUnreachableError):
            self._broke(Break(self._ended_at, problem))

    def _broke(self, found: Break | None) -> None:
        if found != self.broken:
            self.broken = found
            for handler in self._break_handlers:
                handler()

    async def _list(self) -> None:
        metrics.RELISTS.labels(str(self.resource)).inc()
        seen: set[Key] = set()
        position, reached, is_rewound = "", 0, False
        async for page in self._client.list_pages(self.resource, self._namespace, self.selectors):
            position = page["metadata"]["resourceVersion"]
            reached = int(position)
            # Versions only go back when etcd was restored from a backup: then what we have cached never happened.
            is_rewound = reached < self._reached
            for item in page["items"]:
                item["metadata"].pop("managedFields", None)
                seen.add(key_of(item))
                self._put(item, is_older_taken=is_rewound)
        self._position, self._reached = position, reached
        # Deletions that happened while no watch was open. What we wrote ourselves meanwhile is newer than the list.
        for key, item in list(self._store.items()):
            if key not in seen and (is_rewound or _version(item) <= reached):
                self._drop(key)

    async def _watch(self) -> None:
        stream = self._client.watch(self.resource, self._namespace, self.selectors, self._position, self._opened)
        async with contextlib.aclosing(stream):
            async for event in stream:
                item = event["object"]
                self._position = item["metadata"]["resourceVersion"]
                self._reached = int(self._position)
                if event["type"] == "BOOKMARK":
                    continue
                item["metadata"].pop("managedFields", None)
                if event["type"] == "DELETED":
                    current = self._store.get(key_of(item))
                    # Deleted and made anew by us: the deletion is the older of the two.
                    if current is not None and _version(current) <= self._reached:
                        self._drop(key_of(item))
                else:
                    self._put(item)

    def _put(self, found: Object, *, is_older_taken: bool = False) -> None:
        item = self._trim(found)
        if item is None:
            return
        key = key_of(item)
        old = self._store.get(key)
        if old is not None:
            have, comes = _version(old), _version(item)
            # Older ones come when a write of ours was observed before the watch delivered what preceded it.
            if comes == have or (comes < have and not is_older_taken):
                return
        # LIST items of built-in kinds carry neither.
        item.setdefault("apiVersion", self.resource.api_version)
        item.setdefault("kind", self.resource.kind)
        share_strings(item)
        self._store[key] = item
        self._namespaces.setdefault(key[0], {})[key] = item
        self._changed(item, old)

    def _drop(self, key: Key) -> None:
        old = self._store.pop(key)
        neighbours = self._namespaces[key[0]]
        del neighbours[key]
        if not neighbours:
            del self._namespaces[key[0]]
        self._changed(None, old)

    def _changed(self, new: Object | None, old: Object | None) -> None:
        for handler in self.handlers:
            handler(new, old)


class Together:
    """Informers of one server. When one of them is answered that was not, the others try at once: each waits up to half
    a minute for its next attempt, and knows nothing new.
    """

    def __init__(self, members: Iterable[Informer] = ()) -> None:
        self._members: set[Informer] = set()
        self._broken: set[Informer] = set()
        for member in members:
            self.add(member)

    def add(self, member: Informer) -> None:
        self._members.add(member)
        member.subscribe_breaks(self._look)

    def discard(self, member: Informer) -> None:
        self._members.discard(member)
        self._broken.discard(member)
        member.unsubscribe_breaks(self._look)

    def hurry(self) -> None:
        """The server is known to answer: who waits for his next attempt waits no longer."""
        for member in self._members:
            if member.broken is not None:
                member.hurry()

    def _look(self) -> None:
        broken = {member for member in self._members if member.broken is not None}
        if not self._broken <= broken:
            self.hurry()
        self._broken = broken


def share_strings(item: Object) -> None:
    """Makes equal strings of cached objects the same ones, in place: much of a cache of workloads is names, paths and
    images that stand in hundreds of them. Not what is an object's own (its name, versions, data)."""
    metadata = item["metadata"]
    for part in (metadata.get("labels"), metadata.get("ownerReferences"), item.get("spec"), item.get("status")):
        if part:
            _share_strings(part)


def _share_strings(part: Any) -> None:
    # No key is added or taken away, so that a dictionary may be walked through meanwhile.
    for key, value in part.items() if part.__class__ is dict else enumerate(part):
        kind = value.__class__
        if kind is str:
            if len(value) <= LONGEST_SHARED:
                part[key] = sys.intern(value)
        elif kind is dict or kind is list:
            _share_strings(value)


def _grown(delay: float) -> float:
    return min(LONGEST_DELAY_SECONDS, delay * 2 or FIRST_DELAY_SECONDS)


def _version(item: Object) -> int:
    # Since Kubernetes 1.35 (KEP-5504) resource versions are defined to be comparable numbers; etcd-backed servers have
    # always used them so.
    return int(item["metadata"]["resourceVersion"])
