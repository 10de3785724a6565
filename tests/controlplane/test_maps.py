"""The maps of our kinds, which are found from their types, are those of their schemas."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import controlplane
from openstack_operator.runtime import kinds, schema
from openstack_operator.runtime.kinds import Kind

KINDS = [kind for service in controlplane.EVERYTHING for kind in service.kinds]


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """What of a schema leads to maps."""
    out: dict[str, Any] = {}
    if isinstance(entries := found.get("additionalProperties"), dict):
        out["additionalProperties"] = kept(entries)
    if below := {name: inside for name, one in found.get("properties", {}).items() if (inside := kept(one))}:
        out["properties"] = below
    return out


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_the_maps_of_a_type_are_those_of_its_schema(kind: Kind) -> None:
    assert schema.maps(kind.spec) == kept(kinds.object_schema(kind)["properties"]["spec"])


def test_cells_groups_and_labels_are_maps() -> None:
    (found,) = [schema.maps(kind.spec) for kind in KINDS if kind.resource.kind == "Nova"]
    cell = found["properties"]["cellTemplates"]["additionalProperties"]["properties"]
    assert cell["computes"]["additionalProperties"]["properties"]["nodeSelector"] == {"additionalProperties": {}}
