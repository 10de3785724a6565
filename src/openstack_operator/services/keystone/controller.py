"""Reconciles Keystone: from its database and keys to an API that serves and a catalogue that others can enter."""

from __future__ import annotations

from openstack_operator.kit import (
    api_service,
    commands,
    config,
    credentials,
    database,
    identity,
    jobs,
    kinds,
    labels,
    levels,
    names,
    pods,
    verified,
    watches,
    wsgi,
)
from openstack_operator.runtime import drift
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.keystone import config as files
from openstack_operator.services.keystone import resources
from openstack_operator.services.keystone.types import KIND, KeystoneSpec

API = api_service.ApiService(service=resources.SERVICE, pod=resources.api_pod, port=files.PORT, path="/v3")


async def ensure_credentials(scope: Scope[KeystoneSpec]) -> None:
    """The admin's login exists, and keys for tokens and credentials."""
    name = names.admin_secret(scope.name)
    if scope.get(built_in.SECRET, name) is not None:
        # The login that is in use stays where users look for it, whatever is wrong with the next one.
        scope.status["adminSecret"] = name
    field = "spec.adminPasswordSecretRef"
    password = await credentials.password(scope, name, scope.spec.admin_password_secret_ref, field)
    public = scope.facts["url.public"]
    values = {
        "user": "admin",
        "password": password,
        "project": "admin",
        "clouds.yaml": resources.clouds_yaml(public, password, scope.spec.region),
    }
    await credentials.ensure(scope, name, resources.SERVICE, values)
    scope.facts["admin"] = values
    scope.status["adminSecret"] = name
    for secret in (resources.fernet_secret(scope.name), resources.credential_secret(scope.name)):
        await _ensure_keys(scope, secret)


async def _ensure_keys(scope: Scope[KeystoneSpec], secret: str) -> None:
    present = scope.get(built_in.SECRET, secret)
    keys = (present or {}).get("data") or {}
    # Only a Secret without a usable pair is written: rotation changes it behind our back, and must win.
    if "0" in keys and len(keys) > 1 and all(keys.values()):
        return
    await scope.apply(
        built_in.SECRET,
        {
            "metadata": {"name": secret, "labels": labels.common(resources.SERVICE, scope.name)},
            "type": "Opaque",
            "data": credentials.encode({"0": resources.key(), "1": resources.key()}),
        },
    )


async def ensure_config(scope: Scope[KeystoneSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("keystone.conf", files.ROWS, custom)],
        whole={wsgi.FILE: resources.uwsgi()},
        whole_secret={database.CLIENT_FILE: database.client_file(scope.facts["database.password"])},
        scripts={
            wsgi.START_NAME: wsgi.START,
            **commands.SCRIPTS,
            files.BOOTSTRAP_NAME: files.BOOTSTRAP,
            files.FLUSH_NAME: files.FLUSH,
            "rotate.py": files.ROTATE,
        },
    )


async def ensure_bootstrap(scope: Scope[KeystoneSpec]) -> None:
    """The schema is current and the admin user exists."""
    known = drift.digest([scope.uid, scope.facts["admin"]["password"]])
    urls = scope.facts["url.internal"], scope.facts["url.public"]
    pod = resources.bootstrap_pod(scope.name, scope.spec, scope.facts["sources"], *urls, known)
    await jobs.ensure(scope, pod, "bootstrap")


async def ensure_rotation(scope: Scope[KeystoneSpec]) -> None:
    """The CronJob that rotates the fernet keys exists."""
    keep = files.max_active_keys(scope.spec, scope.facts)
    objects = resources.rotation(scope.name, scope.spec, scope.facts["sources"], keep)
    for resource in (built_in.SERVICEACCOUNT, built_in.ROLE, built_in.ROLEBINDING, built_in.CRONJOB):
        await scope.apply(resource, objects[resource.plural])


async def ensure_catalog(scope: Scope[KeystoneSpec]) -> None:
    """The project of service users exists, so that services can register themselves."""
    url, admin = scope.facts["url.internal"], scope.facts["admin"]
    known = drift.digest([url, admin["password"]])
    if not verified.is_current(scope, "catalog", known):
        async with identity.Client(url, admin) as client:
            await client.ensure_project(identity.PROJECT)
        verified.note(scope, "catalog", known)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("CredentialsReady", ensure_credentials, needs=("EndpointsReady",)),
        Step("DatabaseReady", API.ensure_database, needs=()),
        Step("CacheReady", API.observe_cache, needs=()),
        Step("ConfigReady", ensure_config, needs=("CredentialsReady", "DatabaseReady", "CacheReady")),
        Step("BootstrapReady", ensure_bootstrap, needs=("ConfigReady",)),
        Step("DeploymentReady", API.ensure_deployment, needs=("BootstrapReady",)),
        Step("RotationReady", ensure_rotation, needs=("ConfigReady",)),
        Step("CatalogReady", ensure_catalog, needs=("DeploymentReady",)),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SECRET,
        built_in.SERVICE,
        built_in.DEPLOYMENT,
        built_in.PDB,
        built_in.JOB,
        built_in.CRONJOB,
        built_in.SERVICEACCOUNT,
        built_in.ROLE,
        built_in.ROLEBINDING,
    ),
    watches=(
        *pods.watches(kinds.KEYSTONE),
        watches.nodes(kinds.KEYSTONE),
        watches.referenced(kinds.MARIADB, kinds.KEYSTONE, "databaseRef"),
        watches.referenced(kinds.MEMCACHED, kinds.KEYSTONE, "memcachedRef"),
    ),
    finalize=API.drop_database,
)
