"""One namespace of a real cluster without nodes: what a user does there, an operator at work, and waits by watches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import kubelet

import watching
from openstack_operator.cli import run
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import credentials, labels
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client, conditions, controller, kinds, manager, webhook

Object = dict[str, Any]
TIMEOUT_SECONDS = 30
HASH = "openstack.k8s.io/config-hash"


def decoded(secret: Object | None) -> dict[str, str]:
    assert secret is not None
    return {key: base64.b64decode(value).decode() for key, value in secret.get("data", {}).items()}


def condition(item: Object | None, name: str) -> tuple[str, str, str]:
    """Status, reason and message."""
    found = conditions.find(item, name) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def states(item: Object) -> list[tuple[str, str, str]]:
    """Type, status and reason of all conditions, in their order."""
    return [(one["type"], one["status"], one["reason"]) for one in item["status"]["conditions"]]


@dataclasses.dataclass
class World:
    """The namespace as a user sees it, and the node that runs its pods."""

    cluster: ControlPlane
    namespace: str
    api: client.Client
    node: kubelet.Kubelet
    seconds: float = TIMEOUT_SECONDS
    """How long `until` waits."""
    network: Any = None
    """Where real servers run, in tests that have some."""

    # --- what a user does -----------------------------------------------------------------------------------------

    async def create(self, resource: kinds.Resource, name: str, spec: Object | None = None, **rest: Any) -> Object:
        body: Object = {"metadata": {"name": name, "namespace": self.namespace}, **rest}
        if spec is not None:
            body["spec"] = spec
        return await self.api.create(resource, body)

    async def secret(self, name: str, **values: str | bytes) -> Object:
        data = {
            key: base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
            for key, value in values.items()
        }
        return await self.create(kinds.SECRET, name, data=data)

    async def patch(self, resource: kinds.Resource, name: str, patch: Object, subresource: str | None = None) -> Object:
        path = resource.path(self.namespace if resource.namespaced else None, name, subresource)
        return await self.api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    async def delete(self, resource: kinds.Resource, name: str) -> None:
        await self.api.delete(resource, name, self.namespace)

    async def find(self, resource: kinds.Resource, name: str) -> Object | None:
        return await watching.find(self.api, resource, self.namespace, name)

    async def get(self, resource: kinds.Resource, name: str) -> Object:
        return await self.api.get(resource, name, self.namespace)

    async def all(self, resource: kinds.Resource) -> list[Object]:
        return [item async for page in self.api.list_pages(resource, self.namespace, {}) for item in page["items"]]

    async def names(self, resource: kinds.Resource) -> list[str]:
        """Names of what carries the operator's label."""
        selectors = {"labelSelector": labels.SELECTOR}
        pages = self.api.list_pages(resource, self.namespace, selectors)
        return sorted([item["metadata"]["name"] async for page in pages for item in page["items"]])

    async def until(self, resource: kinds.Resource, is_met: Callable[[Object | None], Any], name: str) -> Any:
        """Watches one object until the condition (of the object, None when there is none) is true; returns it."""
        return await watching.until(self.api, resource, self.namespace, name, is_met, self.seconds)

    async def until_condition(
        self, resource: kinds.Resource, name: str, kind: str, status: str = "True", reason: str = "", text: str = ""
    ) -> Object:
        """Waits for a condition of the present generation."""

        def is_met(item: Object | None) -> bool:
            found = conditions.find(item, kind)
            if item is None or found is None or found["observedGeneration"] != item["metadata"]["generation"]:
                return False
            return found["status"] == status and reason in ("", found["reason"]) and text in found["message"]

        found: Object = await self.until(resource, is_met, name)
        return found

    async def until_ready(self, resource: kinds.Resource, name: str) -> Object:
        return await self.until_condition(resource, name, "Ready")

    async def until_gone(self, resource: kinds.Resource, name: str) -> None:
        await self.until(resource, lambda item: item is None, name)

    # --- what others' controllers do --------------------------------------------------------------------------------

    async def grant(self, resource: kinds.Resource, field: str, name: str, *wanted: str, without: str = "") -> None:
        """Does what the controller of a MariaDB or RabbitMQ does, where that one does not run: says in status that the
        requests are granted, with the credentials that stand in their Secrets now; all but one, if it is named."""

        def is_asked(item: Object | None) -> bool:
            return item is not None and {one["name"] for one in item["spec"].get(field, [])} >= set(wanted)

        item = await self.until(resource, is_asked, name)
        granted = []
        for request in item["spec"].get(field, []):
            if request["name"] == without:
                continue
            secret = await self.get(kinds.SECRET, request["secretRef"]["name"])
            known = credentials.fingerprint(secret)
            user = decoded(secret)["user"]
            granted.append({"name": request["name"], "user": user, "secretHash": known})
        await self.patch(resource, name, {"status": {field: granted}}, "status")

    async def play_servers(self) -> None:
        """Grants every request to every MariaDB and RabbitMQ of the namespace, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, field in ((ours.MARIADB, "databases"), (ours.RABBITMQ, "vhosts")):
                group.create_task(self._play(resource, field))

    async def _play(self, resource: kinds.Resource, field: str) -> None:
        while True:
            async for page in self.api.list_pages(resource, self.namespace, {}):
                for item in page["items"]:
                    await self.grant(resource, field, item["metadata"]["name"])
            version = page["metadata"]["resourceVersion"]
            async with contextlib.aclosing(self.api.watch(resource, self.namespace, {}, version)) as stream:
                async for event in stream:
                    if event["type"] in ("ADDED", "MODIFIED"):
                        wanted = {one["name"] for one in event["object"]["spec"].get(field, [])}
                        stands = {one["name"] for one in event["object"].get("status", {}).get(field, [])}
                        if wanted != stands:
                            await self.grant(resource, field, event["object"]["metadata"]["name"])

    async def set_ready(
        self, resource: kinds.Resource, name: str, status: str = "True", reason: str = "Ready", message: str = ""
    ) -> None:
        """Does what the object's own controller does, where that one does not run: writes its Ready condition, and
        Stalled when the status is `Stalled`."""
        item = await self.until(resource, lambda item: item is not None, name)
        is_stalled = status == "Stalled"
        common = {
            "reason": reason,
            "message": message,
            "observedGeneration": item["metadata"]["generation"],
            "lastTransitionTime": conditions.now(),
        }
        found = [
            {"type": "Ready", "status": "False" if is_stalled else status, **common},
            {"type": "Stalled", "status": "True" if is_stalled else "False", **common},
        ]
        await self.patch(resource, name, {"status": {"conditions": found}}, "status")

    # --- operators --------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def operator(
        self,
        *services: str,
        controllers: tuple[controller.Controller[Any], ...] = (),
        config: client.Config | None = None,
        admission: webhook.Settings | None = None,
        metrics_port: int = 0,
    ) -> AsyncIterator[Operator]:
        """A running operator with the controllers of these services (`run --controllers=…`) and synced caches."""
        config = config or client.Config.from_kubeconfig(self.cluster.kubeconfig)
        async with client.Client(config, run.FIELD_MANAGER) as api:
            running = manager.Manager(
                api,
                [*run.choose(services), *controllers],
                domain=ours.DOMAIN,
                namespace=self.namespace,
                selectors=labels.selector_for,
                admission=admission,
                metrics_port=metrics_port,
            )
            operator = Operator(self, running, asyncio.ensure_future(running.run(handle_signals=False)))
            try:
                await watching.eventually(lambda: running.started.is_set() or operator.task.done(), "caches synced")
                yield operator
            finally:
                running.stop()
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.shield(operator.task), TIMEOUT_SECONDS)
                operator.task.cancel()

    def requests(self, since: int = 0) -> list[tuple[str, str, str, int]]:
        """Verb, resource, name and answer of each request that operators made in this namespace; Events and watches
        are left out."""
        found = []
        for event in self.cluster.audit_events(since):
            reference = event.get("objectRef", {})
            is_ours = event.get("userAgent") == run.FIELD_MANAGER and reference.get("namespace") == self.namespace
            if is_ours and event["stage"] == "ResponseComplete" and event["verb"] != "watch":
                resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
                if resource != "events":
                    code = event["responseStatus"]["code"]
                    found.append((event["verb"], resource, reference.get("name", ""), code))
        return found


@dataclasses.dataclass
class Operator:
    world: World
    manager: manager.Manager
    task: asyncio.Task[None]

    async def settle(self) -> None:
        """Returns when nothing is left to do, but for what backs off, and nothing came in for a while."""
        quiet_since = time.monotonic()

        def is_settled() -> bool:
            nonlocal quiet_since
            queues = [runner.queue for runner in self.manager.runners]
            if any(queue.busy or len(queue) or queue.soon(0.1) for queue in queues):
                quiet_since = time.monotonic()
            return time.monotonic() - quiet_since > 0.15

        await watching.eventually(is_settled, "the operator is quiet")
