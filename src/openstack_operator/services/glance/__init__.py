"""Glance: images, kept as files in a persistent volume."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import File, Service
from openstack_operator.services.glance import config, controller

SERVICE = Service(
    "glance",
    (controller.CONTROLLER,),
    needs=(kinds.MARIADB, kinds.MEMCACHED, kinds.KEYSTONE),
    files=(File(controller.CONTROLLER.kind, config.CONF, lambda spec: config.ROWS),),
    listeners=(Listener("api", config.PORT, Audience.EVERYONE),),
)
