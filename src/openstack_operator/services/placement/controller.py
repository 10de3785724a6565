"""Reconciles Placement: from its database to an API that serves and an entry in Keystone's catalogue.

    EndpointsReady -----------------------------------------------+
    IdentityReady ----+-------------------------------------------+--> RegistrationReady
    DatabaseReady ----+--> ConfigReady --> DatabaseSyncReady --> DeploymentReady
    CacheReady -------+

Keystone's URLs are enough to start; that it serves is needed for the registration only.
"""

from __future__ import annotations

from openstack_operator.kit import api_service, commands, config, jobs, kinds, levels, pods, watches, wsgi
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.placement import config as files
from openstack_operator.services.placement import resources
from openstack_operator.services.placement.types import KIND, PlacementSpec

API = api_service.RegisteredService(
    service=resources.SERVICE,
    type=files.SERVICE_TYPE,
    description="OpenStack Placement",
    port=files.PORT,
    pod=resources.api_pod,
)


async def ensure_config(scope: Scope[PlacementSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("placement.conf", files.ROWS, custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        scripts={wsgi.START_NAME: wsgi.START, **commands.SCRIPTS},
    )


async def ensure_db_sync(scope: Scope[PlacementSpec]) -> None:
    """The schema is current."""
    pod = resources.db_sync_pod(scope.name, scope.spec, scope.facts["sources"])
    await jobs.ensure(scope, pod, "db-sync")


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("IdentityReady", API.ensure_identity, needs=()),
        Step("DatabaseReady", API.ensure_database, needs=()),
        Step("CacheReady", API.observe_cache, needs=()),
        Step("ConfigReady", ensure_config, needs=("IdentityReady", "DatabaseReady", "CacheReady")),
        Step("DatabaseSyncReady", ensure_db_sync, needs=("ConfigReady",)),
        Step("DeploymentReady", API.ensure_deployment, needs=("DatabaseSyncReady",)),
        Step("RegistrationReady", API.ensure_registration, needs=("EndpointsReady", "IdentityReady")),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SECRET,
        built_in.SERVICE,
        built_in.DEPLOYMENT,
        built_in.PDB,
        built_in.JOB,
    ),
    watches=(
        *pods.watches(kinds.PLACEMENT),
        watches.nodes(kinds.PLACEMENT),
        watches.referenced(kinds.KEYSTONE, kinds.PLACEMENT, "keystoneRef"),
        watches.referenced(kinds.MARIADB, kinds.PLACEMENT, "databaseRef"),
        watches.referenced(kinds.MEMCACHED, kinds.PLACEMENT, "memcachedRef"),
    ),
    finalize=API.finalize,
)
