"""Reconciles NovaNoVNCProxy: from the Secrets of its database and message bus to a page that browsers can load."""

from __future__ import annotations

from openstack_operator.kit import api_service, config, kinds, levels, pods, watches
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import connections
from openstack_operator.services.nova.novncproxy import config as files
from openstack_operator.services.nova.novncproxy import resources
from openstack_operator.services.nova.novncproxy.types import KIND, NovaNoVNCProxySpec

PROXY = api_service.ApiService(
    service="nova",
    pod=resources.pod,
    port=files.PORT,
    port_name="novnc",
    path=f"/{files.PAGE}",
    own_name=lambda instance: instance,
)


async def observe_connections(scope: Scope[NovaNoVNCProxySpec]) -> None:
    """The Secrets of database, message bus and service user are complete."""
    await connections.observe(scope)
    await connections.observe_database(scope, scope.spec.cell_database_secret_ref, "cell_database")


async def ensure_config(scope: Scope[NovaNoVNCProxySpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(scope, "nova", [config.File("nova.conf", files.ROWS, custom)])


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", PROXY.ensure_endpoints, needs=()),
        Step("ConnectionsReady", observe_connections, needs=()),
        Step("ConfigReady", ensure_config, needs=("ConnectionsReady",)),
        Step("DeploymentReady", PROXY.ensure_deployment, needs=("ConfigReady",)),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.SERVICE, built_in.DEPLOYMENT, built_in.PDB),
    watches=(
        *pods.watches(kinds.NOVA_NOVNCPROXY),
        connections.watch(kinds.NOVA_NOVNCPROXY),
        watches.nodes(kinds.NOVA_NOVNCPROXY),
    ),
)
