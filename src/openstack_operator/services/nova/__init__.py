"""Nova: compute, in cells, and the kinds of its parts."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.service import Service
from openstack_operator.services.nova import controller
from openstack_operator.services.nova.api import controller as api
from openstack_operator.services.nova.cell import controller as cell
from openstack_operator.services.nova.compute import controller as compute
from openstack_operator.services.nova.conductor import controller as conductor
from openstack_operator.services.nova.metadata import controller as metadata
from openstack_operator.services.nova.novncproxy import controller as novncproxy
from openstack_operator.services.nova.scheduler import controller as scheduler

SERVICE = Service(
    "nova",
    (
        controller.CONTROLLER,
        api.CONTROLLER,
        scheduler.CONTROLLER,
        conductor.CONTROLLER,
        metadata.CONTROLLER,
        novncproxy.CONTROLLER,
        cell.CONTROLLER,
        compute.CONTROLLER,
    ),
    needs=(
        kinds.MARIADB,
        kinds.RABBITMQ,
        kinds.MEMCACHED,
        kinds.KEYSTONE,
        kinds.GLANCE,
        kinds.PLACEMENT,
        kinds.NEUTRON,
    ),
)
