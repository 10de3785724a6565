"""neutron.conf of the API and its daemons, and the agent's file, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, ini, releases
from openstack_operator.services.neutron.types import NeutronSpec

PORT = 9696
METADATA_PORT = 8775
SERVICE_TYPE = "network"
CONF = "neutron.conf"
AGENT_CONF = "neutron-ovn-agent.ini"
DEFAULTS = "/etc/neutron"
STATE = "/var/lib/neutron"
METADATA_SOCKET = f"{STATE}/metadata_proxy"
OVSDB = "tcp:127.0.0.1:6640"

SHUTDOWN_SECONDS = 20
"""Daemons give up on calls in progress after that long, before Kubernetes kills them."""

PRIVSEP_SECTIONS = (
    "privsep",
    "privsep_conntrack",
    "privsep_dhcp_release",
    "privsep_link",
    "privsep_namespace",
    "privsep_ovs_vsctl",
)
"""Every context of neutron.privileged."""


def vlan_ranges(spec: NeutronSpec, facts: Mapping[str, Any]) -> str | None:
    return ",".join(spec.vlan_ranges) or None


def vni_ranges(spec: NeutronSpec, facts: Mapping[str, Any]) -> str:
    return ",".join(spec.vni_ranges)


def rows(release: releases.Release) -> tuple[ini.Row, ...]:
    """neutron.conf: API, RPC server, periodic and maintenance workers read the same file."""
    return (
        *ini.logging(),
        *ini.database("database"),
        *ini.messaging(),
        *ini.authtoken(SERVICE_TYPE),
        ini.fixed("DEFAULT", "core_plugin", "ml2", "the one plugin that is maintained"),
        ini.fixed("DEFAULT", "service_plugins", "ovn-router,segments,trunk", "what OVN implements"),
        ini.fixed("DEFAULT", "state_path", STATE, "an empty volume"),
        ini.fixed("DEFAULT", "rpc_workers", 1, "pods are what scales"),
        ini.fixed("DEFAULT", "graceful_shutdown_timeout", SHUTDOWN_SECONDS, "less than the pod is given to end"),
        ini.fixed("DEFAULT", "notify_nova_on_port_status_changes", True, "Nova waits for the port before it boots"),
        ini.fixed("DEFAULT", "notify_nova_on_port_data_changes", True, "guests' metadata show floating addresses"),
        ini.spec("DEFAULT", "global_physnet_mtu", "physicalNetworkMtu"),
        ini.fixed("oslo_concurrency", "lock_path", f"{STATE}/lock", "an empty volume"),
        ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
        ini.fixed("ml2", "type_drivers", "geneve,flat,vlan", "tunnels for tenants, the others for providers"),
        ini.fixed("ml2", release.option("ml2_project_network_types"), "geneve", "tunnels need no switch to know them"),
        ini.spec("ml2", "mechanism_drivers", "mechanism"),
        ini.fixed("ml2", "extension_drivers", "port_security", "security groups can be switched off per port"),
        ini.fixed("ml2", "overlay_ip_version", 4, "encapsulation between the nodes' IPv4 addresses"),
        ini.computed("ml2_type_geneve", "vni_ranges", vni_ranges, "spec.vniRanges"),
        ini.fixed("ml2_type_geneve", "max_header_size", 38, "8 bytes of options that OVN adds to Geneve's 30"),
        ini.fixed("ml2_type_flat", "flat_networks", "*", "physical networks are the OVN network's bridge mappings"),
        ini.computed("ml2_type_vlan", "network_vlan_ranges", vlan_ranges, "spec.vlanRanges"),
        ini.fixed("securitygroup", "enable_security_group", True, "guests are closed unless opened"),
        ini.fact("ovn", "ovn_nb_connection", "ovn.nb"),
        ini.fact("ovn", "ovn_sb_connection", "ovn.sb"),
        ini.fixed("ovn", "ovn_metadata_enabled", True, "the agent serves metadata on every network"),
        ini.spec("ovn", "enable_distributed_floating_ip", "distributedFloatingIps"),
        *ini.keystone_client("nova"),
        ini.fixed("nova", "endpoint_type", "internal", "services talk inside the cluster"),
        *ini.keystone_client("placement"),
        ini.fixed("placement", "endpoint_type", "internal", "services talk inside the cluster"),
    )


AGENT_ROWS = (
    *ini.logging(),
    ini.fixed("DEFAULT", "state_path", STATE, "a directory of the node: guests' namespaces outlive the pod"),
    ini.fact("DEFAULT", "nova_metadata_host", "metadata.host"),
    ini.fixed("DEFAULT", "nova_metadata_port", METADATA_PORT, "Nova's port"),
    ini.fixed("DEFAULT", "nova_metadata_protocol", "http", "inside the cluster"),
    ini.fact("DEFAULT", "metadata_proxy_shared_secret", "metadata.secret", secret=True),
    ini.fixed("DEFAULT", "metadata_workers", 0, "one process serves the guests of one node"),
    ini.fixed("DEFAULT", "graceful_shutdown_timeout", SHUTDOWN_SECONDS, "less than the pod is given to end"),
    ini.fixed("agent", "extensions", "metadata", "what the agent does"),
    ini.fixed("agent", "root_helper", "", "it is root already, and there is no sudo"),
    ini.fixed("oslo_concurrency", "lock_path", f"{STATE}/lock", "a directory of the node"),
    ini.fixed("ovs", "ovsdb_connection", OVSDB, "the node's own switch"),
    ini.fact("ovn", "ovn_nb_connection", "ovn.nb"),
    ini.fact("ovn", "ovn_sb_connection", "ovn.sb"),
    *(
        ini.fixed(
            section, "helper_command", f"privsep-helper --config-file {config.MERGED}/{AGENT_CONF}", "there is no sudo"
        )
        for section in PRIVSEP_SECTIONS
    ),
)

AGENT_START_NAME = "start-agent.sh"
AGENT_START = """\
#!/bin/sh
# Without the node's switch the agent's worker fails and starts anew for ever, at two CPU seconds each time.
set -eu
tries=0
# Port 6640 in hexadecimal, state LISTEN, in the node's table of sockets.
until grep -q ':19F0 00000000:0000 0A' /proc/net/tcp; do
  tries=$((tries + 1))
  [ "$tries" -ne 1 ] || echo "waiting for the node's Open vSwitch database at 127.0.0.1:6640"
  [ "$tries" -lt 240 ] || { echo "no Open vSwitch database at 127.0.0.1:6640" >&2; exit 1; }
  sleep 0.5
done
exec "$@"
"""
