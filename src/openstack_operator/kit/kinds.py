"""Names of the project's own resources, for references between services.

The types stand in each service's ``types.py``; services never import each other, so what they need to look one another
up (group, version, plural) is here.
"""

from __future__ import annotations

from openstack_operator.runtime.kinds import Resource

DOMAIN = "openstack.k8s.io"
"""Prefix of labels, annotations and finalizers."""

GROUP, VERSION = "openstack.k8s.io", "v1alpha1"
NOVA_GROUP, NOVA_VERSION = "nova.openstack.org", "v1beta1"

CONTROL_PLANE = Resource(GROUP, VERSION, "openstackcontrolplanes", "OpenStackControlPlane")
MARIADB = Resource(GROUP, VERSION, "mariadbs", "MariaDB")
RABBITMQ = Resource(GROUP, VERSION, "rabbitmqs", "RabbitMQ")
MEMCACHED = Resource(GROUP, VERSION, "memcacheds", "Memcached")
KEYSTONE = Resource(GROUP, VERSION, "keystones", "Keystone")
GLANCE = Resource(GROUP, VERSION, "glances", "Glance")
PLACEMENT = Resource(GROUP, VERSION, "placements", "Placement")
OVN_NETWORK = Resource(GROUP, VERSION, "ovnnetworks", "OVNNetwork")
NEUTRON = Resource(GROUP, VERSION, "neutrons", "Neutron")
NOVA = Resource(GROUP, VERSION, "novas", "Nova")
NOVA_API = Resource(NOVA_GROUP, NOVA_VERSION, "novaapis", "NovaAPI")
NOVA_SCHEDULER = Resource(NOVA_GROUP, NOVA_VERSION, "novaschedulers", "NovaScheduler")
NOVA_CONDUCTOR = Resource(NOVA_GROUP, NOVA_VERSION, "novaconductors", "NovaConductor")
NOVA_METADATA = Resource(NOVA_GROUP, NOVA_VERSION, "novametadatas", "NovaMetadata")
NOVA_NOVNCPROXY = Resource(NOVA_GROUP, NOVA_VERSION, "novanovncproxies", "NovaNoVNCProxy")
NOVA_CELL = Resource(NOVA_GROUP, NOVA_VERSION, "novacells", "NovaCell")
NOVA_COMPUTE = Resource(NOVA_GROUP, NOVA_VERSION, "novacomputes", "NovaCompute")
