"""What users mount into pods beside what is ours: volumes and mounts of `extraMounts`, and collisions with our own.

Called by `workloads`, for all pods of all services alike. Paths that every pod has of ours, and those that no pod can
do without, are refused at admission as well (`reserved`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openstack_operator.kit import config
from openstack_operator.kit.types import ExtraMount
from openstack_operator.runtime import errors

SCRATCH = "scratch-"
"""Names of empty volumes begin so: something may be mounted inside of them."""

_OURS = {config.SOURCE: "config-data", config.MERGED: "config-data-merged", config.SCRIPTS: "scripts"}
_SYSTEM = ("/dev", "/proc", "/sys", "/var/run/secrets/kubernetes.io")


def reserved(mount: ExtraMount) -> str:
    """What keeps a path from being mounted to in any pod, if anything does."""
    for path, name in _OURS.items():
        if _meet(mount.mount_path, path):
            return f"{mount.mount_path} collides with {path}, which is ours ({name})"
    for path in _SYSTEM:
        if _meet(mount.mount_path, path):
            return f"{mount.mount_path} collides with {path}, which every container needs"
    return ""


def chosen(mounts: Iterable[ExtraMount], component: str) -> tuple[ExtraMount, ...]:
    """Those of a component, in an order that does not depend on how they are listed."""
    found = (one for one in mounts if not one.components or component in one.components)
    return tuple(sorted(found, key=lambda one: one.mount_path))


def volumes(mounts: Sequence[ExtraMount]) -> list[dict[str, Any]]:
    """One volume for each source."""
    found: dict[str, dict[str, Any]] = {}
    for one in mounts:
        if one.secret_name:
            source: dict[str, Any] = {"secret": {"secretName": one.secret_name, "defaultMode": 0o440}}
        elif one.config_map_name:
            source = {"configMap": {"name": one.config_map_name, "defaultMode": 0o444}}
        else:
            source = {"persistentVolumeClaim": {"claimName": one.claim_name}}
        found[_name(one)] = {"name": _name(one), **source}
    return [found[name] for name in sorted(found)]


def add(mounts: Sequence[ExtraMount], ours: Sequence[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    """The mounts of a container, after ours. Raises ``errors.Stalled`` for one that would hide ours, or lie in it."""
    taken = list(ours)
    found = []
    for one in mounts:
        if why := reserved(one):
            raise errors.Stalled("MountCollision", f"extraMounts: {why}")
        for other in taken:
            path, name = other["mountPath"], other["name"]
            is_inside_scratch = name.startswith(SCRATCH) and one.mount_path.startswith(f"{path}/")
            if _meet(one.mount_path, path) and not is_inside_scratch:
                message = f"extraMounts: {one.mount_path} collides with {path} ({name}) in the pods of {where}"
                raise errors.Stalled("MountCollision", message)
        mount: dict[str, Any] = {"name": _name(one), "mountPath": one.mount_path, "readOnly": one.read_only}
        if one.sub_path:
            mount["subPath"] = one.sub_path
        found.append(mount)
        taken.append(mount)
    return found


def _meet(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _name(one: ExtraMount) -> str:
    """Names of objects may have dots and be long; names of volumes may not."""
    source = "/".join((one.secret_name or "", one.config_map_name or "", one.claim_name or ""))
    return f"extra-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
