"""Reconciles NovaAPI: from the Secrets of its databases and message bus to an API that serves."""

from __future__ import annotations

from openstack_operator.kit import api_service, config, kinds, levels, pods, watches, wsgi
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import connections
from openstack_operator.services.nova.api import config as files
from openstack_operator.services.nova.api import resources
from openstack_operator.services.nova.api.types import KIND, NovaAPISpec
from openstack_operator.services.nova.resources import DEFAULTS

API = api_service.ApiService(
    service="nova", pod=resources.pod, port=files.PORT, path="/v2.1", own_name=lambda instance: instance
)


async def observe_connections(scope: Scope[NovaAPISpec]) -> None:
    """The Secrets of databases, message bus and service user are complete."""
    await connections.observe(scope)
    await connections.observe_database(scope, scope.spec.api_database_secret_ref, "api_database")
    await connections.observe_database(scope, scope.spec.cell_database_secret_ref, "cell_database")


async def ensure_config(scope: Scope[NovaAPISpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(
        scope,
        "nova",
        [config.File("nova.conf", files.ROWS, custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        scripts={wsgi.START_NAME: wsgi.START},
        defaults=DEFAULTS,
    )


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("ConnectionsReady", observe_connections, needs=()),
        Step("ConfigReady", ensure_config, needs=("ConnectionsReady",)),
        Step("DeploymentReady", API.ensure_deployment, needs=("ConfigReady",)),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.SERVICE, built_in.DEPLOYMENT, built_in.PDB),
    watches=(*pods.watches(kinds.NOVA_API), connections.watch(kinds.NOVA_API), watches.nodes(kinds.NOVA_API)),
)
