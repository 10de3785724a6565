"""Reconciles NovaMetadata: from the Secrets of its databases and message bus to a service that answers."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, levels, names, pods, workloads, wsgi
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import connections
from openstack_operator.services.nova.metadata import config as files
from openstack_operator.services.nova.metadata import resources
from openstack_operator.services.nova.metadata.types import KIND, NovaMetadataSpec
from openstack_operator.services.nova.resources import DEFAULTS


async def ensure_endpoints(scope: Scope[NovaMetadataSpec]) -> None:
    """The Service exists."""
    pod = resources.pod(scope.name, scope.spec, config.NONE)
    # Metadata agents are configured with the name of the object.
    await scope.apply(built_in.SERVICE, workloads.service(pod, scope.name, {"metadata": files.PORT}))
    scope.status["internalUrl"] = f"http://{names.dns(scope.name, scope.namespace)}:{files.PORT}"


async def observe_connections(scope: Scope[NovaMetadataSpec]) -> None:
    """The Secrets of databases, message bus, service user and metadata agents are complete."""
    await connections.observe(scope)
    if scope.spec.api_database_secret_ref is not None:
        await connections.observe_database(scope, scope.spec.api_database_secret_ref, "api_database")
    await connections.observe_database(scope, scope.spec.cell_database_secret_ref, "cell_database")
    await connections.observe_shared_secret(scope, scope.spec.metadata_secret_ref)


async def ensure_config(scope: Scope[NovaMetadataSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(
        scope,
        "nova",
        [config.File("nova.conf", files.choose(scope.spec), custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        scripts={wsgi.START_NAME: wsgi.START},
        defaults=DEFAULTS,
    )


async def ensure_deployment(scope: Scope[NovaMetadataSpec]) -> None:
    """Every pod runs the current configuration and serves."""
    pod = resources.pod(scope.name, scope.spec, scope.facts["sources"])
    await workloads.ensure_deployment(scope, pod, scope.name, scope.spec.replicas)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", ensure_endpoints, needs=()),
        Step("ConnectionsReady", observe_connections, needs=()),
        Step("ConfigReady", ensure_config, needs=("ConnectionsReady",)),
        Step("DeploymentReady", ensure_deployment, needs=("ConfigReady",)),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.SERVICE, built_in.DEPLOYMENT, built_in.PDB),
    watches=(*pods.watches(kinds.NOVA_METADATA), connections.watch(kinds.NOVA_METADATA)),
)
