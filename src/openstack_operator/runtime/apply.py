"""Children of the objects of one controller: server-side apply that costs no request when nothing drifted.

A child carries an annotation with the hash of what was applied last (finds fields that we stopped setting) and is
compared with what is wanted now (finds edits by others). Called through ``controller.Scope.apply``.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from openstack_operator.runtime import conditions, drift, errors, kinds, logs, metrics, schema
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.informer import Key, key_of

if TYPE_CHECKING:
    from openstack_operator.runtime.manager import Manager

log = logs.get("apply")

# Maps of which every entry is ours: an entry that somebody adds changes what the child does. Server-side apply leaves
# entries of others alone, so these are taken out explicitly.
_MAP: Object = {"additionalProperties": {}}
_WHOLE_MAPS: dict[kinds.Resource, Object] = {
    kinds.CONFIGMAP: {"properties": {"data": _MAP}},
    kinds.SECRET: {"properties": {"data": _MAP}},
    kinds.SERVICE: {"properties": {"spec": {"properties": {"selector": _MAP}}}},
}

Place = tuple[kinds.Resource, str | None, str]
"""Resource, namespace and name of a child."""


class Children:
    """Applies children for objects of ``resource``. What it remembers only saves requests."""

    def __init__(self, resource: kinds.Resource, manager: Manager) -> None:
        self._resource, self._manager = resource, manager
        self._annotation = f"{manager.domain}/applied"
        # Hash and resourceVersion of children that the server writes differently from what we apply: applied and
        # unchanged since, though not literally a superset of what we want.
        self._settled: dict[Place, tuple[str, str]] = {}
        # Objects that wait for a name that another object's child holds.
        self._contenders: dict[Place, set[Key]] = {}
        self._maps = dict(_WHOLE_MAPS)

    async def apply(self, owner: Object, resource: kinds.Resource, body: Object, *, owned: bool) -> Object:
        """``Scope.apply``."""
        wanted = self._complete(owner, resource, body, owned)
        metadata = wanted["metadata"]
        informer = self._manager.informer(resource)
        _check_labels(informer.selectors.get("labelSelector"), resource, metadata)
        place = (resource, metadata["namespace"], metadata["name"])
        fingerprint = metadata["annotations"][self._annotation]
        present = informer.get(metadata["namespace"], metadata["name"])
        if present is not None:
            if owned:
                self._check_owner(owner, present, place)
            present = await self._without_foreign_entries(resource, wanted, present)
            drifted = drift.difference(wanted, present)
            if not drifted or self._settled.get(place) == (fingerprint, present["metadata"]["resourceVersion"]):
                return present
            if self._is_applied(wanted, present):
                # Somebody else changed it, or the server writes it in another way.
                metrics.REPAIRS.labels(self._resource.kind, resource.kind).inc()
                log.info("repaired", resource=str(resource), name=metadata["name"], field=drifted)
        written = await self._manager.client.apply(resource, wanted)
        if normalised := drift.difference(wanted, written):
            self._settled[place] = (fingerprint, written["metadata"]["resourceVersion"])
            log.debug("written differently by the server", resource=str(resource), field=normalised)
        informer.observe(written)
        return written

    async def _without_foreign_entries(self, resource: kinds.Resource, wanted: Object, present: Object) -> Object:
        """The child after entries that others put into ``_WHOLE_MAPS`` were taken out; no request where there are
        none."""
        if resource not in _WHOLE_MAPS and not self._is_applied(wanted, present):
            # What we ourselves have put in goes with the apply.
            return present
        maps = self._maps.get(resource)
        if maps is None:
            maps = self._maps[resource] = self._own_maps(resource)
        patch = drift.without_foreign_entries(maps, wanted, present)
        if not patch:
            return present
        metadata, entries = present["metadata"], _names(patch)
        # Only of the child that was looked at: entries of a newer one may be what is wanted next.
        patch["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
        try:
            written = await self._manager.client.merge(resource, metadata["name"], metadata["namespace"], patch)
        except errors.ApiError as problem:
            if problem.status not in (404, 409):
                raise
            # There is a newer one, or none any more: the event that tells of it wakes us, and it is looked at then.
            return present
        metrics.REPAIRS.labels(self._resource.kind, resource.kind).inc()
        log.info("foreign entries taken out", resource=str(resource), name=metadata["name"], entries=entries)
        self._manager.informer(resource).observe(written)
        return written

    def _is_applied(self, wanted: Object, present: Object) -> bool:
        """Whether this is what was applied last."""
        noted: Object = present["metadata"].get("annotations", {})
        return bool(noted.get(self._annotation) == wanted["metadata"]["annotations"][self._annotation])

    def _own_maps(self, resource: kinds.Resource) -> Object:
        """Every map in the spec of one of our own kinds."""
        for runner in self._manager.runners:
            if runner.controller.kind.resource == resource:
                return {"properties": {"spec": schema.maps(runner.controller.kind.spec)}}
        return {}

    def changed(self, resource: kinds.Resource, new: Object | None, old: Object | None) -> set[Key]:
        """Takes note of a child's event; returns objects that may try again because of it."""
        item = new or old
        assert item is not None
        place = (resource, *key_of(item))
        if new is None:
            self._settled.pop(place, None)
        return self._contenders.pop(place, set())

    def _complete(self, owner: Object, resource: kinds.Resource, body: Object, owned: bool) -> Object:
        body = drift.without_nulls(body)
        if resource == kinds.SECRET and "stringData" in body:
            # Write-only: the server would never give it back, and every comparison would fail.
            text = body.pop("stringData")
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            body["data"] = {**body.get("data", {}), **encoded}
        metadata = {**body.get("metadata", {}), "namespace": owner["metadata"]["namespace"]}
        # A child that is owned no longer must be applied again, so that the reference goes.
        fingerprint = drift.digest(body if owned else {"unowned": body})
        metadata["annotations"] = {**metadata.get("annotations", {}), self._annotation: fingerprint}
        if owned:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": self._resource.api_version,
                    "kind": self._resource.kind,
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]
        return {**body, "metadata": metadata}

    def _check_owner(self, owner: Object, present: Object, place: Place) -> None:
        """Raises ``errors.Waiting`` or ``errors.Stalled`` when the child is another object's."""
        holder = controller_uid(present)
        if holder is None or holder == owner["metadata"]["uid"]:
            return
        self._contenders.setdefault(place, set()).add(key_of(owner))
        child = f"{place[0].kind} {place[1]}/{place[2]}"
        if "deletionTimestamp" in present["metadata"] or not self._is_held(present):
            raise errors.Waiting(conditions.REASON_NAME_IN_USE, f"{child} of a deleted object is still going away")
        reference = _controller(present)
        raise errors.Stalled(
            conditions.REASON_NAME_IN_USE,
            f"{child} belongs to {reference['kind']} {reference['name']}: rename one of the two",
        )

    def _is_held(self, child: Object) -> bool:
        """Whether the owner still exists, as far as we can see: a deleted one leaves its children to the garbage
        collector."""
        reference = _controller(child)
        for runner in self._manager.runners:
            resource = runner.controller.kind.resource
            if (reference["kind"], _group(reference)) == (resource.kind, resource.group):
                current = self._manager.informer(resource).get(child["metadata"]["namespace"], reference["name"])
                return current is not None and current["metadata"]["uid"] == reference["uid"]
        return True


