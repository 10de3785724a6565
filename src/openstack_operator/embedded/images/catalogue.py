"""Which image names exist and which layers each one is made of: data, and the function that joins it with the layers.

Names are Kolla's (`<registry>/<prefix>/<name>:<tag>`), so that a cloud can move from these images to Kolla's by
changing the registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openstack_operator.embedded.images import layers

REGISTRY = "localhost"
PREFIX = "openstack.kolla"
OPERATOR_IMAGE = f"{REGISTRY}/openstack-operator/operator"

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OPENSTACK_PATH = f"/var/lib/kolla/venv/bin:{SYSTEM_PATH}"
OPERATOR_PATH = f"/opt/openstack-operator/bin:{SYSTEM_PATH}"

OPENSTACK = "openstack"
INFRASTRUCTURE = "infrastructure"
IMAGES: Mapping[str, str] = {
    "keystone": OPENSTACK,
    "glance-api": OPENSTACK,
    "placement-api": OPENSTACK,
    "neutron-server": OPENSTACK,
    "neutron-metadata-agent": OPENSTACK,
    "neutron-ovn-agent": OPENSTACK,
    "nova-api": OPENSTACK,
    "nova-conductor": OPENSTACK,
    "nova-scheduler": OPENSTACK,
    "nova-compute": OPENSTACK,
    "nova-novncproxy": OPENSTACK,
    "nova-libvirt": OPENSTACK,
    "openstackclient": OPENSTACK,
    "mariadb-server": INFRASTRUCTURE,
    "rabbitmq": INFRASTRUCTURE,
    "memcached": INFRASTRUCTURE,
    "ovn-nb-db-server": INFRASTRUCTURE,
    "ovn-sb-db-server": INFRASTRUCTURE,
    "ovn-northd": INFRASTRUCTURE,
    "ovn-controller": INFRASTRUCTURE,
    "openvswitch-db-server": INFRASTRUCTURE,
    "openvswitch-vswitchd": INFRASTRUCTURE,
}
"""Kolla's image name -> the kind of its content. Each is tagged with the OpenStack release."""


@dataclass(frozen=True)
class Image:
    """One image as a container runtime knows it."""

    name: str
    """Whole reference, with registry and tag."""
    layers: Sequence[layers.Layer]
    """Lowest first."""
    path: str = SYSTEM_PATH
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, object]:
        """The `config` part of an OCI image configuration."""
        env = {"PATH": self.path, "LANG": "C.UTF-8", **self.env}
        known: dict[str, object] = {
            "Env": [f"{name}={value}" for name, value in env.items()],
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "User": self.user,
        }
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True)
class Images:
    """What one run of the builders made."""

    release: str
    images: Sequence[Image]
    guest: Path
    """qcow2 file of the guest image."""

    @property
    def operator_content(self) -> str:
        """Names what is in the operator's image."""
        operator = next(image for image in self.images if image.name.startswith(f"{OPERATOR_IMAGE}:"))
        return ".".join(layer.key for layer in operator.layers)


def openstack_images(release: str, infrastructure: layers.Layer, venv: layers.Layer) -> list[Image]:
    """Every image of a cloud of this release. The infrastructure layer is whole, the venv stands on it."""
    kinds = {OPENSTACK: ((infrastructure, venv), OPENSTACK_PATH), INFRASTRUCTURE: ((infrastructure,), SYSTEM_PATH)}
    return [Image(f"{REGISTRY}/{PREFIX}/{name}:{release}", *kinds[kind]) for name, kind in IMAGES.items()]


def operator_image(version: str, base: layers.Layer, dependencies: layers.Layer, source: layers.Layer) -> Image:
    """The operator's own image; it starts `openstack-operator run` as a user that is nobody else."""
    return Image(
        f"{OPERATOR_IMAGE}:{version}",
        (base, dependencies, source),
        path=OPERATOR_PATH,
        entrypoint=("python", "-m", "openstack_operator.cli.run"),
        user="65532:65532",
        # one memory arena: the operator is one thread that allocates, further arenas only fragment
        env={"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "1"},
    )


def program_image(layer: layers.Layer) -> Image:
    """An image of one static program, e.g. `localhost/pause:1`."""
    return Image(f"{REGISTRY}/{layer.name}:1", (layer,), entrypoint=(f"/{layer.name}",))
