"""Every pod of the operator's, built from default specs: Jobs, agents of nodes and the client's pod among them."""

from __future__ import annotations

from openstack_operator.controlplane import resources as controlplane
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import config, workloads
from openstack_operator.services.glance import resources as glance
from openstack_operator.services.glance.types import GlanceSpec
from openstack_operator.services.keystone import resources as keystone
from openstack_operator.services.keystone.types import KeystoneSpec
from openstack_operator.services.mariadb import resources as mariadb
from openstack_operator.services.mariadb.types import MariaDBSpec
from openstack_operator.services.memcached import resources as memcached
from openstack_operator.services.memcached.types import MemcachedSpec
from openstack_operator.services.neutron import resources as neutron
from openstack_operator.services.neutron.types import NeutronSpec
from openstack_operator.services.nova import resources as nova
from openstack_operator.services.nova.api import resources as nova_api
from openstack_operator.services.nova.api.types import NovaAPISpec
from openstack_operator.services.nova.compute import resources as compute
from openstack_operator.services.nova.compute.types import NovaComputeSpec
from openstack_operator.services.nova.conductor import resources as conductor
from openstack_operator.services.nova.conductor.types import NovaConductorSpec
from openstack_operator.services.nova.metadata import resources as metadata
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec
from openstack_operator.services.nova.novncproxy import resources as novncproxy
from openstack_operator.services.nova.novncproxy.types import NovaNoVNCProxySpec
from openstack_operator.services.nova.scheduler import resources as scheduler
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec
from openstack_operator.services.nova.types import NovaSpec
from openstack_operator.services.ovn import resources as ovn
from openstack_operator.services.ovn.types import OVNNetworkSpec
from openstack_operator.services.placement import resources as placement
from openstack_operator.services.placement.types import PlacementSpec
from openstack_operator.services.rabbitmq import resources as rabbitmq
from openstack_operator.services.rabbitmq.types import RabbitMQSpec

SOURCES = config.Sources("a", "b", "c", "d")
ADDRESS = "tcp:192.0.2.1:6641"
PROCESS = {
    "authUrl": "http://keystone/v3",
    "memcachedServers": "memcached:11211",
    "serviceUserSecretRef": {"name": "user"},
    "messagingSecretRef": {"name": "bus"},
}
CELL = {**PROCESS, "cellDatabaseSecretRef": {"name": "cell"}}
TOP = {**CELL, "apiDatabaseSecretRef": {"name": "api"}}
METADATA = {"metadataSecretRef": {"name": "shared"}}


def apis() -> dict[str, workloads.Pod]:
    """Those that uWSGI serves."""
    return {
        "keystone": keystone.api_pod("keystone", KeystoneSpec(), SOURCES),
        "glance": glance.api_pod("glance", GlanceSpec(), SOURCES),
        "placement": placement.api_pod("placement", PlacementSpec(), SOURCES),
        "neutron": neutron.api_pod("neutron", NeutronSpec(), SOURCES),
        "nova": nova_api.pod("nova-api", NovaAPISpec.model_validate(TOP), SOURCES),
        "nova metadata": metadata.pod("nova-metadata", NovaMetadataSpec.model_validate(TOP | METADATA), SOURCES),
    }


def uwsgi() -> dict[str, str]:
    """The configuration of uWSGI in each of them."""
    return {
        "keystone": keystone.uwsgi(),
        "glance": glance.uwsgi(),
        "placement": placement.uwsgi(),
        "neutron": neutron.uwsgi(),
        "nova": nova_api.uwsgi(),
        "nova metadata": metadata.uwsgi(),
    }


def daemons() -> dict[str, workloads.Pod]:
    """OpenStack's processes without an API of their own, by their program's name."""
    found = [
        scheduler.pod("nova-scheduler", NovaSchedulerSpec.model_validate(TOP), SOURCES),
        conductor.pod("nova-conductor", NovaConductorSpec.model_validate(TOP), SOURCES),
        compute.compute_pod("nova-cell1-compute", NovaComputeSpec.model_validate(PROCESS), SOURCES),
        *(pod for pod, _ in neutron.workers("neutron", NeutronSpec(), SOURCES).values()),
        neutron.agent_pod("neutron", NeutronSpec(), SOURCES),
    ]
    return {pod.containers[0].name: pod for pod in found}


