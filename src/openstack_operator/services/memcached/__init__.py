"""Memcached: the cache of tokens and objects."""

from __future__ import annotations

from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import Service
from openstack_operator.services.memcached import controller, resources

SERVICE = Service(
    "memcached",
    (controller.CONTROLLER,),
    listeners=(Listener("server", resources.PORT, Audience.SERVICES),),
)
