"""Reconciles Glance: from its database and volume to an API that serves and an entry in Keystone's catalogue.

    EndpointsReady -----------------------------------------------+
    IdentityReady ----+-------------------------------------------+--> RegistrationReady
    DatabaseReady ----+--> ConfigReady --> DatabaseSyncReady --> DeploymentReady
    CacheReady -------+

Keystone's URLs are enough to start; that it serves is needed for the registration only.
"""

from __future__ import annotations

from openstack_operator.kit import (
    api_service,
    commands,
    config,
    jobs,
    kinds,
    levels,
    names,
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

API = api_service.RegisteredService(
    service=resources.SERVICE,
    type=files.SERVICE_TYPE,
    description="OpenStack Image",
    port=files.PORT,
    pod=resources.api_pod,
)


async def ensure_config(scope: Scope[GlanceSpec]) -> None:
    """The configuration is valid and written."""
    scope.facts["url.self"] = resources.self_url(scope.name, scope.namespace)
    custom = levels.custom(scope)
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
    members = names.members_service(scope.name)
    await scope.apply(built_in.SERVICE, workloads.service(pod, members, {"api": files.PORT}, headless=True))
    item = await workloads.apply_stateful_set(scope, resources.stateful_set(pod, scope.spec), scope.spec)
    status = item.get("status", {})
    scope.status["replicas"] = status.get("replicas", 0)
    scope.status["readyReplicas"] = status.get("readyReplicas", 0)
    scope.status["selector"] = ",".join(f"{key}={value}" for key, value in workloads.selector(pod).items())
    workloads.wait(scope, built_in.STATEFULSET, item)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("IdentityReady", API.ensure_identity, needs=()),
        Step("DatabaseReady", API.ensure_database, needs=()),
        Step("CacheReady", API.observe_cache, needs=()),
        Step("ConfigReady", ensure_config, needs=("IdentityReady", "DatabaseReady", "CacheReady")),
        Step("DatabaseSyncReady", ensure_db_sync, needs=("ConfigReady",)),
        Step("DeploymentReady", ensure_stateful_set, needs=("DatabaseSyncReady",)),
        Step("RegistrationReady", API.ensure_registration, needs=("EndpointsReady", "IdentityReady")),
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
        *pods.watches(kinds.GLANCE),
        watches.nodes(kinds.GLANCE),
        storage.watch(kinds.GLANCE),
        storage.watch_claims(kinds.GLANCE),
        watches.referenced(kinds.KEYSTONE, kinds.GLANCE, "keystoneRef"),
        watches.referenced(kinds.MARIADB, kinds.GLANCE, "databaseRef"),
        watches.referenced(kinds.MEMCACHED, kinds.GLANCE, "memcachedRef"),
    ),
    finalize=API.finalize,
)
