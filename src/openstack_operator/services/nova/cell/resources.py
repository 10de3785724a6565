"""Specs of the parts of a cell: pure functions of the cell's spec."""

from __future__ import annotations

from typing import Any

from openstack_operator.runtime.schema import Model
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.cell.types import NovaCellSpec
from openstack_operator.services.nova.parts import PartTemplate, Process


def process(spec: NovaCellSpec) -> dict[str, Any]:
    """What every part has to know, as the cell knows it."""
    fields = {name: getattr(spec, name) for name in Process.model_fields}
    return Process(**fields).model_dump(mode="json", by_alias=True, exclude_none=True)


def part(spec: NovaCellSpec, template: Any) -> dict[str, Any]:
    """A part with pods of a number of its own or the cell's."""
    template_: PartTemplate = template
    body = process(spec) | resources.explicit(template_, "enabled")
    if template_.replicas is None:
        body["replicas"] = spec.replicas
    return resources.policy(spec) | body | resources.custom(spec.custom_service_config, template_.custom_service_config)


def _reference(ref: Model) -> dict[str, Any]:
    return ref.model_dump(by_alias=True)


def conductor(spec: NovaCellSpec) -> dict[str, Any]:
    return part(spec, spec.conductor) | {"cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref)}


def metadata(spec: NovaCellSpec) -> dict[str, Any]:
    return part(spec, spec.metadata) | {
        "cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref),
        "metadataSecretRef": _reference(spec.metadata_secret_ref),
    }


def novncproxy(spec: NovaCellSpec) -> dict[str, Any]:
    body = part(spec, spec.novncproxy) | {"cellDatabaseSecretRef": _reference(spec.cell_database_secret_ref)}
    if spec.novncproxy.public_endpoint is None and spec.public_endpoint is not None:
        # A node port belongs to one Service; the cell's is not the API's.
        inherited = spec.public_endpoint.model_dump(mode="json", by_alias=True, exclude_none=True)
        inherited.pop("nodePort", None)
        body["publicEndpoint"] = inherited
    return body


def compute(spec: NovaCellSpec, group: str, conductor_name: str, console_url: str) -> dict[str, Any]:
    """The spec of a group of compute nodes."""
    template = spec.computes[group]
    body = process(spec) | resources.explicit(template) | {"conductorRef": {"name": conductor_name}}
    if console_url:
        body["novncproxyUrl"] = console_url
    if spec.placement_ref is not None:
        body["placementRef"] = _reference(spec.placement_ref)
    if spec.nova_ref is not None:
        body["novaRef"] = _reference(spec.nova_ref)
    return resources.policy(spec) | body | resources.custom(spec.custom_service_config, template.custom_service_config)
