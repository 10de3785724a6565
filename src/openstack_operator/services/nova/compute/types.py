"""The NovaCompute kind."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Configurable, PodSettings, Ref, Status
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import K8s, Labels, Model, Rule
from openstack_operator.services.nova.parts import URL, Process, ShutdownSettings

COMPUTE_NODES = {"openstack.k8s.io/compute": "true"}

IMMUTABLE = Rule("self == oldSelf", "the driver cannot be changed: servers do not move from one to the other")


class ComputeTemplate(PodSettings, Configurable, ShutdownSettings):
    """Compute nodes of a cell that are nodes of the Kubernetes cluster."""

    components: ClassVar[tuple[str, ...]] = ("compute", "libvirt")

    driver: Annotated[Literal["Libvirt", "Fake"], K8s(cel=(IMMUTABLE,))] = "Libvirt"
    """How servers run: Libvirt on the nodes; Fake in the memory of one nova-compute in a Deployment, whose host has the
    name of the object, for tests of cells and of scheduling. Sets [DEFAULT] compute_driver."""
    node_selector: Labels = COMPUTE_NODES
    """Labels that a node must have to run servers. Sets nodeSelector of the DaemonSets."""
    shutdown_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """Time for operations that are running when nova-compute is told to end, in seconds; an idle one waits too. Sets
    [DEFAULT] manager_shutdown_timeout, [DEFAULT] graceful_shutdown_timeout and terminationGracePeriodSeconds."""
    virt_type: Literal["Auto", "KVM", "QEMU"] = "Auto"
    """How servers run: KVM by the processor, QEMU by emulation; Auto tries KVM on each node and falls back to QEMU.
    Without Auto and KVM the pods need fewer privileges. Sets [libvirt] virt_type, and [libvirt] cpu_mode for QEMU."""
    libvirt_container_image: Annotated[str, Field(max_length=512)] | None = None
    """Whole reference of libvirt's image, instead of the one that `images` gives. Sets image of the libvirt pods."""


class NovaComputeSpec(ComputeTemplate, Process):
    """Compute nodes and what they connect to."""

    novncproxy_url: URL | None = None
    """URL of the page with which browsers reach consoles; without it there are no consoles. Sets [vnc] enabled and
    [vnc] novncproxy_base_url."""
    conductor_ref: Ref | None = None
    """The NovaConductor of the cell, if nova-compute shall be started, and replaced, only when that is Ready. Delays
    the DaemonSet of nova-compute."""
    placement_ref: Ref | None = None
    """The Placement, if nova-compute shall be started only when that is Ready. Delays the DaemonSet of nova-compute."""
    nova_ref: Ref | None = None
    """The Nova, if nova-compute shall be started only when that is registered in Keystone. Delays the DaemonSet of
    nova-compute."""


class ComputeHost(Model):
    """A node that runs servers."""

    name: str
    """Name of the node, and of the host in Nova."""
    virt_type: str | None = None
    """How servers run on it: kvm or qemu."""
    reason: str | None = None
    """Why they run so."""


class ComputeStatus(Status):
    """What the operator observed of the compute nodes."""

    nodes: int | None = None
    """Nodes that have the labels."""
    ready_nodes: int | None = None
    """Nodes on which nova-compute works."""
    virt_type: str | None = None
    """How servers run; more than one value where nodes differ."""
    hosts: Annotated[tuple[ComputeHost, ...], K8s(list_type="map", map_keys=("name",))] = ()
    """Nodes on which nova-compute works."""


KIND = Kind(
    resource=kinds.NOVA_COMPUTE,
    spec=NovaComputeSpec,
    status=ComputeStatus,
    description="Compute nodes of a cell that are nodes of the Kubernetes cluster: libvirt and nova-compute.",
    columns=(
        Column("Nodes", ".status.nodes", "integer", description="Nodes that have the labels."),
        Column("Up", ".status.readyNodes", "integer", description="Nodes on which nova-compute works."),
        Column("Virt", ".status.virtType", description="How servers run: kvm or qemu."),
    ),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
