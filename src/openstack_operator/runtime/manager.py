"""The life of an operator process: client, shared informers, election, workers, drain.

    start -> informers sync (standby replicas stop here, warm) -> Lease -> workers -> SIGTERM -> drain -> release -> end

Called by the command line (``run``) and by tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from openstack_operator.runtime import errors, events, kinds, lease, logs, metrics, server, webhook
from openstack_operator.runtime.client import Client, Object
from openstack_operator.runtime.controller import Controller
from openstack_operator.runtime.informer import Informer, Key, Together, key_of
from openstack_operator.runtime.runner import Runner

log = logs.get("manager")

DRAIN_SECONDS = 20

LOOK_SECONDS, CATCH_UP_SECONDS = 0.1, 10
"""Nothing due for that long is rest; so long a leader that has looked at everything waits for it at most."""

# How long a step may wait for the first LIST of an object that it follows.
FOLLOW_SECONDS = 15

Waker = tuple[Callable[[Key], None], Key]
"""Who is told that a followed object changed, and about which of its own objects."""


@dataclasses.dataclass(frozen=True)
class LeaseSettings:
    """``name`` in ``namespace``; ``identity`` is unique per replica (the pod's name)."""

    namespace: str
    name: str
    identity: str
    duration: float = 15
    renew: float = 5


@dataclasses.dataclass
class _Followed:
    """One object followed by name: the cache that holds it, the task that fills it (None: a shared cache)."""

    informer: Informer
    task: asyncio.Task[None] | None
    wakers: set[Waker] = dataclasses.field(default_factory=set)


class Manager:
    """Everything that one operator process runs.

    ``selectors``: label selector per resource for kinds of which the cluster holds many objects that are not ours
    (Secrets, Pods, …). ``domain`` prefixes the annotations and finalizers that the runtime itself writes.
    """

    def __init__(
        self,
        client: Client,
        controllers: Sequence[Controller[Any]],
        *,
        domain: str,
        namespace: str | None = None,
        selectors: Callable[[kinds.Resource], str | None] = lambda _: None,
        election: LeaseSettings | None = None,
        host: str = "127.0.0.1",
        health_port: int = 0,
        metrics_port: int = 0,
        admission: webhook.Settings | None = None,
    ) -> None:
        self.client, self.domain, self.namespace = client, domain, namespace
        self._selectors, self._election = selectors, election
        instance = election.identity if election is not None else client.manager
        self.events = events.Recorder(client, f"{domain}/{client.manager}", instance)
        self._host, self._health_port, self._metrics_port = host, health_port, metrics_port
        self._informers: dict[kinds.Resource, Informer] = {}
        self._together = Together()
        self._followed: dict[tuple[kinds.Resource, str, str], _Followed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.started = asyncio.Event()
        """Set when all caches are filled: the replica is ready, leading or not."""
        self.runners = [Runner(one, self) for one in controllers]
        for one in controllers:
            for resource in one.reads:
                self.informer(resource)
        judged = [one.kind for one in controllers]
        self.webhook = None if admission is None else webhook.Webhook(self, judged, admission)

    # --- caches ---------------------------------------------------------------------------------------------------

    def informer(self, resource: kinds.Resource) -> Informer:
        """The shared cache of a resource; it must be asked for first before ``run``."""
        if resource not in self._informers:
            if self.started.is_set():
                raise RuntimeError(f"{resource.kind} is read but no controller declares it (owns, watches, reads)")
            namespace = self.namespace if resource.namespaced else None
            selector = self._selectors(resource)
            if resource == kinds.EVENT:
                made = Informer(self.client, resource, namespace, events.WARNINGS, events.trimmed)
            else:
                made = Informer(self.client, resource, namespace, {"labelSelector": selector} if selector else None)
            self._informers[resource] = made
            self._together.add(made)
        return self._informers[resource]

    def cached(self, resource: kinds.Resource, namespace: str | None, name: str) -> Object | None:
        """An object, where a shared cache holds it; None says nothing about whether it exists."""
        informer = self._informers.get(resource)
        return None if informer is None else informer.get(namespace, name)

    def cached_items(self, resource: kinds.Resource, namespace: str | None) -> list[Object]:
        """What the shared caches hold of a kind in a namespace: nothing of a kind that no controller declares."""
        informer = self._informers.get(resource)
        return [] if informer is None else list(informer.items(namespace))

    async def follow(
        self, resource: kinds.Resource, namespace: str, name: str, wake: Callable[[Key], None], key: Key
    ) -> Object | None:
        """One object by name, watched from the first call on; changes wake ``key`` until ``unfollow``.

        For objects that carry no label of ours, such as Secrets that users make. Raises
        ``errors.ApiUnreachableError`` when the server does not let us read it in time.
        """
        where = (resource, namespace, name)
        if where not in self._followed:
            self._followed[where] = self._start_following(resource, namespace, name)
        followed = self._followed[where]
        followed.wakers.add((wake, key))
        try:
            async with asyncio.timeout(FOLLOW_SECONDS):
                await followed.informer.synced.wait()
        except TimeoutError:
            raise errors.ApiUnreachableError(f"{resource.kind} {namespace}/{name} cannot be read") from None
        return followed.informer.get(namespace, name)

    def unfollow(self, wake: Callable[[Key], None], key: Key, keep: Collection[str] = ()) -> None:
        """``key`` is not woken any more by followed objects whose names are not in ``keep``."""
        for where, followed in list(self._followed.items()):
            if where[2] not in keep:
                followed.wakers.discard((wake, key))
                if not followed.wakers:
                    del self._followed[where]
                    if followed.task is not None:
                        followed.task.cancel()
                        self._together.discard(followed.informer)

    def _start_following(self, resource: kinds.Resource, namespace: str, name: str) -> _Followed:
        shared = self._informers.get(resource)
        if shared is not None and not shared.selectors and self.namespace in (None, namespace):
            # The shared cache has it already; one subscription serves all that are followed in it.
            if self._wake_followers not in shared.handlers:
                shared.subscribe(self._wake_followers)
            return _Followed(shared, None)
        informer = Informer(self.client, resource, namespace, {"fieldSelector": f"metadata.name={name}"})
        informer.subscribe(self._wake_followers)
        self._together.add(informer)
        return _Followed(informer, self._spawn(informer.run()))

    def _wake_followers(self, new: Object | None, old: Object | None) -> None:
        item = new or old
        assert item is not None
        for (resource, *place), followed in self._followed.items():
            if resource.kind == item["kind"] and tuple(place) == key_of(item):
                for wake, key in followed.wakers:
                    wake(key)

    # --- life -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begins an orderly end, as SIGTERM does."""
        self._stop.set()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Until ``stop`` or SIGTERM. Raises what ended a task of ours, ``lease.LostError`` among it."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        election: lease.Election | None = None
        async with contextlib.AsyncExitStack() as web:
            for application in await server.start(self._host, self._health_port, self._metrics_port, self._unready):
                web.push_async_callback(application.cleanup)
            try:
                election = self._start_election()
                await self._lead(election)
            finally:
                await self._end(election)
                for number in signals:
                    loop.remove_signal_handler(number)
        if self._failure is not None:
            raise self._failure

    def _unready(self) -> str | None:
        if not self.started.is_set():
            return "caches are not synced yet"
        if self.webhook is not None and not self.webhook.serving.is_set():
            return "the webhook has no certificate yet"
        return None

    async def _lead(self, election: lease.Election | None) -> None:
        caching = [self._spawn(informer.run()) for informer in self._informers.values()]
        if self.webhook is not None:
            self._spawn(self.webhook.watch())
            self._spawn(self.webhook.serve())
        if not await self._reached(self._all_synced()):
            return
        self.started.set()
        log.info("caches synced", resources=len(self._informers))
        if election is not None:
            if not await self._reached(self._true(election.leading)):
                return
            # A warm cache may lag behind what the replica before us wrote last: a password of its would be made anew.
            if election.is_contended and not await self._reached(self._start_caches_over(caching)):
                return
        # Without an election nobody else can be at work.
        metrics.LEADER.set(1)
        if self.webhook is not None:
            self._spawn(self.webhook.watch_configuration())
            self._spawn(self.webhook.lead())
        for runner in self.runners:
            runner.begin()
            self._spawn(runner.work())
            self._spawn(runner.resync())
        if election is not None and await self._reached(self._caught_up()):
            election.tell_caught_up()
        await self._stop.wait()
        if self._failure is None:
            await self._drain()

    def _start_election(self) -> lease.Election | None:
        settings = self._election
        if settings is None:
            return None
        election = lease.Election(
            self.client,
            settings.namespace,
            settings.name,
            settings.identity,
            annotation=f"{self.domain}/{lease.CAUGHT_UP}",
            duration=settings.duration,
            renew=settings.renew,
            answered=self._together.hurry,
        )
        self._spawn(election.run())
        return election

    async def _start_caches_over(self, caching: Sequence[asyncio.Task[None]]) -> None:
        for task in caching:
            task.cancel()
        await asyncio.gather(*caching, return_exceptions=True)
        for informer in self._informers.values():
            informer.start_over()
            self._spawn(informer.run())
        await self._all_synced()

    async def _all_synced(self) -> None:
        for informer in self._informers.values():
            await informer.synced.wait()

    async def _caught_up(self) -> None:
        """Every object was looked at once, and what that led to at once as well, such as what parents say of children
        that are not Ready any more."""
        for runner in self.runners:
            await runner.looked.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                # A queue does not tell when it rests, and this is asked once in a life.
                while not all(runner.queue.is_quiet(LOOK_SECONDS) for runner in self.runners):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)

    async def _true(self, event: asyncio.Event) -> None:
        await event.wait()

    async def _reached(self, work: Coroutine[Any, Any, None]) -> bool:
        """Waits for ``work``; False when the end was called first."""
        waited, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({waited, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return not self._stop.is_set()
        finally:
            waited.cancel()
            stopped.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """No task of ours ends by itself: with one missing the process would be alive and useless."""
        self._tasks.discard(task)
        if task.cancelled() or self._failure is not None:
            return
        self._failure = task.exception() or RuntimeError(f"{task.get_coro()} has ended")
        log.error("task ended", problem=repr(self._failure))
        # Not in an orderly way: a lost lease means that another replica may be at work already.
        for other in self._tasks:
            other.cancel()
        self._stop.set()

    async def _drain(self) -> None:
        """Lets workers finish what they hold; they get nothing new."""
        for runner in self.runners:
            runner.queue.close()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                for runner in self.runners:
                    await runner.queue.idle()
        except TimeoutError:
            log.warning("drain timed out", busy=sum(runner.queue.busy for runner in self.runners))

    async def _end(self, election: lease.Election | None) -> None:
        for runner in self.runners:
            runner.queue.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if election is not None and election.leading.is_set() and not isinstance(self._failure, lease.LostError):
            await election.release()
