"""Keystone: identity, the catalogue, and the keys that sign its tokens."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import File, Service
from openstack_operator.services.keystone import config, controller

SERVICE = Service(
    "keystone",
    (controller.CONTROLLER,),
    needs=(kinds.MARIADB, kinds.MEMCACHED),
    files=(File(controller.CONTROLLER.kind, "keystone.conf", lambda spec: config.ROWS),),
    listeners=(Listener("api", config.PORT, Audience.EVERYONE),),
)
