"""Pods and objects of the nova family: what the kinds share, the Job that registers cells, and the specs of children.

Pure functions of spec and facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openstack_operator.kit import config, kinds, levels, probes, releases, settings, workloads
from openstack_operator.kit.types import Instance, PodSettings
from openstack_operator.runtime import drift
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.schema import Model
from openstack_operator.services.nova import config as files
from openstack_operator.services.nova.cell.types import CellTemplate
from openstack_operator.services.nova.parts import TERMINATION_RESERVE, PartTemplate
from openstack_operator.services.nova.rows import UID
from openstack_operator.services.nova.types import NovaSpec

SERVICE = "nova"
CONF = f"{config.MERGED}/nova.conf"
DEFAULTS = "/etc/nova"
"""Where images have api-paste.ini."""

WSGI_ENVIRONMENT = {"OS_NOVA_CONFIG_DIR": config.MERGED, "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf"}


def image(spec: Instance, role: str, override: str | None = None) -> str:
    """The image of a role for the spec of any of Nova's kinds."""
    release = releases.load(spec.openstack_release)
    return releases.image(release, role, spec.images, settings.image_source(), override)


def cells_hash(registered_cells: Mapping[str, str]) -> str:
    return drift.digest(dict(registered_cells)) if registered_cells else ""


def pod(
    instance: str,
    spec: Any,
    sources: config.Sources,
    *,
    component: str,
    owner_kind: str,
    role: str,
    container: workloads.Container,
    grace_seconds: int = 0,
    hash_extra: str = "",
) -> workloads.Pod:
    """The pods of one of Nova's processes in a Deployment; ``spec`` has an ``Instance`` and ``PodSettings``.

    ``grace_seconds`` is for those that do not say in their spec how long they may take to end.
    """
    pod_settings: PodSettings = spec
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component=component,
        owner_kind=owner_kind,
        image=image(spec, role, pod_settings.container_image),
        user=UID,
        settings=pod_settings,
        sources=sources,
        containers=(workloads.of_release(spec.openstack_release, SERVICE, container),),
        grace_seconds=grace_seconds or getattr(spec, "shutdown_seconds", 10) + TERMINATION_RESERVE,
        hash_extra=hash_extra,
    )


def daemon(name: str, *, memory: str, cpu: str = workloads.CPU_COMMON) -> workloads.Container:
    """The container of a process that serves the message bus only."""
    return workloads.Container(
        name=name,
        command=(name, "--config-file", CONF),
        env={"XDG_CACHE_HOME": "/tmp", "HOME": "/tmp"},
        # RabbitMQ's port: connected means that the process takes requests.
        probe=probes.connected(files.AMQP_PORT),
        cpu=cpu,
        memory=memory,
    )


CELLS, HOSTS = "cells", "hosts"
MAPPING = (CELLS, HOSTS)
"""Components of the Jobs that map hosts to cells."""
_PROGRAM = ("python3", f"{config.SCRIPTS}/{files.CELLS_NAME}", CONF)


def cells_pod(
    instance: str, spec: NovaSpec, sources: config.Sources, hosts: Mapping[str, str] | None = None
) -> workloads.Pod:
    """The Job that brings all schemas up to date, registers the cells, and maps these hosts to their cells: Nova is
    imported once for all of it."""
    return _mapping_pod(instance, spec, sources, CELLS, f"{config.MERGED}/{files.CELLS}", hosts or {})


def hosts_pod(instance: str, spec: NovaSpec, sources: config.Sources, hosts: Mapping[str, str]) -> workloads.Pod:
    """The Job that maps these hosts to their cells."""
    return _mapping_pod(instance, spec, sources, HOSTS, files.NO_CELLS, hosts)


def hosts_told(job: Object) -> dict[str, str]:
    """Cell of each host that the Job of one of these pods maps."""
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    pairs = (one.split("/", 1) for one in command[len(_PROGRAM) + 1 :])
    return {host: cell for cell, host in pairs}


def _mapping_pod(
    instance: str, spec: NovaSpec, sources: config.Sources, component: str, plan: str, hosts: Mapping[str, str]
) -> workloads.Pod:
    container = workloads.Container(
        name=component,
        # Neither names of cells nor of hosts have a slash.
        command=(*_PROGRAM, plan, *(f"{hosts[host]}/{host}" for host in sorted(hosts))),
        cpu=workloads.CPU_AWAITED,
        # Nothing here waits for the network in more than one thread; the process forks.
        env={"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true", "XDG_CACHE_HOME": "/tmp", "HOME": "/tmp"},
    )
    return _job_pod(instance, spec, sources, component, container)


