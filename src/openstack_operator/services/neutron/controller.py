"""Reconciles Neutron: from its database to an API that serves, the workers behind it, and the agent on the nodes.

EndpointsReady ----------------------------------------------------------------------> RegistrationReady
IdentityReady --+                                                                      (Keystone must serve)
CacheReady -----+
OVNReady -------+--> ConfigReady --+--> DatabaseSyncReady --+--> DeploymentReady
(URLs of database and message bus) |                        +--> WorkersReady
DatabaseReady ---------------------+   MessagingReady ------+
SecretsReady + OVNReady --> AgentConfigReady --> AgentReady
"""

from __future__ import annotations

from openstack_operator.kit import (
    api_service,
    commands,
    config,
    credentials,
    jobs,
    kinds,
    levels,
    messaging,
    pods,
    releases,
    requests,
    rereading,
    watches,
    workloads,
    wsgi,
)
from openstack_operator.runtime import errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.neutron import config as files
from openstack_operator.services.neutron import resources
from openstack_operator.services.neutron.types import KIND, NeutronSpec

API = api_service.RegisteredService(
    service=resources.SERVICE,
    type=files.SERVICE_TYPE,
    description="OpenStack Networking",
    port=files.PORT,
    pod=resources.api_pod,
)


async def ensure_secrets(scope: Scope[NeutronSpec]) -> None:
    """The secret that signs guests' metadata requests exists."""
    name = resources.metadata_secret(scope.name)
    values = {"secret": credentials.generate()}
    item = await credentials.ensure(scope, name, resources.SERVICE, values, keep=("secret",))
    scope.facts["metadata.secret"] = credentials.decode(item)["secret"]
    scope.facts["metadata.host"] = resources.metadata_host(scope.spec, scope.namespace)
    scope.status["metadataSecret"] = name


async def observe_ovn(scope: Scope[NeutronSpec]) -> None:
    """The addresses of OVN's databases are known."""
    name = scope.spec.ovn_ref.name
    status = requests.server(scope, kinds.OVN_NETWORK, name).get("status", {})
    if not status.get("nbConnection") or not status.get("sbConnection"):
        message = f"OVNNetwork {scope.namespace}/{name} has not published its addresses yet"
        raise errors.Waiting("NoAddress", message, on=kinds.OVN_NETWORK.kind)
    scope.facts["ovn.nb"], scope.facts["ovn.sb"] = status["nbConnection"], status["sbConnection"]


async def ensure_messaging(scope: Scope[NeutronSpec]) -> None:
    """The virtual host and its user stand in RabbitMQ."""
    supplied = scope.spec.credentials.messaging
    await messaging.ensure(scope, resources.SERVICE, scope.spec.messaging_ref.name, scope.name, supplied=supplied)


async def ensure_config(scope: Scope[NeutronSpec]) -> None:
    """The configuration is valid and written."""
    # Both URLs are known before their servers have set up what they point to, so the schema need not wait for the
    # message bus.
    for fact, kind, ref in (
        ("database.url", kinds.MARIADB, scope.spec.database_ref),
        ("messaging.url", kinds.RABBITMQ, scope.spec.messaging_ref),
    ):
        if fact not in scope.facts:
            raise errors.Waiting("NoURL", f"{kind.kind} {scope.namespace}/{ref.name} is not known yet", on=kind.kind)
    custom = levels.custom(scope)
    release = releases.load(scope.spec.openstack_release)
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File(files.CONF, files.rows(release), custom)],
        whole={wsgi.FILE: resources.uwsgi(), resources.APPLICATION_FILE: resources.APPLICATION_SOURCE},
        scripts={wsgi.START_NAME: wsgi.START, **commands.SCRIPTS},
        defaults=files.DEFAULTS,
    )


async def ensure_db_sync(scope: Scope[NeutronSpec]) -> None:
    """The schema is current."""
    pod = resources.db_sync_pod(scope.name, scope.spec, scope.facts["sources"])
    await jobs.ensure(scope, pod, "db-sync")