def owners(item: Object, resource: kinds.Resource) -> list[Key]:
    """Keys of the objects of a kind that control the item: one or none."""
    reference = _controller(item)
    if not reference or (reference["kind"], _group(reference)) != (resource.kind, resource.group):
        return []
    return [(item["metadata"].get("namespace"), reference["name"])]


def controller_uid(item: Object) -> str | None:
    """uid of the object that controls the item."""
    return _controller(item).get("uid")


def _controller(item: Object) -> Object:
    references: list[Object] = item["metadata"].get("ownerReferences", [])
    return next((reference for reference in references if reference.get("controller")), {})


def _group(reference: Object) -> str:
    group: str = reference["apiVersion"].rpartition("/")[0]
    return group


def _names(patch: Object) -> list[str]:
    """Keys that a patch takes out."""
    return [name for key, below in patch.items() for name in ([key] if below is None else _names(below))]


def _check_labels(selector: str | None, resource: kinds.Resource, metadata: Object) -> None:
    """A child that the cache's own label selector leaves out would look missing for ever. Understands `a`, `a=b`."""
    for term in filter(None, (selector or "").split(",")):
        key, _, value = term.partition("=")
        labels = metadata.get("labels", {})
        if key not in labels or (value and labels[key] != value):
            raise ValueError(f"{resource.kind} {metadata['name']} lacks the label {term}, which the cache selects by")
