"""The pods of a scheduler: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, workloads
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec


def pod(instance: str, spec: NovaSchedulerSpec, sources: config.Sources) -> workloads.Pod:
    """The pods of the scheduler."""
    return resources.pod(
        instance,
        spec,
        sources,
        component="scheduler",
        owner_kind=kinds.NOVA_SCHEDULER.kind,
        role="nova-scheduler",
        container=resources.daemon("nova-scheduler", memory="250Mi"),
        hash_extra=resources.cells_hash(spec.registered_cells),
    )
