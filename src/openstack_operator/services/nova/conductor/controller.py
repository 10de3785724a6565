"""Reconciles NovaConductor: from the Secrets of its databases and message bus to pods that take requests."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, levels, pods, rereading, watches, workloads
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import connections, dependencies
from openstack_operator.services.nova.conductor import config as files
from openstack_operator.services.nova.conductor import resources
from openstack_operator.services.nova.conductor.types import KIND, NovaConductorSpec


async def observe_connections(scope: Scope[NovaConductorSpec]) -> None:
    """The Secrets of databases, message bus and service user are complete."""
    await connections.observe(scope)
    if scope.spec.api_database_secret_ref is not None:
        await connections.observe_database(scope, scope.spec.api_database_secret_ref, "api_database")
    await connections.observe_database(scope, scope.spec.cell_database_secret_ref, "cell_database")


async def ensure_config(scope: Scope[NovaConductorSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    file = config.File("nova.conf", files.choose(scope.spec), custom)
    scope.facts["sources"] = await config.ensure(scope, "nova", [file])


async def ensure_deployment(scope: Scope[NovaConductorSpec]) -> str | None:
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
        *pods.watches(kinds.NOVA_CONDUCTOR),
        connections.watch(kinds.NOVA_CONDUCTOR),
        watches.referenced(kinds.NOVA, kinds.NOVA_CONDUCTOR, "novaRef"),
    ),
)
