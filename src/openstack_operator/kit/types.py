"""Fields that several kinds share. A field exists only when it works, and its docstring ends with its effect."""

from __future__ import annotations

import posixpath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from openstack_operator.kit import quantities
from openstack_operator.runtime.kinds import Condition, Status
from openstack_operator.runtime.schema import (
    WHOLE,
    DataKey,
    K8s,
    Labels,
    Model,
    Name,
    ObjectName,
    Opaque,
    Port,
    Quantity,
    Replicas,
    Rule,
)

__all__ = ["Condition", "Status"]

ReleaseName = Literal["2025.1", "2025.2", "2026.1", "2026.2"]
# A change would be an upgrade: databases that go forward in an order of services, and never back.
SAME_RELEASE = Rule("self == oldSelf", "the release cannot be changed after creation: a running cloud is not upgraded")
Release = Annotated[ReleaseName, K8s(cel=(SAME_RELEASE,))]
DEFAULT_RELEASE: ReleaseName = "2026.1"

SAME_SERVER = Rule(
    "self == oldSelf",
    "the database server cannot be changed after creation: on another one the service would begin with nothing",
)

SAME_REGION = Rule(
    "self == oldSelf",
    "the region cannot be changed after creation: the endpoints of the old one would stay in the catalogue",
)

ConfigText = Annotated[str, Field(max_length=65536)]
"""A piece of an oslo.config file."""


class Ref(Model):
    """Another object of the same namespace."""

    name: Name
    """metadata.name of the object."""


class SecretKeyRef(Model):
    """One value of a Secret of the same namespace that the user made."""

    name: ObjectName
    """metadata.name of the Secret."""
    key: DataKey = "password"
    """Key in the Secret's data."""


class ResourceList(Model):
    """Amounts of compute resources."""

    cpu: Quantity | None = None
    """CPU cores, such as 500m."""
    memory: Quantity | None = None
    """Memory, such as 256Mi."""


class Resources(Model):
    """Compute resources of the main container."""

    requests: ResourceList = ResourceList()
    """What is reserved. Sets resources.requests; what is absent keeps the service's own default."""
    limits: ResourceList = ResourceList()
    """What may not be exceeded. Sets resources.limits; none by default."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        """Raises ValueError for what the API server refuses in every pod."""
        for name in type(self.requests).model_fields:
            asked, allowed = getattr(self.requests, name), getattr(self.limits, name)
            if asked and allowed and quantities.value(asked) > quantities.value(allowed):
                raise ValueError(f"requests.{name} {asked} is more than limits.{name} {allowed}")
        return self


class Images(Model):
    """Where images come from: `<registry>/<prefix>/<name>:<tag>` with Kolla's names."""

    registry: Annotated[str, Field(max_length=253)] | None = None
    """Registry host, with port. Defaults to the operator's own setting."""
    prefix: Annotated[str, Field(max_length=200)] | None = None
    """Path between registry and name. Defaults to the operator's own setting."""
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$", max_length=128)] | None = None
    """Tag of every image. Defaults to what the OpenStack release names."""
    overrides: Annotated[dict[str, str], Field(max_length=64), WHOLE] = {}
    """Whole references by image name, such as `nova-api: registry.example/x:1`; they win over the other fields."""


def _mount_path(path: str) -> str:
    if posixpath.normpath(path) != path or path.startswith("//") or path == "/":
        raise ValueError(f"{path} is no path of a directory or file below /, without . and .. and a / at its end")
    return path


MountPath = Annotated[str, Field(pattern=r"^/[^:\s]+$", max_length=512), AfterValidator(_mount_path)]


