"""Names of derived objects: the one place that puts them together (STYLE N2).

A name that would be too long keeps its beginning and gets a hash of the whole, so two inputs never map to one name.
"""

from __future__ import annotations

import hashlib

# Labels, Service names and host names take 63; StatefulSet and CronJob names less, because controllers append to them
# (controller-revision-hash: 11, the minute of a CronJob: 11).
LONGEST = 63
LONGEST_WORKLOAD = 52

INSTANCE_LENGTH = 36
"""Longest name of an object of ours that leaves every name derived from it readable (``Kind.max_name_length``)."""


def join(*parts: str, longest: int = LONGEST) -> str:
    """``a-b-c``, cut with a hash when it is longer than ``longest``."""
    name = "-".join(part for part in parts if part)
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - 9].rstrip('-')}-{digest}"


def workload(instance: str, component: str = "") -> str:
    """Deployment, StatefulSet, DaemonSet, CronJob."""
    return join(instance, component, longest=LONGEST_WORKLOAD)


def job(instance: str, task: str, digest: str) -> str:
    """A Job is immutable: other inputs, other name."""
    return join(instance, task, digest[:8], longest=LONGEST_WORKLOAD)


def config_data(instance: str) -> str:
    return join(instance, "config-data")


def config_secrets(instance: str) -> str:
    return join(instance, "config-secrets")


def scripts(instance: str) -> str:
    return join(instance, "scripts")


def api_service(instance: str) -> str:
    """The internal Service of an API, such as keystone-api."""
    return join(instance, "api")


def public_service(instance: str) -> str:
    return join(instance, "public")


def members_service(instance: str) -> str:
    """The headless Service that gives each pod of a StatefulSet its stable name."""
    return join(instance, "members")


def database_secret(instance: str, database: str = "") -> str:
    return join(instance, database, "db")


def schema(*parts: str) -> str:
    """A database and its user: names of objects have no underscore, so two never become one."""
    return "_".join(parts).replace("-", "_")


def messaging_secret(instance: str, vhost: str = "") -> str:
    return join(instance, vhost, "mq")


def service_user_secret(instance: str) -> str:
    return join(instance, "service-user")


def admin_secret(keystone: str) -> str:
    return join(keystone, "admin")


def closed_policy(control_plane: str) -> str:
    """The NetworkPolicy that lets nobody connect to any pod."""
    return join(control_plane, "closed")


def network_policy(service: str, component: str) -> str:
    """The NetworkPolicy that opens the ports of a component's pods."""
    return join(service, component)


def dns(service: str, namespace: str) -> str:
    """Host name of a Service inside the cluster. No cluster domain: resolv.conf's search list completes it, whatever
    the domain is called."""
    return f"{service}.{namespace}.svc"
