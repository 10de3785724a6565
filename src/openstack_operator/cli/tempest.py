"""`openstack-operator tempest-conf`: a configuration of OpenStack's own test suite for the cloud that is there.

Called by `cloud`; `scripts/tempest.sh` (`make tempest`) runs the suite with it, and tests/tempest/verdicts.py compares
what it said. What the cloud offers is asked of the cloud; the rest are facts about our guest image and about what one
node can do.
"""

from __future__ import annotations

import configparser
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack_operator.embedded import paths, tools
from openstack_operator.runtime import errors

# Tempest's own names for its two flavors. The guest needs 128 MiB; the other one differs in memory only.
FLAVORS = {"42": ("m1.nano", 128), "84": ("m1.micro", 160)}
DISK = "disk.qcow2"
GUEST_USER = "guest"

Sections = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Facts:
    """What was found in the cloud."""

    identity_url: str
    region: str
    username: str
    password: str
    project: str
    domain: str
    image: str
    other_image: str
    network: str
    network_name: str
    hypervisor: str
    compute_nodes: int
    compute_versions: tuple[str, str]
    placement_versions: tuple[str, str]
    extensions: tuple[str, ...]
    services: frozenset[str]
    """Types in the catalogue."""


def configuration(facts: Facts) -> Sections:
    """tempest.conf as sections and options."""

    def has(*types: str) -> str:
        return _bool(bool(facts.services & set(types)))

    return {
        "DEFAULT": {"debug": "true", "use_stderr": "false", "log_file": "tempest.log"},
        "oslo_concurrency": {"lock_path": "lock"},
        "auth": {
            "use_dynamic_credentials": "true",
            "create_isolated_networks": "true",
            "tempest_roles": "member",
            "admin_username": facts.username,
            "admin_password": facts.password,
            "admin_project_name": facts.project,
            "admin_domain_name": facts.domain,
        },
        "identity": {
            "uri_v3": facts.identity_url,
            "auth_version": "v3",
            "region": facts.region,
            "v3_endpoint_type": "public",
        },
        "identity-feature-enabled": {
            "api_v2": "false",
            "api_v2_admin": "false",
            "application_credentials": "true",
            "access_rules": "true",
        },
        # Every service has its default policies.
        "enforce_scope": dict.fromkeys(("keystone", "nova", "neutron", "glance", "placement"), "true"),
        "service_available": {
            "nova": has("compute"),
            "neutron": has("network"),
            "glance": has("image"),
            "cinder": has("block-storage", "volumev3", "volume"),
            "swift": has("object-store"),
            "horizon": "false",
        },
        "compute": {
            "image_ref": facts.image,
            "image_ref_alt": facts.other_image,
            "flavor_ref": "42",
            "flavor_ref_alt": "84",
            "min_microversion": facts.compute_versions[0],
            # Without it every test of a newer version is skipped.
            "max_microversion": facts.compute_versions[1],
            "build_interval": "1",
            # Guests without hardware virtualisation, several at a time.
            "build_timeout": "180",
            "ready_wait": "0",
            "min_compute_nodes": str(facts.compute_nodes),
            "hypervisor_type": facts.hypervisor,
        },
        "compute-feature-enabled": {
            # These move a guest to another node, or put a password into it.
            **dict.fromkeys(("resize", "cold_migration", "live_migration", "change_password", "personality"), "false"),
            **dict.fromkeys(("spice_console", "serial_console", "stable_rescue"), "false"),
            **dict.fromkeys(("attach_encrypted_volume", "swap_volume", "volume_multiattach"), "false"),
            **dict.fromkeys(("shelve", "suspend", "rescue", "snapshot", "interface_attach", "config_drive"), "true"),
            **dict.fromkeys(("metadata_service", "vnc_console", "ide_bus", "hostname_fqdn_sanitization"), "true"),
        },
        "image": {"region": facts.region, "build_timeout": "60"},
        # The tests of imports fetch from the internet unless told of a web server of one's own.
        "image-feature-enabled": {"import_image": "false"},
        "network": {
            "public_network_id": facts.network,
            "floating_network_name": facts.network_name,
            "project_networks_reachable": "false",
            "build_interval": "1",
            "build_timeout": "120",
        },
        "network-feature-enabled": {
            **dict.fromkeys(("ipv6", "ipv6_subnet_attributes", "port_security", "floating_ips"), "true"),
            "port_admin_state_change": "true",
            # The default, all, runs tests of extensions that are not there.
            "api_extensions": ",".join(sorted(facts.extensions)),
        },
        "validation": {
            "run_validation": "true",
            "connect_method": "floating",
            "auth_method": "keypair",
            "image_ssh_user": GUEST_USER,
            "image_alt_ssh_user": GUEST_USER,
            "ssh_key_type": "ecdsa",
            "ping_timeout": "60",
            "connect_timeout": "30",
            "ssh_timeout": "120",
            "network_for_ssh": facts.network_name,
        },
        "scenario": {
            "img_file": DISK,
            "img_disk_format": "qcow2",
            "img_container_format": "bare",
            "dhcp_client": "udhcpc",
            # The guest's root is in its memory; this is its disk.
            "target_dir": "/mnt",
        },
        "placement": {
            "min_microversion": facts.placement_versions[0],
            "max_microversion": facts.placement_versions[1],
        },
    }


