"""The pods of a Neutron: pure functions of spec and facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import blueprint, commands, config, kinds, names, probes, releases, workloads, wsgi
from openstack_operator.kit.types import PodSettings
from openstack_operator.services.neutron.config import (
    AGENT_CONF,
    AGENT_START_NAME,
    CONF,
    METADATA_SOCKET,
    PORT,
    SHUTDOWN_SECONDS,
    STATE,
)
from openstack_operator.services.neutron.types import NeutronSpec

UID = 42435
SERVICE = "neutron"
SERVER = blueprint.Blueprint(SERVICE, kinds.NEUTRON, "neutron-server", UID)
AGENT = blueprint.Blueprint(SERVICE, kinds.NEUTRON, "neutron-ovn-agent", user=None)
AMQP_PORT = 5672
WRITABLE = ("/tmp", STATE)
GRACE_SECONDS = SHUTDOWN_SECONDS + 10
"""Of the daemons; an idle one ends at once."""

NODE_STATE = "/var/lib/openstack/neutron"
"""On the node: configuration and pid files of the metadata proxies, beside the namespaces that outlive the pod."""

_AGENT: Mapping[str, Any] = {
    # Namespaces that the agent makes must be seen by the node and by the next pod. Kubernetes offers such a mount
    # (Bidirectional) to privileged containers only.
    "privileged": True,
    "readOnlyRootFilesystem": True,
    "runAsUser": 0,
    "runAsGroup": 0,
}


def metadata_secret(instance: str) -> str:
    """The Secret whose key ``secret`` Nova shares."""
    return names.join(instance, "metadata")


def agent_instance(instance: str) -> str:
    """Prefix of the agent's configuration, which is its own: nodes need no database password."""
    return names.workload(instance, "ovn-agent")


def metadata_host(spec: NeutronSpec, namespace: str) -> str:
    host = spec.nova_metadata_host
    return host if "." in host else names.dns(host, namespace)


def _pod(
    instance: str,
    spec: NeutronSpec,
    sources: config.Sources,
    component: str,
    container: workloads.Container,
    own: PodSettings | None = None,
    grace_seconds: int = GRACE_SECONDS,
) -> workloads.Pod:
    own = own or PodSettings(
        node_selector=spec.node_selector,
        tolerations=spec.tolerations,
        topology_spread_constraints=spec.topology_spread_constraints,
    )
    if own is not spec:
        own = own.model_copy(update={"extra_mounts": (*spec.extra_mounts, *own.extra_mounts)})
    if not own.container_image:
        own = own.model_copy(update={"container_image": spec.container_image})
    return SERVER.pod(
        instance, spec, component, container, own=own, sources=sources, writable=WRITABLE, grace_seconds=grace_seconds
    )


def api_pod(instance: str, spec: NeutronSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    container = wsgi.container(
        "neutron-api",
        PORT,
        "/healthcheck",
        env={"OS_NEUTRON_CONFIG_DIR": config.MERGED, "OS_NEUTRON_CONFIG_FILES": CONF},
        memory="256Mi",
    )
    return _pod(instance, spec, sources, "api", container, spec, wsgi.GRACE_SECONDS)


APPLICATION = "neutron_application"
APPLICATION_FILE = f"{APPLICATION}.py"
APPLICATION_SOURCE = '''\
"""Neutron's application with its policy loaded before the first request.

Neutron loads its rules at the first use; a request on another thread that comes meanwhile is judged without rules and
refused.
"""

from neutron import policy
from neutron.wsgi.api import application

policy.init()
'''


def uwsgi() -> str:
    # Neutron tells its own restarts from those of others by the server's start time.
    return wsgi.ini(APPLICATION, PORT, extra=("start-time = %t", f"pythonpath = {config.MERGED}"))


def db_sync_pod(instance: str, spec: NeutronSpec, sources: config.Sources) -> workloads.Pod:
    """The Job that brings the schema up to date."""
    conf = f"{config.MERGED}/{CONF}"
    upgrade = commands.Command(("neutron-db-manage", f"--config-file={conf}", "upgrade", "heads"))
    command = commands.line("neutron.db.migration.cli:main", upgrade, conf=conf)
    container = workloads.Container(
        name="db-sync", command=command, env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"}, cpu=workloads.CPU_COMMON
    )
    return _pod(instance, spec, sources, "db-sync", container)


def _daemon(
    program: str, memory: str, probe: Mapping[str, Any] | None = None, cpu: str = workloads.CPU_MINOR
) -> workloads.Container:
    return workloads.Container(
        name=program,
        command=(program, f"--config-file={config.MERGED}/{CONF}"),
        env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"},
        probe=probe,
        cpu=cpu,
        memory=memory,
    )


def workers(instance: str, spec: NeutronSpec, sources: config.Sources) -> dict[str, tuple[workloads.Pod, int]]:
    """Pod and replicas of the daemons beside the API, by the workload's name."""
    rpc = _daemon("neutron-rpc-server", "256Mi", probes.connected(AMQP_PORT), workloads.CPU_COMMON)
    # Both take the work that only one may do under a lock in the database; nobody waits for them.
    periodic = _daemon("neutron-periodic-workers", "256Mi")
    maintenance = _daemon("neutron-ovn-maintenance-worker", "256Mi")
    # Users who stop the API mean the service.
    single = min(spec.replicas, 1)
    return {
        names.workload(instance, component): (_pod(instance, spec, sources, component, container, own), replicas)
        for component, container, own, replicas in (
            ("rpc-server", rpc, spec.rpc_server, spec.rpc_server.replicas if spec.replicas else 0),
            ("periodic-workers", periodic, None, single),
            ("ovn-maintenance-worker", maintenance, None, single),
        )
    }


def agent_pod(instance: str, spec: NeutronSpec, sources: config.Sources) -> workloads.Pod:
    """The agent on a node."""
    program = releases.load(spec.openstack_release).option("metadata_agent")
    container = workloads.Container(
        name=program,
        command=("sh", f"{config.SCRIPTS}/{AGENT_START_NAME}", program, f"--config-file={config.MERGED}/{AGENT_CONF}"),
        env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"},
        # The node's name in Kubernetes is the name of its hypervisor and its chassis, whatever its host name is.
        env_from_fields={"OS_DEFAULT__HOST": "spec.nodeName"},
        security=_AGENT,
        # The kernel lists the socket while somebody listens on it.
        probe=probes.command("grep", "-q", f" {METADATA_SOCKET}$", "/proc/net/unix"),
        cpu="20m",
        memory="200Mi",
        mounts=(
            {"name": "netns", "mountPath": "/run/netns", "mountPropagation": "Bidirectional"},
            {"name": "state", "mountPath": STATE},
        ),
    )
    return AGENT.pod(
        instance,
        spec,
        "ovn-agent",
        container,
        own=spec.agent,
        sources=sources,
        host_network=True,
        grace_seconds=GRACE_SECONDS,
        volumes=(
            {"name": "netns", "hostPath": {"path": "/run/netns", "type": "DirectoryOrCreate"}},
            {"name": "state", "hostPath": {"path": NODE_STATE, "type": "DirectoryOrCreate"}},
        ),
    )
