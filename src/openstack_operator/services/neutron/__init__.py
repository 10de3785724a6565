"""Neutron: the network API on OVN, and the agent that brings metadata to guests."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.service import Service
from openstack_operator.services.neutron import controller

SERVICE = Service(
    "neutron",
    (controller.CONTROLLER,),
    needs=(kinds.MARIADB, kinds.RABBITMQ, kinds.MEMCACHED, kinds.KEYSTONE, kinds.OVN_NETWORK),
)