def _job_pod(
    instance: str,
    spec: NovaSpec,
    sources: config.Sources,
    component: str,
    container: workloads.Container,
    hash_extra: str = "",
) -> workloads.Pod:
    """The pod of a Job of the Nova: a program beside its packages, for all cells."""
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component=component,
        owner_kind=kinds.NOVA.kind,
        image=image(spec, "nova-conductor"),
        user=UID,
        sources=sources,
        containers=(container,),
        hash_extra=hash_extra,
    )


REMOVAL_PREFIX = "remove-"


def removal_component(cell: str) -> str:
    return f"{REMOVAL_PREFIX}{cell}"


def removal_pod(
    instance: str, spec: NovaSpec, sources: config.Sources, cell: str, mode: str, own_hosts: Iterable[str]
) -> workloads.Pod:
    """The Job that looks what is in a cell, or takes it out of Nova (``files.REMOVAL_SCRIPT``)."""
    container = workloads.Container(
        name="remove",
        command=("python3", f"{config.SCRIPTS}/{files.REMOVAL_NAME}", CONF, cell, mode, *own_hosts),
        env={"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true", "XDG_CACHE_HOME": "/tmp", "HOME": "/tmp"},
    )
    return _job_pod(instance, spec, sources, removal_component(cell), container)


UPGRADE_CHECK = "upgrade-check"


def upgrade_check_pod(
    instance: str, spec: NovaSpec, sources: config.Sources, registered_cells: Mapping[str, str]
) -> workloads.Pod:
    """The Job that runs `nova-status upgrade check`, once for each set of cells."""
    container = workloads.Container(
        name=UPGRADE_CHECK,
        command=("python3", f"{config.SCRIPTS}/{files.UPGRADE_CHECK_NAME}", CONF),
        env={"XDG_CACHE_HOME": "/tmp", "HOME": "/tmp"},
        # Whoever else wants the processor has it first.
        cpu="1m",
    )
    return _job_pod(instance, spec, sources, UPGRADE_CHECK, container, cells_hash(registered_cells))


def process(spec: NovaSpec, facts: Mapping[str, Any], messaging_secret: str) -> dict[str, Any]:
    """What every child's spec says about its surroundings."""
    return {
        "openstackRelease": spec.openstack_release,
        "images": spec.images.model_dump(by_alias=True, exclude_none=True),
        "region": spec.region,
        "authUrl": facts["identity.url"],
        "publicAuthUrl": facts["identity.public_url"],
        "memcachedServers": facts["cache.servers"],
        "serviceUserSecretRef": {"name": facts["service_user.secret"]},
        "messagingSecretRef": {"name": messaging_secret},
    }


def explicit(template: Model, *skipped: str) -> dict[str, Any]:
    """What a template says, for a child's spec; ``skipped`` are fields that the child does not have."""
    return template.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_unset=True, exclude=set(skipped) or None
    )


def part(nova: str, spec: NovaSpec, template: PartTemplate, *skipped: str) -> dict[str, Any]:
    """A part of the Nova in its child's spec: the Nova's own values where the part's template has none."""
    body = explicit(template, *skipped)
    if template.replicas is None:
        body["replicas"] = spec.replicas
    return policy(spec) | body | levels.handed_down(kinds.NOVA, nova, spec) | levels.files(spec, template)


def cell(nova: str, spec: NovaSpec, template: CellTemplate) -> dict[str, Any]:
    """A cell of the Nova in its object's spec."""
    body = explicit(template, "database_ref", "messaging_ref") | {"replicas": spec.replicas}
    if spec.public_endpoint is not None:
        body["publicEndpoint"] = explicit(spec.public_endpoint)
    return policy(spec) | body | levels.handed_down(kinds.NOVA, nova, spec) | levels.files(spec, template)


def policy(spec: Model) -> dict[str, Any]:
    """How users' text is judged, for a child whose own template does not say."""
    own = getattr(spec, "config_policy", None)
    return {} if own is None else {"configPolicy": own.model_dump(mode="json", by_alias=True)}
