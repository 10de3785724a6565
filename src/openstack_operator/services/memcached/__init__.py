"""Memcached: the cache of tokens and objects."""

from __future__ import annotations

from openstack_operator.kit.service import Service
from openstack_operator.services.memcached import controller

SERVICE = Service("memcached", (controller.CONTROLLER,))
