"""Kubernetes Events: ours, for transitions of conditions (STYLE V1), and what others' Events warn of.

``Recorder`` is called by ``status`` after a write; steps may record destructive actions through ``Scope.event``. The
other half is for caches: of all Events, only the few warnings that say what no status says are kept (``trimmed``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from openstack_operator.runtime import conditions, errors, kinds, logs
from openstack_operator.runtime.client import Client, Object

log = logs.get("events")

WARNINGS = {"fieldSelector": "type=Warning"}
"""With which the cache of Events is filled."""

FAILED_CREATE = "FailedCreate"
"""A workload cannot make its pods: a quota, a limit range, a policy."""
PROVISIONING_FAILED = "ProvisioningFailed"
"""A volume cannot be made."""
UNHEALTHY = "Unhealthy"
"""A probe failed, with what it answered."""
MOUNT_FAILED = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"})
"""A pod's containers cannot be made yet."""

_KEPT = MOUNT_FAILED | {FAILED_CREATE, PROVISIONING_FAILED, UNHEALTHY}

# An event's message has at most 1024 characters; a probe's answer comes in at the end.
LONGEST_WARNING = 500


def trimmed(event: Object) -> Object | None:
    """What a cache keeps of an Event: what it says, of what, and when last; None for those that nobody asks for."""
    if event.get("reason") not in _KEPT:
        return None
    metadata, about = event["metadata"], event.get("involvedObject", {})
    series = event.get("series") or {}
    return {
        "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion", "uid")},
        "involvedObject": {key: about.get(key, "") for key in ("kind", "namespace", "name", "uid", "fieldPath")},
        "reason": event["reason"],
        "message": (event.get("message") or "")[:LONGEST_WARNING],
        "lastTimestamp": event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime") or "",
    }


def newest(events: Iterable[Object], uid: str, *reasons: str) -> Object | None:
    """The last of the (trimmed) Events about an object with one of these reasons."""
    found = [one for one in events if one["involvedObject"]["uid"] == uid and one["reason"] in reasons]
    return max(found, key=lambda one: str(one["lastTimestamp"]), default=None)


class Recorder:
    """Writes Events; a failure to write one is logged and changes nothing else."""

    def __init__(self, client: Client, controller: str, instance: str) -> None:
        """``controller`` names the program (example.org/operator), ``instance`` the replica."""
        self._client, self._controller, self._instance = client, controller, instance

    async def transitions(self, item: Object, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
        """One Event for each condition that became True, stopped being True, or stalled."""
        old = {condition["type"]: condition["status"] for condition in before}
        for condition in after:
            name, status = condition["type"], condition["status"]
            was = old.get(name, "Unknown")
            if was == status or name == conditions.RECONCILING:
                continue
            if name == conditions.STALLED:
                if status == "True":
                    await self.record(item, "Warning", condition["reason"], condition["message"])
            elif status == "True":
                # The condition's own reason is "Ready" for all of them and would tell nothing in the list of Events.
                await self.record(item, "Normal", name, condition["message"] or f"{name} is True")
            elif was == "True":
                await self.record(item, "Warning", condition["reason"], f"{name} is {status}: {condition['message']}")

    async def record(self, item: Object, severity: str, reason: str, message: str) -> None:
        """``severity`` is Normal or Warning."""
        metadata = item["metadata"]
        name = f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}"
        moment = conditions.now()
        body = {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": item["apiVersion"],
                "kind": item["kind"],
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": severity,
            "reason": reason[:128],
            "message": message[:1024],
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
            "source": {"component": self._controller},
            "reportingComponent": self._controller,
            "reportingInstance": self._instance[:128],
        }
        try:
            await self._client.create(kinds.EVENT, body)
        except (errors.ApiError, errors.ApiUnreachableError) as problem:
            log.warning("event not written", reason=reason, problem=str(problem))
