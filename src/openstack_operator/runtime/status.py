"""The one writer of status: conditions of a pass and the kind's own fields, written when they changed.

Called by ``runner`` after each pass. Events and the metric of conditions follow from what was written.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from openstack_operator.runtime import conditions, drift, errors, kinds, metrics
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.conditions import Outcome
from openstack_operator.runtime.informer import Key

if TYPE_CHECKING:
    from openstack_operator.runtime.manager import Manager

# During a rollout messages change with every event of a pod, and each write wakes whoever mirrors them: one write in
# two seconds is as much as anybody reads.
MESSAGE_SECONDS = 2.0


class Writer:
    """Writes status of objects of one kind."""

    def __init__(self, resource: kinds.Resource, manager: Manager) -> None:
        self._resource, self._manager = resource, manager
        # Hash of the status written last and the resourceVersion that came of it, by uid. It matters only where the
        # server keeps something else than what we wrote (another writer's field): no write again and again.
        self._written: dict[str, tuple[str, str]] = {}
        # The status that objects have by us, by uid, from before the request that writes it: a watch may be faster than
        # its answer.
        self._told: dict[str, Any] = {}
        # When the status of an object was written last, in seconds of the monotonic clock, by uid.
        self._at: dict[str, float] = {}

    async def write(
        self, item: Object, outcomes: list[tuple[str, Outcome]], ready: Outcome, fields: dict[str, Any]
    ) -> float | None:
        """Brings the status of an object to what a pass found. An object that is gone meanwhile is fine.

        Returns the seconds after which the object must be looked at again, where nothing but messages changed so soon
        after the last write that they were left out; else None.
        """
        metadata = item["metadata"]
        present = item.get("status", {})
        previous = present.get("conditions", [])
        found = conditions.build(outcomes, ready, metadata["generation"], previous)
        states = {condition["type"]: condition["status"] == "True" for condition in found}
        metrics.CONDITIONS.show(self._resource.kind, (metadata["namespace"], metadata["name"]), states)
        status = drift.without_nulls({**fields, "observedGeneration": metadata["generation"], "conditions": found})
        if status == present:
            return None
        known = self._written.get(metadata["uid"])
        if known is not None and known == (drift.digest(status), metadata["resourceVersion"]):
            return None
        left = self._at.get(metadata["uid"], -MESSAGE_SECONDS) + MESSAGE_SECONDS - time.monotonic()
        if left > 0 and _without_messages(status) == _without_messages(present):
            return left
        self._told[metadata["uid"]] = status
        try:
            written = await self._manager.client.apply(
                self._resource,
                # With the uid this can never touch an object of the same name that was made anew.
                {"metadata": {key: metadata[key] for key in ("name", "namespace", "uid")}, "status": status},
                subresource="status",
            )
        except errors.ApiError as problem:
            if problem.status in (404, 409):
                return None
            raise
        self._at[metadata["uid"]] = time.monotonic()
        if written.get("status") != status:
            self._written[metadata["uid"]] = (drift.digest(status), written["metadata"]["resourceVersion"])
        informer = self._manager.informer(self._resource)
        informer.observe(written)
        cached = informer.get(metadata["namespace"], metadata["name"]) or written
        # The one in the cache where it is the same: two copies of every status are worth some megabytes.
        is_same = cached["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
        self._told[metadata["uid"]] = (cached if is_same else written).get("status")
        await self._manager.events.transitions(item, previous, found)
        return None

    def is_edited(self, new: Object, old: Object) -> bool:
        """Whether somebody else wrote the status of an object."""
        status = new.get("status")
        return bool(status != old.get("status") and status != self._told.get(new["metadata"]["uid"]))

    def forget(self, key: Key, uid: str) -> None:
        """The object is gone."""
        self._told.pop(uid, None)
        self._written.pop(uid, None)
        self._at.pop(uid, None)
        metrics.CONDITIONS.show(self._resource.kind, key, {})


def _without_messages(status: dict[str, Any]) -> dict[str, Any]:
    found = [{**condition, "message": ""} for condition in status.get("conditions", [])]
    return {**status, "conditions": found}
