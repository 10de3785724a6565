"""Reconciles Memcached: servers under stable names, published for clients before they are up."""

from __future__ import annotations

from openstack_operator.kit import kinds, pods, workloads
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.memcached import resources
from openstack_operator.services.memcached.types import KIND, MemcachedSpec


async def ensure_servers(scope: Scope[MemcachedSpec]) -> None:
    """Every server runs and accepts connections."""
    spec = scope.spec
    pod = resources.pod(scope.name, spec)
    scope.status["servers"] = resources.servers(scope.name, scope.namespace, spec.replicas)
    scope.status["selector"] = ",".join(f"{key}={value}" for key, value in workloads.selector(pod).items())
    await scope.apply(built_in.SERVICE, workloads.service(pod, scope.name, {"memcache": resources.PORT}, headless=True))
    await workloads.ensure_budget(scope, pod, scope.name, spec.replicas)
    item = await workloads.apply_stateful_set(scope, workloads.stateful_set(pod, scope.name, spec.replicas))
    scope.status["replicas"] = item.get("status", {}).get("replicas", 0)
    workloads.wait(scope, built_in.STATEFULSET, item)


CONTROLLER = Controller(
    kind=KIND,
    steps=(Step("DeploymentReady", ensure_servers),),
    owns=(built_in.SERVICE, built_in.STATEFULSET, built_in.PDB),
    watches=(*pods.watches(kinds.MEMCACHED),),
)