class ExtraMount(Model):
    """A Secret, ConfigMap or PersistentVolumeClaim of the same namespace, in the containers of pods."""

    mount_path: MountPath
    """Path in the containers. Sets mountPath."""
    secret_name: ObjectName | None = None
    """metadata.name of a Secret. Sets the volume."""
    config_map_name: ObjectName | None = None
    """metadata.name of a ConfigMap. Sets the volume."""
    claim_name: ObjectName | None = None
    """metadata.name of a PersistentVolumeClaim. Sets the volume."""
    sub_path: Annotated[str, Field(pattern=r"^[^/\s.][^\s]*$", max_length=253)] | None = None
    """One file or directory of the volume instead of all of it; running pods do not see changes of it. Sets subPath."""
    read_only: bool = True
    """Whether containers only read; False is for claims. Sets readOnly."""
    components: Annotated[tuple[Name, ...], Field(max_length=16), K8s(list_type="set")] = ()
    """Components whose pods get it, by their label app.kubernetes.io/component, such as api or db-sync; all pods with
    these settings when empty. Sets which pods have the volume."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        """Raises ValueError for none or several sources, and for one that Kubernetes lets nobody write to."""
        sources = [name for name in (self.secret_name, self.config_map_name, self.claim_name) if name]
        if len(sources) != 1:
            raise ValueError("needs one of secretName, configMapName and claimName")
        if not self.read_only and not self.claim_name:
            raise ValueError("readOnly must be true: only what a claim holds can be written to")
        return self


class PodSettings(Model):
    """Where and how the pods of a workload run."""

    components: ClassVar[tuple[str, ...]] = ()
    """Components (label app.kubernetes.io/component) of the pods that have what users mount here."""

    node_selector: Labels = {}
    """Labels that a node must have. Sets nodeSelector of the pods."""
    tolerations: Annotated[tuple[Opaque, ...], Field(max_length=32)] = ()
    """Taints that the pods bear. Sets tolerations of the pods."""
    topology_spread_constraints: Annotated[tuple[Opaque, ...], Field(max_length=16)] = ()
    """How pods spread over nodes and zones. Sets topologySpreadConstraints of the pods."""
    resources: Resources = Resources()
    """Compute resources. Sets resources of the main container."""
    container_image: Annotated[str, Field(max_length=512)] | None = None
    """Whole reference of the image, instead of the one that `images` gives. Sets image of the containers."""
    extra_mounts: Annotated[tuple[ExtraMount, ...], Field(max_length=16)] = ()
    """Further Secrets, ConfigMaps and volumes in the containers, at paths that are not ours. Sets volumes and
    volumeMounts of the pods."""


class Workload(PodSettings):
    """A workload with a number of pods."""

    replicas: Replicas = 1
    """Number of pods; 0 stops the service and keeps everything else. Sets replicas of the workload."""


class ConfigPolicy(Model):
    """How users' configuration text is judged."""

    unknown_options: Literal["Warn", "Refuse"] = "Warn"
    """What happens to options, sections and policy rules that the release does not have. Sets whether ConfigValid is
    False."""
    known_options: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[^/]+/[^/]+$", max_length=253)], ...], Field(max_length=256)
    ] = ()
    """Options of drivers that the release does not have, each as section/option or section/*. Sets what the check of
    configuration text takes for known."""


class ConfigSecret(SecretKeyRef):
    """Configuration text in a Secret of the same namespace that the user made."""

    key: DataKey
    """Key in the Secret's data. Its value is oslo.config text, which is never shown."""


Overwrites = Annotated[dict[str, ConfigText], Field(max_length=8), WHOLE]
"""Texts by names of files."""

ConfigSecrets = Annotated[tuple[ConfigSecret, ...], Field(max_length=16)]


class Configurable(Model):
    """Something that runs an OpenStack process."""

    custom_service_config: ConfigText = ""
    """oslo.config text that wins over everything generated. Appended to the service's configuration file."""
    config_secrets: ConfigSecrets = ()
    """oslo.config text that nobody may see, such as the password of a backend. Appended to the service's configuration
    file in this order, after customServiceConfig."""
    default_config_overwrite: Overwrites = {}
    """Whole files by name, in the place of the service's own: `policy.yaml`, `logging.conf`, and the paste file of an
    API that has one. Sets the file beside the configuration file, [oslo_policy] policy_file and [DEFAULT]
    log_config_append."""
    config_policy: ConfigPolicy | None = None
    """How the text here and below is judged; absent, what stands above holds. Sets the condition ConfigValid."""

    overwritable: ClassVar[tuple[str, ...]] = ("logging.conf", "policy.yaml")
    """Files that the processes read."""


class ConfigLevel(Model):
    """Configuration text of an object above."""

    origin: Annotated[str, Field(min_length=1, max_length=512)]
    """Field and object that it stands in. Sets the comment above the text in the file."""
    text: ConfigText = ""
    """oslo.config text. Appended to the service's configuration files, before the object's own text."""
    secrets: ConfigSecrets = ()
    """oslo.config text in Secrets. Appended after `text`."""
    shared: bool = False
    """Whether it is for all services of a cloud. Sets that only options that the service has are taken from Secrets."""


class Inheriting(Model):
    """What an object takes over from those above it."""

    inherited_config: Annotated[tuple[ConfigLevel, ...], Field(max_length=3)] = ()
    """Configuration text of the objects above, lowest precedence first; they write it, and the object's own text wins
    over it. Appended to the service's configuration files."""


class DatabaseCredentials(Model):
    """Passwords that the user brings instead of generated ones; any character is allowed but control characters."""

    database: SecretKeyRef | None = None
    """Password of the database user; ASCII characters only. Sets the connection URL and the user in MariaDB."""


