"""Specs of the parts of a cell: pure functions of the cell's spec."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds, levels
from openstack_operator.runtime.schema import Model
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.cell.types import NovaCellSpec
from openstack_operator.services.nova.parts import PartTemplate, Process


def process(spec: NovaCellSpec) -> dict[str, Any]:
    """What every part has to know, as the cell knows it."""
    fields = {name: getattr(spec, name) for name in Process.model_fields}
    return Process(**fields).model_dump(mode="json", by_alias=True, exclude_none=True)


def part(name: str, spec: NovaCellSpec, template: Any) -> dict[str, Any]:
    """A part with pods of a number of its own or the cell's."""
    template_: PartTemplate = template
    body = process(spec) | resources.explicit(template_, "enabled")
    if template_.replicas is None:
        body["replicas"] = spec.replicas
    return (
        resources.policy(spec) | body | levels.handed_down(kinds.NOVA_CELL, name, spec) | levels.files(spec, template)
    )


def _reference(ref: Model) -> dict[str, Any]:
    return ref.model_dump(by_alias=True)


def _nova(spec: NovaCellSpec) -> dict[str, Any]:
    return {} if spec.nova_ref is None else {"novaRef": _reference(spec.nova_ref)}


def conductor(name: str, spec: NovaCellSpec) -> dict[str, Any]:
    database = {"cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref)}
    return part(name, spec, spec.conductor) | database | _nova(spec)


def metadata(name: str, spec: NovaCellSpec) -> dict[str, Any]:
    return part(name, spec, spec.metadata) | {
        "cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref),
        "metadataSecretRef": _reference(spec.metadata_secret_ref),
    }


def novncproxy(name: str, spec: NovaCellSpec) -> dict[str, Any]:
    body = part(name, spec, spec.novncproxy) | {"cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref)}
    if spec.novncproxy.public_endpoint is None and spec.public_endpoint is not None:
        # A node port belongs to one Service; the cell's is not the API's.
        inherited = spec.public_endpoint.model_dump(mode="json", by_alias=True, exclude_none=True)
        inherited.pop("nodePort", None)
        body["publicEndpoint"] = inherited
    return body


def compute(name: str, spec: NovaCellSpec, group: str, conductor_name: str, console_url: str) -> dict[str, Any]:
    """The spec of a group of compute nodes."""
    template = spec.computes[group]
    body = process(spec) | resources.explicit(template) | {"conductorRef": {"name": conductor_name}}
    if console_url:
        body["novncproxyUrl"] = console_url
    if spec.placement_ref is not None:
        body["placementRef"] = _reference(spec.placement_ref)
    body |= _nova(spec)
    return (
        resources.policy(spec) | body | levels.handed_down(kinds.NOVA_CELL, name, spec) | levels.files(spec, template)
    )
