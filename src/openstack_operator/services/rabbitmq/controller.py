"""Reconciles RabbitMQ: admin and cookie, server, and the virtual hosts that services asked for."""

from __future__ import annotations

from openstack_operator.kit import config, credentials, grants, kinds, labels, names, pods, servers, storage
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.rabbitmq import config as files
from openstack_operator.services.rabbitmq import management, resources
from openstack_operator.services.rabbitmq.types import KIND, RabbitMQSpec

ADMIN = "admin"


async def ensure_credentials(scope: Scope[RabbitMQSpec]) -> None:
    """The administrator's Secret exists, and the cookie with which members trust each other."""
    secret = names.join(scope.name, ADMIN)
    password = await credentials.password(scope, secret, None, "")
    values = {"user": ADMIN, "password": password, "cookie": credentials.generate()}
    item = await credentials.ensure(scope, secret, "rabbitmq", values, keep=("cookie",))
    scope.facts["admin.password"] = password
    scope.facts["cookie"] = credentials.decode(item)["cookie"]


async def ensure_config(scope: Scope[RabbitMQSpec]) -> None:
    """The server's configuration is written."""
    scope.facts["sources"] = await config.ensure(
        scope,
        "rabbitmq",
        (),
        whole={"rabbitmq.conf": files.conf(scope.spec), "enabled_plugins": files.PLUGINS},
        whole_secret={
            "definitions.json": files.definitions(ADMIN, scope.facts["admin.password"]),
            "erlang.cookie": scope.facts["cookie"],
        },
        scripts={"start.sh": files.START},
    )


async def ensure_server(scope: Scope[RabbitMQSpec]) -> None:
    """The server runs and accepts connections."""
    pod = resources.pod(scope.name, scope.namespace, scope.spec, scope.facts["sources"])
    await servers.ensure(scope, pod, resources.PORTS, field="vhosts", noun="message bus")


async def ensure_vhosts(scope: Scope[RabbitMQSpec]) -> None:
    """Every virtual host in spec.vhosts stands, with its user; those taken out are deleted."""

    async def act(due: grants.Logins, gone: grants.Logins) -> None:
        host = names.dns(scope.name, scope.namespace)
        async with management.Management(host, files.MANAGEMENT_PORT, ADMIN, scope.facts["admin.password"]) as api:
            for name, (user, password) in due.items():
                await api.grant(name, user, password)
            for name, (user, _) in gone.items():
                await api.drop(name, user)

    await grants.settle(scope, "vhosts", scope.spec.vhosts, labels.selector("rabbitmq", scope.name, "server"), act)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("CredentialsReady", ensure_credentials),
        Step("ConfigReady", ensure_config),
        Step("DeploymentReady", ensure_server),
        Step("VhostsReady", ensure_vhosts),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.SERVICE, built_in.STATEFULSET, built_in.PVC),
    watches=(
        *grants.watches(kinds.RABBITMQ, "vhosts"),
        *pods.watches(kinds.RABBITMQ),
        storage.watch(kinds.RABBITMQ),
        storage.watch_claims(kinds.RABBITMQ),
    ),
)
