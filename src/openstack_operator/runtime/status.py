"""The one writer of status: conditions of a pass and the kind's own fields, written when they changed.

Called by ``runner`` after each pass. Events and the metric of conditions follow from what was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openstack_operator.runtime import conditions, drift, errors, kinds, metrics
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.conditions import Outcome
from openstack_operator.runtime.informer import Key

if TYPE_CHECKING:
    from openstack_operator.runtime.manager import Manager


class Writer:
    """Writes status of objects of one kind."""

    def __init__(self, resource: kinds.Resource, manager: Manager) -> None:
        self._resource, self._manager = resource, manager
        # Hash of the status written last and the resourceVersion that came of it, by uid. It matters only where the
        # server keeps something else than what we wrote (another writer's field): no write again and again.
        self._written: dict[str, tuple[str, str]] = {}
        self._types: dict[Key, set[str]] = {}

    async def write(
        self, item: Object, outcomes: list[tuple[str, Outcome]], ready: Outcome, fields: dict[str, Any]
    ) -> None:
        """Brings the status of an object to what a pass found. An object that is gone meanwhile is fine."""
        metadata = item["metadata"]
        present = item.get("status", {})
        previous = present.get("conditions", [])
        found = conditions.build(outcomes, ready, metadata["generation"], previous)
        self._measure(metadata, found)
        status = drift.without_nulls({**fields, "observedGeneration": metadata["generation"], "conditions": found})
        fingerprint = drift.digest(status)
        if status == present or self._written.get(metadata["uid"]) == (fingerprint, metadata["resourceVersion"]):
            return
        try:
            written = await self._manager.client.apply(
                self._resource,
                # With the uid this can never touch an object of the same name that was made anew.
                {"metadata": {key: metadata[key] for key in ("name", "namespace", "uid")}, "status": status},
                subresource="status",
            )
        except errors.ApiError as problem:
            if problem.status in (404, 409):
                return
            raise
        if written.get("status") != status:
            self._written[metadata["uid"]] = (fingerprint, written["metadata"]["resourceVersion"])
        self._manager.informer(self._resource).observe(written)
        await self._manager.events.transitions(item, previous, found)

    def forget(self, key: Key, uid: str) -> None:
        """The object is gone."""
        self._written.pop(uid, None)
        for name in self._types.pop(key, set()):
            metrics.CONDITION.remove(self._resource.kind, key[0], key[1], name)

    def _measure(self, metadata: Object, found: list[dict[str, Any]]) -> None:
        key = (metadata["namespace"], metadata["name"])
        for condition in found:
            gauge = metrics.CONDITION.labels(self._resource.kind, *key, condition["type"])
            gauge.set(condition["status"] == "True")
        self._types[key] = {condition["type"] for condition in found}
