"""A namespace with toys in it, an operator that works there, what can go wrong between it and its API server, and ways
to wait for what they do without sleeping. Used by the fixtures in conftest.py and by the tests."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import toy

import watching
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import client, conditions, controller, kinds, manager

Object = dict[str, Any]
TIMEOUT_SECONDS = 20


def install_toys(control_plane: ControlPlane) -> None:
    control_plane.apply(toy.crd())
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/{toy.RESOURCE.full_name}", "--timeout=20s")


@dataclasses.dataclass
class World:
    """One namespace of one API server, as a user sees it."""

    control_plane: ControlPlane
    namespace: str
    api: client.Client
    marks: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    # --- what a user does -----------------------------------------------------------------------------------------

    def path(self, resource: kinds.Resource, name: str | None = None, subresource: str | None = None) -> str:
        return resource.path(self.namespace if resource.namespaced else None, name, subresource)

    async def create(self, name: str = "one", **spec: Any) -> Object:
        body = {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
        return await self.api.create(toy.RESOURCE, body)

    async def secret(self, name: str, **data: str) -> Object:
        """Values are base64."""
        body = {"metadata": {"name": name, "namespace": self.namespace}, "data": data}
        return await self.api.create(kinds.SECRET, body)

    async def patch(self, resource: kinds.Resource, name: str, patch: Object, subresource: str | None = None) -> Object:
        path = self.path(resource, name, subresource)
        return await self.api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    async def set_ready(self, name: str = "one", replicas: int = 1) -> None:
        """Does the work of the deployment controller."""
        status = {"replicas": replicas, "readyReplicas": replicas}
        await self.patch(kinds.DEPLOYMENT, name, {"status": status}, "status")

    async def delete(self, resource: kinds.Resource, name: str = "one") -> None:
        await self.api.delete(resource, name, self.namespace)

    async def find(self, resource: kinds.Resource, name: str = "one") -> Object | None:
        return await watching.find(self.api, resource, self.namespace, name)

    async def until(
        self, resource: kinds.Resource, condition: Callable[[Object | None], Any], name: str = "one"
    ) -> Any:
        """Watches one object until the condition (of the object, None when there is none) is true; returns it."""
        return await watching.until(self.api, resource, self.namespace, name, condition, TIMEOUT_SECONDS)

    async def until_ready(self, name: str = "one", status: str = "True", reason: str = "") -> Object:
        """Waits for Ready with a status and a reason for the present generation."""

        def is_met(item: Object | None) -> bool:
            ready = conditions.find(item, conditions.READY)
            if item is None or ready is None:
                return False
            is_current = ready["observedGeneration"] == item["metadata"]["generation"]
            return is_current and ready["status"] == status and (not reason or ready["reason"] == reason)

        found: Object = await self.until(toy.RESOURCE, is_met, name)
        return found

    # --- operators ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def operator(
        self,
        *controllers: controller.Controller[Any],
        server: str | None = None,
        silence: float = client.WATCH_SILENCE_SECONDS,
        **settings: Any,
    ) -> AsyncIterator[Operator]:
        """A running operator with synced caches; it has ended when the block is left."""
        config = client.Config.from_kubeconfig(self.control_plane.kubeconfig)
        if server:
            config = dataclasses.replace(config, server=server)
        name = f"operator-{uuid.uuid4().hex[:8]}"
        async with client.Client(config, name, silence=silence) as api:
            settings = {"domain": toy.DOMAIN, "namespace": self.namespace, **settings}
            running = manager.Manager(api, controllers or (toy.toys(),), **settings)
            operator = Operator(self, running, name, asyncio.ensure_future(running.run(handle_signals=False)))
            try:
                await operator.until_synced()
                yield operator
            finally:
                running.stop()
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.shield(operator.task), TIMEOUT_SECONDS)
                operator.task.cancel()

    def requests(self, agent: str, since: int = 0) -> list[tuple[str, str, str]]:
        """Verb, resource and name of each request that a program made; events and the requests that end with the
        program are left out."""
        found = []
        for event in self.control_plane.audit_events(since):
            reference = event.get("objectRef", {})
            if event.get("userAgent") == agent and event["stage"] == "ResponseComplete" and event["verb"] != "watch":
                resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
                if resource != "events":
                    found.append((event["verb"], resource, reference.get("name", "")))
        return found


@dataclasses.dataclass
class Operator:
    world: World
    manager: manager.Manager
    agent: str
    task: asyncio.Task[None]

    async def until_synced(self) -> None:
        await watching.eventually(lambda: self.manager.started.is_set() or self.task.done(), "caches synced")

    async def settle(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Returns when the operator has seen everything that was done so far and has nothing left to do now.

        A mark in each kind shows how far its caches are: watches deliver in order.
        """
        mark = str(next(self.world.marks))
        body: Object = {"metadata": {"name": "mark", "namespace": self.world.namespace, "labels": {"mark": mark}}}
        bodies = {
            kinds.CONFIGMAP: {},
            kinds.SECRET: {},
            kinds.DEPLOYMENT: {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}}},
        }  # fmt: skip
        for resource, rest in bodies.items():
            await self.world.api.apply(resource, {**body, **rest})
            informer = self.manager.informer(resource)

            def is_seen(informer: Any = informer) -> bool:
                item = informer.get(self.world.namespace, "mark")
                return item is not None and item["metadata"].get("labels", {}).get("mark") == mark

            await watching.eventually(is_seen, f"mark in {resource.kind}")
        await watching.eventually(self.is_quiet, "nothing left to do", seconds)

    def is_quiet(self) -> bool:
        queues = [runner.queue for runner in self.manager.runners]
        return not any(queue.busy or len(queue) or queue.soon(1.0) for queue in queues)

    def requests(self, since: int = 0) -> list[tuple[str, str, str]]:
        return self.world.requests(self.agent, since)


class Proxy:
    """Bytes between an operator and its API server, to be cut, swallowed or refused."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("https://").partition(":")
        self._host, self._port = host, int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._server: asyncio.Server | None = None
        self.url = ""
        self.is_refusing = False
        self.connections = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Aborted transports close in the next round of the loop.
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Ends all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def hang(self, *, new_ones: bool = False) -> None:
        """Open connections stay open and nothing passes any more; so do new ones, or they work."""
        self._passing.clear()
        if not new_ones:
            self._passing = asyncio.Event()
            self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_refusing:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._pump(source, target, self._passing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, passing: asyncio.Event) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    await passing.wait()
                    target.write(data)
                    await target.drain()
        finally:
            target.transport.abort()
            self._writers.discard(target)
