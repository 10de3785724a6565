"""The NovaNoVNCProxy kind."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import PublicEndpoint, Ref, ServiceStatus
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Replicas
from openstack_operator.services.nova.parts import PartTemplate, Process


class NoVNCProxyTemplate(PartTemplate):
    """The proxy for consoles in the browser."""

    components: ClassVar[tuple[str, ...]] = ("novncproxy",)
    overwritable: ClassVar[tuple[str, ...]] = ("logging.conf",)

    enabled: bool = True
    """Whether servers of the cell have consoles in the browser. Sets [vnc] enabled on the cell's computes; False
    deletes the proxy's object."""
    public_endpoint: PublicEndpoint | None = None
    """How browsers reach the proxy. Sets the public Service and [vnc] novncproxy_base_url on the cell's computes;
    absent, type and host of the Nova's `publicEndpoint` hold."""


class NovaNoVNCProxySpec(PartTemplate, Process):
    """A proxy for consoles and what it connects to."""

    components: ClassVar[tuple[str, ...]] = NoVNCProxyTemplate.components
    overwritable: ClassVar[tuple[str, ...]] = NoVNCProxyTemplate.overwritable

    replicas: Replicas = 1
    """Number of pods. Sets replicas of the Deployment."""
    public_endpoint: PublicEndpoint | None = None
    """How browsers reach the proxy. Sets the public Service and status.publicUrl."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of the cell's database, which holds the consoles' tokens. Sets [database]
    connection."""


KIND = Kind(
    resource=kinds.NOVA_NOVNCPROXY,
    spec=NovaNoVNCProxySpec,
    status=ServiceStatus,
    description="The proxy for consoles in the browser of a cell.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of pods."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