def text(sections: Sections) -> str:
    """The file. Tempest reads `$` in a value as a reference to another option, so it is doubled."""
    parser = configparser.RawConfigParser(default_section="")
    for name, options in sections.items():
        parser[name] = {key: value.replace("$", "$$") for key, value in options.items()}
    stream = io.StringIO()
    parser.write(stream)
    return stream.getvalue()


def _bool(value: bool) -> str:
    return "true" if value else "false"


# --- the cloud ------------------------------------------------------------------------------------------------------


def prepare(image: str, workspace: Path | None) -> str:
    """The configuration of the cloud in the environment. Makes the flavors and the second image that the suite needs;
    with `workspace`, puts the guest's disk there.

    Raises `errors.OperatorError` for what the cloud lacks.
    """
    try:
        import openstack
    except ImportError:
        raise errors.OperatorError("the openstack library is not installed (requirements/client.txt)") from None
    if "OS_CLOUD" not in os.environ:
        os.environ.update(tools.variables(paths.default()))
    connection = openstack.connect(app_name="openstack-operator")
    first = _found(connection.image.find_image(image), f"image {image}")
    for flavor, (name, mebibytes) in FLAVORS.items():
        if connection.compute.find_flavor(flavor) is None:
            connection.compute.create_flavor(id=flavor, name=name, ram=mebibytes, vcpus=1, disk=1)
    second = _second_image(connection, first, workspace)
    outside = sorted(connection.network.networks(is_router_external=True), key=lambda one: not one.is_default)
    network = _found(next(iter(outside), None), "external network")
    login = connection.config.get_auth_args()
    hypervisors = list(connection.compute.hypervisors(details=True))
    nodes = [one for one in connection.compute.services(binary="nova-compute") if one.state == "up"]
    facts = Facts(
        identity_url=login["auth_url"].rstrip("/").removesuffix("/v3") + "/v3",
        region=connection.config.get_region_name() or "",
        username=login["username"],
        password=login["password"],
        project=login["project_name"],
        domain=login.get("user_domain_name", "Default"),
        image=first.id,
        other_image=second.id,
        network=network.id,
        network_name=network.name,
        hypervisor=(hypervisors[0].hypervisor_type or "QEMU") if hypervisors else "QEMU",
        compute_nodes=max(1, len(nodes)),
        compute_versions=_versions(connection.compute),
        placement_versions=_versions(connection.placement),
        extensions=tuple(one.alias for one in connection.network.extensions()),
        services=frozenset(one["type"] for one in connection.service_catalog),
    )
    return text(configuration(facts))


def _second_image(connection: Any, first: Any, workspace: Path | None) -> Any:
    """The suite wants two images, to tell a rebuilt server from the one before; ours is a copy."""
    name = f"{first.name}-alt"
    second = connection.image.find_image(name)
    content = None
    if second is None or workspace is not None:
        content = connection.image.download_image(first, stream=False).content
    if workspace is not None and content is not None:
        (workspace / DISK).write_bytes(content)
    return second or connection.image.create_image(
        name=name,
        data=content,
        disk_format=first.disk_format,
        container_format=first.container_format,
        visibility="public",
        hw_rng_model="virtio",
        os_shutdown_timeout="15",
    )


def _versions(proxy: Any) -> tuple[str, str]:
    data = proxy.get_endpoint_data()
    return tuple(".".join(str(part) for part in one) for one in (data.min_microversion, data.max_microversion))  # type: ignore[return-value]


def _found(item: Any, what: str) -> Any:
    if item is None:
        raise errors.OperatorError(f"the cloud has no {what}: run `openstack-operator up`, or name another one")
    return item