def servers() -> dict[str, workloads.Pod]:
    """What the services are built on."""
    network = OVNNetworkSpec()
    return {
        "mariadb": mariadb.pod("db", MariaDBSpec(), SOURCES),
        "rabbitmq": rabbitmq.pod("mq", "cloud", RabbitMQSpec(), SOURCES),
        "memcached": memcached.pod("cache", MemcachedSpec()),
        "ovn nb": ovn.database_pod("ovn", network, "nb"),
        "ovn sb": ovn.database_pod("ovn", network, "sb"),
        "ovn northd": ovn.northd_pod("ovn", network, ADDRESS, ADDRESS),
        "openvswitch": ovn.switch_pod("ovn", network),
        "ovn controller": ovn.controller_pod("ovn", network, ADDRESS, gateway=True),
        "libvirt": compute.libvirt_pod("nova-cell1-compute", NovaComputeSpec.model_validate(PROCESS), SOURCES),
    }


def others() -> dict[str, workloads.Pod]:
    """Jobs, and what serves people."""
    urls = "http://keystone/v3", "http://keystone.example.org/v3"
    alone = NovaComputeSpec.model_validate(PROCESS)
    return {
        "keystone bootstrap": keystone.bootstrap_pod("keystone", KeystoneSpec(), SOURCES, *urls, "x"),
        "glance db-sync": glance.db_sync_pod("glance", GlanceSpec(), SOURCES),
        "placement db-sync": placement.db_sync_pod("placement", PlacementSpec(), SOURCES),
        "neutron db-sync": neutron.db_sync_pod("neutron", NeutronSpec(), SOURCES),
        "nova cells": nova.cells_pod("nova", NovaSpec(), SOURCES),
        "nova hosts": nova.hosts_pod("nova", NovaSpec(), SOURCES, {"node": "cell1"}),
        "nova removal": nova.removal_pod("nova", NovaSpec(), SOURCES, "cell1", "check", ()),
        "nova upgrade check": nova.upgrade_check_pod("nova", NovaSpec(), SOURCES, {}),
        "nova cleanup": compute.cleanup_pod("nova-cell1-compute", alone, SOURCES),
        "nova fake": compute.fake_pod("nova-cell1-fake", alone, SOURCES),
        "novncproxy": novncproxy.pod("nova-cell1-novncproxy", NovaNoVNCProxySpec.model_validate(CELL), SOURCES),
        "openstackclient": controlplane.client_pod("cloud", OpenStackControlPlaneSpec()),
    }


def renamed(name: str) -> dict[str, workloads.Pod]:
    """Those that belong to an object with a name of the user's."""
    urls = "http://keystone/v3", "http://keystone.example.org/v3"
    network = OVNNetworkSpec()
    return {
        "keystone": keystone.api_pod(name, KeystoneSpec(), SOURCES),
        "keystone bootstrap": keystone.bootstrap_pod(name, KeystoneSpec(), SOURCES, *urls, "x"),
        "glance": glance.api_pod(name, GlanceSpec(), SOURCES),
        "placement": placement.api_pod(name, PlacementSpec(), SOURCES),
        "neutron": neutron.api_pod(name, NeutronSpec(), SOURCES),
        "neutron agent": neutron.agent_pod(name, NeutronSpec(), SOURCES),
        "neutron db-sync": neutron.db_sync_pod(name, NeutronSpec(), SOURCES),
        "nova cells": nova.cells_pod(name, NovaSpec(), SOURCES),
        "nova-api": nova_api.pod(name, NovaAPISpec.model_validate(TOP), SOURCES),
        "nova-compute": compute.compute_pod(name, NovaComputeSpec.model_validate(PROCESS), SOURCES),
        "mariadb": mariadb.pod(name, MariaDBSpec(), SOURCES),
        "rabbitmq": rabbitmq.pod(name, "cloud", RabbitMQSpec(), SOURCES),
        "memcached": memcached.pod(name, MemcachedSpec()),
        "ovn nb": ovn.database_pod(name, network, "nb"),
        "ovn northd": ovn.northd_pod(name, network, ADDRESS, ADDRESS),
        "openvswitch": ovn.switch_pod(name, network),
        "ovn controller": ovn.controller_pod(name, network, ADDRESS, gateway=True),
    }


def everything() -> dict[str, workloads.Pod]:
    return {**apis(), **daemons(), **servers(), **others()}
