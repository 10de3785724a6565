"""The pods of a conductor: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, workloads
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.conductor.types import NovaConductorSpec


def pod(instance: str, spec: NovaConductorSpec, sources: config.Sources) -> workloads.Pod:
    """The pods of the conductor. Computes wait for the one of their cell, nothing for the super-conductor."""
    cpu = workloads.CPU_FIRST if spec.api_database_secret_ref is None else workloads.CPU_MINOR
    return resources.pod(
        instance,
        spec,
        sources,
        component="conductor",
        owner_kind=kinds.NOVA_CONDUCTOR.kind,
        role="nova-conductor",
        container=resources.daemon("nova-conductor", memory="150Mi", cpu=cpu),
        hash_extra=resources.cells_hash(spec.registered_cells),
    )
