"""Placement: the inventory of resources that Nova's scheduler asks."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import File, Service
from openstack_operator.services.placement import config, controller

SERVICE = Service(
    "placement",
    (controller.CONTROLLER,),
    needs=(kinds.MARIADB, kinds.MEMCACHED, kinds.KEYSTONE),
    files=(File(controller.CONTROLLER.kind, "placement.conf", lambda spec: config.ROWS),),
    listeners=(Listener("api", config.PORT, Audience.EVERYONE),),
)
