"""Reconciles MariaDB: root password, server, and the databases that services asked for."""

from __future__ import annotations

import asyncio

from openstack_operator.kit import config, credentials, grants, kinds, labels, names, pods, servers, storage
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.mariadb import config as files
from openstack_operator.services.mariadb import resources, sql
from openstack_operator.services.mariadb.types import KIND, MariaDBSpec

ROOT_SECRET = "root"


async def ensure_credentials(scope: Scope[MariaDBSpec]) -> None:
    """The root user's Secret exists."""
    secret = names.join(scope.name, ROOT_SECRET)
    password = await credentials.password(scope, secret, None, "")
    await credentials.ensure(scope, secret, "mariadb", {"user": "root", "password": password})
    scope.facts["root.password"] = password


async def ensure_config(scope: Scope[MariaDBSpec]) -> None:
    """The server's configuration is written."""
    scope.facts["sources"] = await config.ensure(
        scope,
        "mariadb",
        (),
        whole={"my.cnf": files.my_cnf(scope.spec)},
        whole_secret={"init.sql": files.init_sql(scope.facts["root.password"])},
        scripts={"start.sh": files.START},
    )


async def ensure_server(scope: Scope[MariaDBSpec]) -> None:
    """The server runs and accepts connections."""
    pod = resources.pod(scope.name, scope.spec, scope.facts["sources"])
    await servers.ensure(scope, pod, {"mysql": files.PORT}, field="databases", noun="database")


async def ensure_databases(scope: Scope[MariaDBSpec]) -> None:
    """Every database in spec.databases stands, with its user; those taken out are dropped."""

    def act(due: grants.Logins, gone: grants.Logins) -> None:
        with sql.session(names.dns(scope.name, scope.namespace), scope.facts["root.password"]) as cursor:
            for name, (user, password) in due.items():
                sql.grant(cursor, name, user, password)
            for name, (user, _) in gone.items():
                sql.drop(cursor, name, user)

    async def act_in_thread(due: grants.Logins, gone: grants.Logins) -> None:
        await asyncio.to_thread(act, due, gone)

    selector = labels.selector("mariadb", scope.name, "server")
    await grants.settle(scope, "databases", scope.spec.databases, selector, act_in_thread)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("CredentialsReady", ensure_credentials),
        Step("ConfigReady", ensure_config),
        Step("DeploymentReady", ensure_server),
        Step("DatabasesReady", ensure_databases),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.SERVICE, built_in.STATEFULSET, built_in.PVC),
    watches=(
        *grants.watches(kinds.MARIADB, "databases"),
        *pods.watches(kinds.MARIADB),
        storage.watch(kinds.MARIADB),
        storage.watch_claims(kinds.MARIADB),
    ),
)
