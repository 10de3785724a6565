"""Reconciles Keystone: from its database and keys to an API that serves and a catalogue that others can enter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from openstack_operator.runtime import apply, drift
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Controller, Scope, Step, Watch
from openstack_operator.runtime.informer import Key
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
    supplied = scope.spec.admin_password_secret_ref
    password = await credentials.password(scope, name, supplied, field, identity.LONGEST_PASSWORD)
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
    await _ensure_keys(scope, resources.fernet_secret(scope.name), owned=True)
    # A database that outlives this object is of no use without them, and an owner's end can take them away before its
    # finalizer has run (foreground deletion): they have none, and the finalizer deletes them.
    await _ensure_keys(scope, resources.credential_secret(scope.name), owned=False)


async def _ensure_keys(scope: Scope[KeystoneSpec], secret: str, *, owned: bool) -> None:
    present = scope.get(built_in.SECRET, secret)
    keys = {name: key for name, key in ((present or {}).get("data") or {}).items() if key}
    # Only a Secret without a usable pair is written: rotation changes it behind our back, and must win.
    is_owned = present is not None and bool(apply.owners(present, kinds.KEYSTONE))
    if "0" in keys and len(keys) > 1 and is_owned == owned:
        return
    await scope.apply(
        built_in.SECRET,
        {
            "metadata": {"name": secret, "labels": labels.common(resources.SERVICE, scope.name)},
            "type": "Opaque",
            # What there is stays: something may be encrypted with it.
            "data": credentials.encode({"0": resources.key(), "1": resources.key()}) | keys,
        },
        owned=owned,
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


async def finalize(scope: Scope[KeystoneSpec]) -> None:
    """The database goes, and with it the keys of what it holds; where the database is kept, they are as well."""
    await API.drop_database(scope)
    if not database.is_kept(scope, scope.spec.database_ref.name, names.schema(scope.name)):
        await scope.delete(built_in.SECRET, resources.credential_secret(scope.name))


def _keystone_of(secret: Object, _: Any) -> Iterable[Key]:
    """Whose credential keys a Secret holds, which has no owner."""
    metadata = secret["metadata"]
    instance = metadata.get("labels", {}).get("app.kubernetes.io/instance", "")
    if metadata["name"] == resources.credential_secret(instance):
        yield metadata["namespace"], instance


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
        Watch(built_in.SECRET, _keystone_of),
    ),
    # MariaDB's volumes tell whether the database is kept.
    reads=(built_in.PVC,),
    finalize=finalize,
)
