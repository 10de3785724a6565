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
    labels,
    levels,
    names,
    pods,
    storage,
    watches,
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
        scripts={wsgi.START_NAME: wsgi.START, **commands.SCRIPTS},
        defaults=files.DEFAULTS,
    )


async def ensure_db_sync(scope: Scope[GlanceSpec]) -> None:
    """The schema and the metadata definitions are current."""
    pod = resources.db_sync_pod(scope.name, scope.spec, scope.facts["sources"])
    await jobs.ensure(scope, pod, "db-sync")


async def ensure_deployment(scope: Scope[GlanceSpec]) -> None:
    """The API pod runs the current configuration and serves, with its volume."""
    tags = labels.common(resources.SERVICE, scope.name, "api")
    await storage.ensure_claim(scope, resources.claim_name(scope.name), tags, scope.spec)
    await API.ensure_deployment(scope)
    # What earlier versions ran, which had no second pod in a rollout.
    await scope.delete(built_in.STATEFULSET, names.workload(scope.name, "api"))
    await scope.delete(built_in.SERVICE, names.members_service(scope.name))


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("IdentityReady", API.ensure_identity, needs=()),
        Step("DatabaseReady", API.ensure_database, needs=()),
        Step("CacheReady", API.observe_cache, needs=()),
        Step("ConfigReady", ensure_config, needs=("IdentityReady", "DatabaseReady", "CacheReady")),
        Step("DatabaseSyncReady", ensure_db_sync, needs=("ConfigReady",)),
        Step("DeploymentReady", ensure_deployment, needs=("DatabaseSyncReady",)),
        Step("RegistrationReady", API.ensure_registration, needs=("EndpointsReady", "IdentityReady")),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SECRET,
        built_in.SERVICE,
        built_in.DEPLOYMENT,
        built_in.PDB,
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
