"""Types that the kinds of the nova family share.

``…Template`` is what users say about one of Nova's processes; ``Process`` is what each of these kinds has to know
beyond that. Databases and message buses are Secrets with ``user``, ``password`` and ``hostname`` (and, where they
differ from the defaults, ``port``, ``database``, ``vhost``), so that every kind works alone, without a Nova above it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from openstack_operator.kit.types import Configurable, Inheriting, Instance, PodSettings, Ref, Status
from openstack_operator.runtime.schema import Model, Replicas

URL = Annotated[str, Field(pattern=r"^https?://", max_length=512)]

CellName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=16)]
"""Name of a cell; it becomes part of names of objects, databases and virtual hosts."""

RegisteredCells = Annotated[dict[str, str], Field(max_length=64)]


class PartTemplate(PodSettings, Configurable):
    """One of Nova's processes."""

    replicas: Replicas | None = None
    """Number of pods. Sets replicas of the Deployment; absent, `replicas` of the Nova holds."""


class ShutdownSettings(Model):
    """How a process that works on requests from the message bus ends."""

    shutdown_seconds: Annotated[int, Field(ge=1, le=3600)] = 5
    """Time for operations that are running when the process is told to end, in seconds; an idle one waits too. Sets
    [DEFAULT] manager_shutdown_timeout, [DEFAULT] graceful_shutdown_timeout and terminationGracePeriodSeconds."""


class DaemonTemplate(PartTemplate, ShutdownSettings):
    """One of Nova's processes without an API."""


class Process(Instance, Inheriting):
    """What every process of Nova needs to know."""

    region: Annotated[str, Field(min_length=1, max_length=255)] = "RegionOne"
    """Keystone region. Sets region_name in every client section."""
    auth_url: URL
    """Keystone's URL inside the cluster. Sets auth_url in every client section."""
    public_auth_url: URL | None = None
    """Keystone's URL for clients; `authUrl` when absent. Sets [keystone_authtoken] www_authenticate_uri."""
    memcached_servers: Annotated[str, Field(min_length=1, max_length=4096)]
    """Comma-separated host:port of the Memcached members. Sets [cache] memcache_servers."""
    service_user_secret_ref: Ref
    """Secret with user and password of Nova's Keystone user. Sets the credentials in every client section."""
    messaging_secret_ref: Ref
    """Secret with user, password and hostname of the message bus, and its vhost if that is not named like the user.
    Sets transport_url."""


class PartStatus(Status):
    """What the operator observed of one of Nova's processes."""

    replicas: int | None = None
    """Pods that exist."""
    ready_replicas: int | None = None
    """Pods that work."""
    selector: str | None = None
    """Label selector of the pods, for autoscalers."""


SHUTDOWN_RESERVE = 10
"""graceful_shutdown_timeout is this much longer than the managers' own wait: the service cuts that short otherwise."""
TERMINATION_RESERVE = 20
"""Kubernetes waits this much longer than the managers do: measured ends of idle processes take up to 8 s more."""
