"""The pods of a compute API: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, workloads, wsgi
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.api.config import PORT
from openstack_operator.services.nova.api.types import NovaAPISpec


def pod(instance: str, spec: NovaAPISpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    return resources.pod(
        instance,
        spec,
        sources,
        component="api",
        owner_kind=kinds.NOVA_API.kind,
        role="nova-api",
        container=wsgi.container("nova-api", PORT, "/", env=resources.WSGI_ENVIRONMENT, memory="200Mi"),
        grace_seconds=wsgi.GRACE_SECONDS,
        hash_extra=resources.cells_hash(spec.registered_cells),
    )


def uwsgi() -> str:
    return wsgi.ini("nova.wsgi.osapi_compute", PORT)