class IdentityCredentials(DatabaseCredentials):
    """Those of a service that checks tokens."""

    service_user: SecretKeyRef | None = None
    """Password of the service's Keystone user, at most 72 bytes. Sets [keystone_authtoken] password and the user in
    Keystone."""


class Credentials(IdentityCredentials):
    """Those of a service that uses the message bus as well."""

    messaging: SecretKeyRef | None = None
    """Password of the message bus user. Sets transport_url and the user in RabbitMQ."""


class Storage(Model):
    """A persistent volume of each pod."""

    storage_size: Quantity = "10Gi"
    """Size of the volume. Sets the request of the PersistentVolumeClaim when it is made."""
    storage_class: ObjectName | None = None
    """Storage class; the cluster's default one when absent. Sets storageClassName of the PersistentVolumeClaim."""
    storage_retention: Literal["Retain", "Delete"] = "Delete"
    """What happens to the volumes when the object is deleted. Sets the owner of the PersistentVolumeClaims."""


class PublicEndpoint(Model):
    """How people and programs outside the cluster reach the API."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the public Service; with ClusterIP the internal address is published. Sets the public URL in Keystone."""
    host: Annotated[str, Field(max_length=253)] | None = None
    """Host name or address in the public URL. Defaults to the load balancer's address or a node's internal address."""
    node_port: Port | None = None
    """Fixed node port. Sets nodePort of the public Service; Kubernetes chooses one when absent."""


class Entry(Model):
    """A service in a control plane."""

    enabled: bool = True
    """Whether the control plane has this service. False deletes the service's object, its database included."""


class Instance(Model):
    """What the control plane tells every service's object."""

    openstack_release: Release = DEFAULT_RELEASE
    """OpenStack release. Chooses images and everything that differs between releases."""
    images: Images = Images()
    """Where images come from. Sets image of all containers."""


class ServiceTemplate(Configurable, Workload):
    """What users say about an API service, in its own object and in a control plane alike."""

    credentials: DatabaseCredentials = DatabaseCredentials()
    """Passwords that the user brings. Sets the service's Secrets."""
    public_endpoint: PublicEndpoint | None = None
    """How the API is reached from outside. Sets the public Service and the public URL in Keystone; absent, the control
    plane's setting holds."""


class ServiceInstance(Instance, Inheriting):
    """What the control plane tells an API service's object."""

    region: Annotated[str, Field(min_length=1, max_length=255), K8s(cel=(SAME_REGION,))] = "RegionOne"
    """Keystone region, which cannot be changed. Sets the region of the endpoints and region_name in every client
    section."""
    database_ref: Annotated[Ref, K8s(cel=(SAME_SERVER,))] = Ref(name="mariadb")
    """The MariaDB object that holds the service's database, which cannot be changed. Sets the host in the connection
    URL."""
    memcached_ref: Ref = Ref(name="memcached")
    """The Memcached object that caches tokens. Sets memcached_servers."""


class IdentityClientInstance(ServiceInstance):
    """A service that authenticates its users with Keystone."""

    keystone_ref: Ref = Ref(name="keystone")
    """The Keystone object that the service registers with. Sets auth_url in every client section."""


class MessagingClientInstance(IdentityClientInstance):
    """A service that uses the message bus."""

    messaging_ref: Ref = Ref(name="rabbitmq")
    """The RabbitMQ object of the service. Sets the host in transport_url."""


class DatabaseRequest(Model):
    """One database that a service asks a MariaDB for."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", min_length=1, max_length=64)]
    """Name of the schema."""
    secret_ref: Ref
    """Secret with the keys user and password of the one user that owns the schema."""


class VhostRequest(Model):
    """One virtual host with its user that a service asks a RabbitMQ for."""

    name: Annotated[str, Field(pattern=r"^[-A-Za-z0-9_.]+$", min_length=1, max_length=64)]
    """Name of the virtual host."""
    secret_ref: Ref
    """Secret with the keys user and password of the user that may use the virtual host."""


class GrantedEntry(Model):
    """Something that was asked for and stands in the server."""

    name: str
    """Name of the schema or virtual host."""
    user: str
    """The user that owns it."""
    secret_hash: str
    """Hash of the credentials that the server knows: a waiting service compares it with its Secret."""


class ServiceStatus(Status):
    """Status of an API service."""

    replicas: int | None = None
    """Pods of the API."""
    ready_replicas: int | None = None
    """Pods of the API that serve requests."""
    selector: str | None = None
    """Label selector of the API's pods, for autoscalers."""
    internal_url: str | None = None
    """URL inside the cluster."""
    public_url: str | None = None
    """URL outside the cluster."""


ENTRIES = K8s(list_type="map", map_keys=("name",))
"""Marker of lists in which each service owns its entries (server-side apply merges them by name)."""
