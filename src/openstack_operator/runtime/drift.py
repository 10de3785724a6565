"""Does a cached object still hold everything that we want of it?

Two questions, both needed: ``difference`` finds drift in fields that we set (someone edited a child), the hash
annotation finds fields that we stopped setting. Pure; called by ``apply``.

The comparison follows what the API server does with an applied object: it drops empty maps and lists, writes
quantities in its own way ("0.5" becomes "500m"), and lets others add entries to lists that have a merge key (a
mesh's side car). Anything else that it normalises costs one request per restart; ``difference`` names the field, so
that the builder can write it the way the server does.
"""

from __future__ import annotations

import decimal
import hashlib
from typing import Any

import msgspec

# Lists that the server merges by a key of their entries. All other lists are compared as a whole.
_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ownerReferences": "uid",
}

# Plain maps, which the server does not store when they are empty. An empty struct such as `emptyDir: {}` means
# something and is stored.
_MAPS = frozenset({"labels", "annotations", "data", "binaryData", "nodeSelector", "matchLabels", "limits", "requests"})

# Maps and fields whose values are quantities.
_QUANTITIES = frozenset({"limits", "requests", "sizeLimit"})

_CONTAINERS = (dict, list, tuple)

_SUFFIXES = {
    "n": decimal.Decimal("1e-9"),
    "u": decimal.Decimal("1e-6"),
    "m": decimal.Decimal("1e-3"),
    "k": decimal.Decimal(10**3),
    **{letter: decimal.Decimal(10 ** (3 * power)) for power, letter in enumerate("MGTPE", start=2)},
    **{f"{letter}i": decimal.Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


def is_subset(wanted: Any, actual: Any) -> bool:
    """Whether every value in ``wanted`` stands in ``actual``."""
    return difference(wanted, actual) is None


def difference(wanted: Any, actual: Any, path: str = "", *, quantity: bool = False) -> str | None:
    """The path of the first value in ``wanted`` that does not stand in ``actual``, or None. None as a wanted value
    means that the field is not set."""
    name = path.rpartition(".")[2]
    if wanted is None:
        return None if actual in (None, [], {}) else path
    # `value` is an environment variable's.
    if actual is None and (wanted == [] or (wanted == {} and name in _MAPS) or (wanted == "" and name == "value")):
        return None
    if isinstance(wanted, dict):
        if not isinstance(actual, dict):
            return path or "."
        for key, value in wanted.items():
            have = actual.get(key)
            # Most of it is equal, which is seen at once and needs no path.
            if value is not None and value == have:
                continue
            inside = quantity or key in _QUANTITIES
            if found := difference(value, have, f"{path}.{key}", quantity=inside):
                return found
        return None
    if isinstance(wanted, list):
        return _list_difference(wanted, actual, path)
    if wanted == actual or (quantity and _is_same_quantity(wanted, actual)):
        return None
    return path or "."


def _list_difference(wanted: list[Any], actual: Any, path: str) -> str | None:
    if not isinstance(actual, list):
        return path or "."
    merge_key = _MERGE_KEYS.get(path.rpartition(".")[2])
    if merge_key and all(isinstance(entry, dict) and merge_key in entry for entry in (*wanted, *actual)):
        present = {entry[merge_key]: entry for entry in actual}
        for entry in wanted:
            have = present.get(entry[merge_key])
            if entry != have and (found := difference(entry, have, f"{path}[{entry[merge_key]}]")):
                return found
        return None
    if len(wanted) != len(actual):
        return path or "."
    for index, (one, other) in enumerate(zip(wanted, actual, strict=True)):
        if one != other and (found := difference(one, other, f"{path}[{index}]")):
            return found
    return None


def _is_same_quantity(one: Any, other: Any) -> bool:
    try:
        return _quantity(str(one)) == _quantity(str(other))
    except decimal.InvalidOperation:
        return False


def _quantity(text: str) -> decimal.Decimal:
    for length in (2, 1):
        if text[-length:] in _SUFFIXES:
            return decimal.Decimal(text[:-length]) * _SUFFIXES[text[-length:]]
    return decimal.Decimal(text)


def without_nulls(value: Any) -> Any:
    """A copy without dictionary entries that are None: to the server they are fields that we set to null."""
    if isinstance(value, dict):
        return {
            key: without_nulls(entry) if isinstance(entry, _CONTAINERS) else entry
            for key, entry in value.items()
            if entry is not None
        }
    if isinstance(value, _CONTAINERS):
        return [without_nulls(entry) if isinstance(entry, _CONTAINERS) else entry for entry in value]
    return value


def foreign_keys(wanted: Any, actual: Any) -> list[str]:
    """Keys of the map ``actual`` that ``wanted`` does not have; sorted."""
    return sorted((actual or {}).keys() - (wanted or {}).keys())


def without_foreign_entries(schema: dict[str, Any], wanted: Any, actual: Any) -> dict[str, Any]:
    """The merge patch that takes out of every map in ``actual`` that ``wanted`` speaks of what ``wanted`` has not;
    empty where there is nothing. ``schema`` (OpenAPI) tells maps from structs."""
    patch: dict[str, Any] = {}
    # Below what the schema says nothing of there is no map.
    if not schema or not isinstance(wanted, dict) or not isinstance(actual, dict):
        return patch
    entries = schema.get("additionalProperties")
    if isinstance(entries, dict):
        patch = dict.fromkeys(foreign_keys(wanted, actual))
    for key in wanted.keys() & actual.keys():
        below = entries if isinstance(entries, dict) else schema.get("properties", {}).get(key, {})
        if inside := without_foreign_entries(below, wanted[key], actual[key]):
            patch[key] = inside
    return patch


def digest(value: Any) -> str:
    """A short stable hash of JSON-like data; the order of dictionary keys does not matter."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]
