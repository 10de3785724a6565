"""The pods of a metadata service: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, workloads, wsgi
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.metadata.config import PORT
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec


def pod(instance: str, spec: NovaMetadataSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve metadata."""
    container = wsgi.container(
        "nova-metadata",
        PORT,
        "/",
        env=resources.WSGI_ENVIRONMENT,
        cpu=workloads.CPU_MINOR,
        memory="150Mi",
        port_name="metadata",
    )
    return resources.pod(
        instance,
        spec,
        sources,
        component="metadata",
        owner_kind=kinds.NOVA_METADATA.kind,
        role="nova-api",
        container=container,
        grace_seconds=wsgi.GRACE_SECONDS,
        hash_extra=resources.cells_hash(spec.registered_cells),
    )


def uwsgi() -> str:
    return wsgi.ini("nova.wsgi.metadata", PORT)
