"""Reconciles Glance: from its database and volume to an API that serves and an entry in Keystone's catalogue.

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
    pods,
    storage,
    watches,
    workloads,
    wsgi,
)
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.glance import config as files
from openstack_operator.services.glance import resources
from openstack_operator.services.glance.types import KIND, GlanceSpec


async def ensure_endpoints(scope: Scope[GlanceSpec]) -> None:
    """The Services exist and the URLs are known."""
    pod = resources.api_pod(scope.name, scope.spec, config.NONE)
    internal, public = await endpoints.ensure(scope, pod, files.PORT, scope.spec.public_endpoint)
    scope.facts["url.internal"] = scope.status["internalUrl"] = internal
    scope.facts["url.public"] = scope.status["publicUrl"] = public


async def ensure_identity(scope: Scope[GlanceSpec]) -> None:
    """Keystone's URLs are known, and the service user's password exists."""
    await identity.ensure_user_secret(scope, resources.SERVICE, scope.spec.credentials.service_user)
    await identity.observe(scope, scope.spec.keystone_ref.name)


async def ensure_database(scope: Scope[GlanceSpec]) -> None:
    """The database and its user stand in MariaDB."""
    schema, supplied = resources.schema(scope.name), scope.spec.credentials.database
    await database.ensure(scope, resources.SERVICE, scope.spec.database_ref.name, schema, supplied=supplied)


async def observe_cache(scope: Scope[GlanceSpec]) -> None:
    """The Memcached servers are known."""
    await cache.observe(scope, scope.spec.memcached_ref.name)


async def ensure_config(scope: Scope[GlanceSpec]) -> None:
    """The configuration is valid and written."""
    scope.facts["url.self"] = resources.self_url(scope.name, scope.namespace)
    custom = (("spec.customServiceConfig", scope.spec.custom_service_config),)
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File(files.CONF, files.ROWS, custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        scripts={wsgi.START_NAME: wsgi.START, commands.NAME: commands.SCRIPT},
        defaults=files.DEFAULTS,
    )


async def ensure_db_sync(scope: Scope[GlanceSpec]) -> None:
    """The schema and the metadata definitions are current."""
    pod = resources.db_sync_pod(scope.name, scope.spec, scope.facts["sources"])
    await jobs.ensure(scope, pod, "db-sync")


async def ensure_stateful_set(scope: Scope[GlanceSpec]) -> None:
    """The API pod runs the current configuration and serves, with its volume."""
    pod = resources.api_pod(scope.name, scope.spec, scope.facts["sources"])
    members = resources.members_service(scope.name)
    await scope.apply(built_in.SERVICE, workloads.service(pod, members, {"api": files.PORT}, headless=True))
    item = await workloads.apply_stateful_set(scope, resources.stateful_set(pod, scope.spec), scope.spec)
    status = item.get("status", {})
    scope.status["replicas"] = status.get("replicas", 0)
    scope.status["readyReplicas"] = status.get("readyReplicas", 0)
    scope.status["selector"] = ",".join(f"{key}={value}" for key, value in workloads.selector(pod).items())
    workloads.wait(scope, built_in.STATEFULSET, item)


async def ensure_registration(scope: Scope[GlanceSpec]) -> None:
    """The service user and the catalogue's entry stand in Keystone."""
    endpoint = resources.endpoint(scope.facts["url.internal"], scope.facts["url.public"])
    await identity.register(scope, scope.spec.keystone_ref.name, (endpoint,), scope.spec.region)


async def finalize(scope: Scope[GlanceSpec]) -> None:
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
        Step("DeploymentReady", ensure_stateful_set, needs=("DatabaseSyncReady",)),
        Step("RegistrationReady", ensure_registration, needs=("EndpointsReady", "IdentityReady")),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SECRET,
        built_in.SERVICE,
        built_in.STATEFULSET,
        built_in.PVC,
        built_in.JOB,
    ),
    watches=(
        pods.watch(kinds.GLANCE.kind),
        storage.watch(kinds.GLANCE),
        storage.watch_claims(kinds.GLANCE),
        watches.referenced(kinds.KEYSTONE, kinds.GLANCE, "keystoneRef"),
        watches.referenced(kinds.MARIADB, kinds.GLANCE, "databaseRef"),
        watches.referenced(kinds.MEMCACHED, kinds.GLANCE, "memcachedRef"),
    ),
    reads=(built_in.NODE,),
    finalize=finalize,
)
