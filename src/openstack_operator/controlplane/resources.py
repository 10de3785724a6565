"""The objects of a control plane: one per service, the client pod, and who may connect to pods. Pure functions of the
spec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from openstack_operator.kit import kinds, labels, levels, releases, settings, shared_config, workloads
from openstack_operator.kit import network_policies as policies
from openstack_operator.kit.service import Service
from openstack_operator.kit.types import Entry
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.schema import Model

if TYPE_CHECKING:
    # What types say at admission (``admission``) asks here which services are enabled.
    from openstack_operator.controlplane.types import OpenStackControlPlaneSpec

# The client pod runs as nobody in particular; no image has a user of this number.
CLIENT_UID = 65532
CLIENT = "openstackclient"
CLIENT_CONFIG = "/etc/openstack"


def template(service: Service, spec: OpenStackControlPlaneSpec) -> Model:
    """The service's part of the spec: the field with the service's name."""
    part: Model = getattr(spec, service.name)
    return part


def is_enabled(service: Service, spec: OpenStackControlPlaneSpec) -> bool:
    part = template(service, spec)
    return part.enabled if isinstance(part, Entry) else True


def child(service: Service, control_plane: str, spec: OpenStackControlPlaneSpec) -> Object:
    """The object of a service: its own settings, then what the control plane says to all."""
    part = template(service, spec)
    body = part.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"enabled"})
    fields = service.kinds[0].spec.model_fields
    shared: dict[str, Any] = {
        "openstack_release": spec.openstack_release,
        "region": spec.region,
        "images": spec.images.model_dump(mode="json", by_alias=True, exclude_none=True),
        "public_endpoint": spec.public_endpoint.model_dump(mode="json", by_alias=True, exclude_none=True),
        "storage_class": spec.storage_class,
        "config_policy": spec.config_policy and spec.config_policy.model_dump(mode="json", by_alias=True),
    }
    # A service's own setting wins over the control plane's.
    for name, value in shared.items():
        alias = fields[name].alias if name in fields else None
        if alias and value is not None:
            body.setdefault(alias, value)
    if service.files:
        known = spec.config_policy.known_options if spec.config_policy else ()
        text = shared_config.part(spec.custom_service_config, service.name, spec.openstack_release, known)
        body |= levels.handed_down(kinds.CONTROL_PLANE, control_plane, spec, text)
    return {"metadata": {"name": service.name, "labels": labels.common(service.name, control_plane)}, "spec": body}


def network_policies(
    control_plane: str, services: Sequence[Service], nodes: Iterable[Object], node_cidrs: Iterable[str] = ()
) -> list[Object]:
    """Who may connect to the pods of these services, all of them, enabled or not: one that is being deleted still has
    Jobs."""
    addresses = policies.blocks(nodes, node_cidrs)
    bodies = [policies.closed(control_plane)]
    for service in services:
        own = {kind.resource for kind in service.kinds}
        clients = [other.name for other in services if own & set(other.needs)]
        for component in dict.fromkeys(one.component for one in service.listeners):
            listeners = [one for one in service.listeners if one.component == component]
            bodies.append(policies.admitting(control_plane, service.name, component, listeners, clients, addresses))
    return bodies


def client_secret(url: str, password: str, region: str) -> dict[str, str]:
    """clouds.yaml of the client pod: internal endpoints, because it runs inside."""
    cloud = {
        "auth": {
            "auth_url": url,
            "username": "admin",
            "password": password,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        },
        "region_name": region,
        "identity_api_version": 3,
        "interface": "internal",
    }
    return {"clouds.yaml": yaml.safe_dump({"clouds": {"openstack": cloud}}, sort_keys=False)}


def client_pod(control_plane: str, spec: OpenStackControlPlaneSpec) -> workloads.Pod:
    """The pod with the openstack command."""
    release = releases.load(spec.openstack_release)
    part = spec.openstackclient
    return workloads.Pod(
        service=CLIENT,
        instance=control_plane,
        component="client",
        owner_kind=kinds.CONTROL_PLANE.kind,
        image=releases.image(release, CLIENT, spec.images, settings.image_source(), part.container_image),
        user=CLIENT_UID,
        settings=part,
        grace_seconds=1,
        containers=(
            workloads.Container(
                name=CLIENT,
                command=("sleep", "infinity"),
                env={"OS_CLOUD": "openstack", "HOME": "/tmp"},
                memory="64Mi",
                mounts=({"name": "clouds", "mountPath": CLIENT_CONFIG, "readOnly": True},),
            ),
        ),
        volumes=({"name": "clouds", "secret": {"secretName": CLIENT, "defaultMode": 0o440}},),
    )
