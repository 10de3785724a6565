"""The Nova kind."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, cast

from pydantic import Field, model_validator

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    Configurable,
    Credentials,
    Entry,
    MessagingClientInstance,
    PublicEndpoint,
    Ref,
    Status,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import K8s, Model, Replicas, Rule
from openstack_operator.services.nova.api.types import APITemplate
from openstack_operator.services.nova.cell.types import KEYS, CellTemplate
from openstack_operator.services.nova.conductor.types import ConductorTemplate
from openstack_operator.services.nova.metadata.types import MetadataTemplate
from openstack_operator.services.nova.parts import CellName
from openstack_operator.services.nova.scheduler.types import SchedulerTemplate

NOT_CELL0 = Rule("!('cell0' in self)", "cell0 belongs to Nova itself and cannot be configured")

RESERVED = Rule(
    "!self.exists(key, key in ['api', 'scheduler', 'conductor', 'metadata', 'cells', 'removal'])",
    "api, scheduler, conductor, metadata, cells and removal are names of other parts of Nova",
)


class NovaTemplate(Configurable):
    """A compute service."""

    overwritable: ClassVar[tuple[str, ...]] = ("api-paste.ini", "logging.conf", "policy.yaml")

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.forcedCellRemovals) || !has(self.cellTemplates) || "
            "self.forcedCellRemovals.all(cell, !(cell in self.cellTemplates))",
            "a cell in forcedCellRemovals must not be in cellTemplates",
        ),
    )

    replicas: Replicas = 1
    """Number of pods of each part whose own template says nothing. Sets replicas of the parts."""
    credentials: Credentials = Credentials()
    """Passwords that the user brings; `database` and `messaging` are those of the API. Sets the service's Secrets."""
    public_endpoint: PublicEndpoint | None = None
    """How API and consoles are reached from outside. Sets the public Services and the public URL in Keystone; absent,
    the control plane's setting holds."""
    api: APITemplate = APITemplate()
    """The compute API. Sets the NovaAPI."""
    scheduler: SchedulerTemplate = SchedulerTemplate()
    """The scheduler. Sets the NovaScheduler."""
    conductor: ConductorTemplate = ConductorTemplate()
    """The super-conductor. Sets the NovaConductor."""
    metadata: MetadataTemplate = MetadataTemplate()
    """The metadata service for all cells. Sets the NovaMetadata."""
    cell_templates: Annotated[
        dict[str, CellTemplate],
        Field(min_length=1, max_length=16, validate_default=True),
        K8s(cel=(KEYS, NOT_CELL0, RESERVED)),
    ] = cast("dict[str, CellTemplate]", {"cell1": {}})
    """Cells by name. Sets one NovaCell each, with a database and a virtual host of its own. One that is taken out goes,
    with its database, when no server is left in it and no compute host works that is not the cell's own."""
    forced_cell_removals: Annotated[tuple[CellName, ...], Field(max_length=16), K8s(list_type="set")] = ()
    """Cells that go although there are servers in them, or hosts that are not their own: what Nova knows of these
    servers is lost, and their guests end; their ports and volumes stay. Skips the check of a removed cell."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        """Raises ValueError for two groups of computes that want the same nodes: a node has one libvirt, and belongs to
        one cell."""
        groups: dict[frozenset[tuple[str, str]], str] = {}
        for cell, template in self.cell_templates.items():
            for group, compute in template.computes.items():
                if compute.driver != "Libvirt":
                    continue
                name = f"{cell}.computes.{group}"
                first = groups.setdefault(frozenset(compute.node_selector.items()), name)
                if first != name:
                    raise ValueError(
                        f"cellTemplates.{name}.nodeSelector is that of cellTemplates.{first}: "
                        "a node serves one group of one cell"
                    )
        return self


class NovaEntry(Entry, NovaTemplate):
    """The compute service of a control plane."""


class NovaSpec(NovaTemplate, MessagingClientInstance):
    """A compute service and where it belongs."""

    placement_ref: Ref = Ref(name="placement")
    """The Placement object. Computes wait for it; the services find each other in Keystone's catalogue."""
    neutron_ref: Ref = Ref(name="neutron")
    """The Neutron object, whose Secret `<name>-metadata` the metadata services share. Sets [neutron]
    metadata_proxy_shared_secret."""


class UpgradeCheck(Model):
    """What one of the checks of `nova-status upgrade check` said."""

    name: str
    """Name of the check."""
    verdict: str
    """Success, Warning or Failure."""
    details: str | None = None
    """What there is to do."""


class NovaStatus(Status):
    """What the operator observed of the compute service."""

    internal_url: str | None = None
    """URL of the API inside the cluster."""
    public_url: str | None = None
    """URL of the API outside the cluster."""
    registered_cells: dict[str, str] = {}
    """Hash of the connections of each cell that the API database knows."""
    hosts: tuple[str, ...] = ()
    """Compute hosts that are mapped to their cell and offered by Placement."""
    virt_type: str | None = None
    """How servers run: kvm or qemu; more than one value where nodes differ."""
    upgrade_checks: Annotated[tuple[UpgradeCheck, ...], K8s(list_type="map", map_keys=("name",))] = ()
    """What Nova's own upgrade check said, for the present image, configuration and cells. The condition
    UpgradeCheckPassed sums it up: False where a check failed. Ready does not depend on it, since the checks are about
    the next upgrade."""


KIND = Kind(
    resource=kinds.NOVA,
    spec=NovaSpec,
    status=NovaStatus,
    description="OpenStack Compute.",
    columns=(
        Column("URL", ".status.publicUrl", description="Public URL of the API."),
        Column("Virt", ".status.virtType", description="How servers run: kvm or qemu."),
    ),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
