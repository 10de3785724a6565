"""Reconciles NovaScheduler: from the Secrets of its databases and message bus to pods that take requests."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, levels, pods, rereading, watches, workloads
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import connections, dependencies
from openstack_operator.services.nova.scheduler import config as files
from openstack_operator.services.nova.scheduler import resources
from openstack_operator.services.nova.scheduler.types import KIND, NovaSchedulerSpec


async def observe_connections(scope: Scope[NovaSchedulerSpec]) -> None:
    """The Secrets of databases, message bus and service user are complete."""
    await connections.observe(scope)
    await connections.observe_database(scope, scope.spec.api_database_secret_ref, "api_database")
    await connections.observe_database(scope, scope.spec.cell_database_secret_ref, "cell_database")


async def ensure_config(scope: Scope[NovaSchedulerSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(scope, "nova", [config.File("nova.conf", files.ROWS, custom)])


async def ensure_deployment(scope: Scope[NovaSchedulerSpec]) -> str | None:
    """Every pod runs the current configuration and is connected to the message bus."""
    pod = resources.pod(scope.name, scope.spec, scope.facts["sources"])
    return await workloads.ensure_deployment(scope, pod, scope.name, scope.spec.replicas)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("ConnectionsReady", observe_connections),
        Step("ConfigReady", ensure_config),
        Step("DependenciesReady", dependencies.observe_registration),
        Step("DeploymentReady", ensure_deployment),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.DEPLOYMENT, built_in.PDB),
    rules=rereading.RULES,
    watches=(
        *pods.watches(kinds.NOVA_SCHEDULER),
        connections.watch(kinds.NOVA_SCHEDULER),
        watches.referenced(kinds.NOVA, kinds.NOVA_SCHEDULER, "novaRef"),
    ),
)
