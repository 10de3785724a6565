"""Reconciles Placement: from its database to an API that serves and an entry in Keystone's catalogue.

    EndpointsReady -----------------------------------------------+
    IdentityReady ----+-------------------------------------------+--> RegistrationReady
    DatabaseReady ----+--> ConfigReady --> DatabaseSyncReady --> DeploymentReady
    CacheReady -------+

Keystone's URLs are enough to start; that it serves is needed for the registration only.
"""

from __future__ import annotations

from openstack_operator.kit import (
    cache,
    commands,
    config,
    database,
    endpoints,
    identity,
    jobs,
    kinds,
    names,
    pods,
    watches,
    workloads,
    wsgi,
)
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.placement import config as files
from openstack_operator.services.placement import resources
from openstack_operator.services.placement.types import KIND, PlacementSpec


async def ensure_endpoints(scope: Scope[PlacementSpec]) -> None:
    """The Services exist and the URLs are known."""
    pod = resources.api_pod(scope.name, scope.spec, config.NONE)
    internal, public = await endpoints.ensure(scope, pod, files.PORT, scope.spec.public_endpoint)
    scope.facts["url.internal"] = scope.status["internalUrl"] = internal
    scope.facts["url.public"] = scope.status["publicUrl"] = public


async def ensure_identity(scope: Scope[PlacementSpec]) -> None:
    """Keystone's URLs are known, and the service user's password exists."""
    await identity.ensure_user_secret(scope, resources.SERVICE, scope.spec.credentials.service_user)
    await identity.observe(scope, scope.spec.keystone_ref.name)


async def ensure_database(scope: Scope[PlacementSpec]) -> None:
    """The database and its user stand in MariaDB."""
    schema, supplied = resources.schema(scope.name), scope.spec.credentials.database
    await database.ensure(scope, resources.SERVICE, scope.spec.database_ref.name, schema, supplied=supplied)


async def observe_cache(scope: Scope[PlacementSpec]) -> None:
    """The Memcached servers are known."""
    await cache.observe(scope, scope.spec.memcached_ref.name)


async def ensure_config(scope: Scope[PlacementSpec]) -> None:
    """The configuration is valid and written."""
    custom = (("spec.customServiceConfig", scope.spec.custom_service_config),)
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("placement.conf", files.ROWS, custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        scripts={wsgi.START_NAME: wsgi.START, commands.NAME: commands.SCRIPT},
    )


async def ensure_db_sync(scope: Scope[PlacementSpec]) -> None:
    """The schema is current."""
    pod = resources.db_sync_pod(scope.name, scope.spec, scope.facts["sources"])
    await jobs.ensure(scope, pod, "db-sync")


async def ensure_deployment(scope: Scope[PlacementSpec]) -> None:
    """Every API pod runs the current configuration and serves."""
    pod = resources.api_pod(scope.name, scope.spec, scope.facts["sources"])
    await workloads.ensure_deployment(scope, pod, names.api_service(scope.name), scope.spec.replicas)


async def ensure_registration(scope: Scope[PlacementSpec]) -> None:
    """The service user and the catalogue's entry stand in Keystone."""
    endpoint = resources.endpoint(scope.facts["url.internal"], scope.facts["url.public"])
    await identity.register(scope, scope.spec.keystone_ref.name, (endpoint,), scope.spec.region)


async def finalize(scope: Scope[PlacementSpec]) -> None:
    """Takes the service out of Keystone and drops the database."""
    entry = (resources.SERVICE, files.SERVICE_TYPE)
    await identity.unregister(scope, scope.spec.keystone_ref.name, (entry,))
    await database.drop(scope, scope.spec.database_ref.name, resources.schema(scope.name))


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", ensure_endpoints, needs=()),
        Step("IdentityReady", ensure_identity, needs=()),
        Step("DatabaseReady", ensure_database, needs=()),
        Step("CacheReady", observe_cache, needs=()),
        Step("ConfigReady", ensure_config, needs=("IdentityReady", "DatabaseReady", "CacheReady")),
        Step("DatabaseSyncReady", ensure_db_sync, needs=("ConfigReady",)),
        Step("DeploymentReady", ensure_deployment, needs=("DatabaseSyncReady",)),
        Step("RegistrationReady", ensure_registration, needs=("EndpointsReady", "IdentityReady")),
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
        pods.watch(kinds.PLACEMENT.kind),
        watches.referenced(kinds.KEYSTONE, kinds.PLACEMENT, "keystoneRef"),
        watches.referenced(kinds.MARIADB, kinds.PLACEMENT, "databaseRef"),
        watches.referenced(kinds.MEMCACHED, kinds.PLACEMENT, "memcachedRef"),
    ),
    reads=(built_in.NODE,),
    finalize=finalize,
)