async def ensure_workers(scope: Scope[NeutronSpec]) -> str | None:
    """RPC server, periodic workers and OVN's maintenance worker run."""
    items = []
    for name, (pod, replicas) in resources.workers(scope.name, scope.spec, scope.facts["sources"]).items():
        await workloads.ensure_budget(scope, pod, name, replicas)
        body = workloads.deployment(pod, name, replicas)
        items.append((pod, await workloads.apply(scope, built_in.DEPLOYMENT, body)))
    told = []
    for pod, item in items:
        if found := await workloads.reread(scope, built_in.DEPLOYMENT, item, pod):
            told.append(f"{item['metadata']['name']}: {found}")
    for _, item in items:
        workloads.wait(scope, built_in.DEPLOYMENT, item)
    return "; ".join(told) or None


async def ensure_agent_config(scope: Scope[NeutronSpec]) -> None:
    """The agent's configuration is valid and written."""
    custom = levels.custom(scope, "agent")
    scope.facts["agent.sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File(files.AGENT_CONF, files.AGENT_ROWS, custom)],
        scripts={files.AGENT_START_NAME: files.AGENT_START},
        defaults=files.DEFAULTS,
        instance=resources.agent_instance(scope.name),
    )


async def ensure_agent(scope: Scope[NeutronSpec]) -> None:
    """The agent runs on every node that runs guests."""
    pod = resources.agent_pod(scope.name, scope.spec, scope.facts["agent.sources"])
    body = workloads.daemon_set(pod, resources.agent_instance(scope.name))
    workloads.wait(scope, built_in.DAEMONSET, await scope.apply(built_in.DAEMONSET, body))


async def finalize(scope: Scope[NeutronSpec]) -> None:
    """Takes the service out of Keystone, and drops database and virtual host."""
    vhost = messaging.drop(scope, scope.spec.messaging_ref.name, scope.name)
    await requests.each((API.unregister(scope), vhost, API.drop_database(scope)))


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", API.ensure_endpoints, needs=()),
        Step("SecretsReady", ensure_secrets, needs=()),
        Step("IdentityReady", API.ensure_identity, needs=()),
        Step("CacheReady", API.observe_cache, needs=()),
        Step("OVNReady", observe_ovn, needs=()),
        Step("DatabaseReady", API.ensure_database, needs=()),
        Step("MessagingReady", ensure_messaging, needs=()),
        Step("ConfigReady", ensure_config, needs=("IdentityReady", "CacheReady", "OVNReady")),
        Step("DatabaseSyncReady", ensure_db_sync, needs=("ConfigReady", "DatabaseReady")),
        Step("DeploymentReady", API.ensure_deployment, needs=("DatabaseSyncReady", "MessagingReady")),
        Step("WorkersReady", ensure_workers, needs=("DatabaseSyncReady", "MessagingReady")),
        Step("AgentConfigReady", ensure_agent_config, needs=("SecretsReady", "OVNReady")),
        Step("AgentReady", ensure_agent, needs=("AgentConfigReady",)),
        Step("RegistrationReady", API.ensure_registration, needs=("EndpointsReady", "IdentityReady")),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SECRET,
        built_in.SERVICE,
        built_in.DEPLOYMENT,
        built_in.DAEMONSET,
        built_in.PDB,
        built_in.JOB,
    ),
    watches=(
        *pods.watches(kinds.NEUTRON),
        watches.nodes(kinds.NEUTRON),
        watches.referenced(kinds.KEYSTONE, kinds.NEUTRON, "keystoneRef"),
        watches.referenced(kinds.MARIADB, kinds.NEUTRON, "databaseRef"),
        watches.referenced(kinds.RABBITMQ, kinds.NEUTRON, "messagingRef"),
        watches.referenced(kinds.MEMCACHED, kinds.NEUTRON, "memcachedRef"),
        watches.referenced(kinds.OVN_NETWORK, kinds.NEUTRON, "ovnRef"),
    ),
    rules=rereading.RULES,
    finalize=finalize,
)
