"""OpenStack services, one folder each, with the same files in each: types, config, resources, controller, tests.

Services never import each other: they meet through status and Secrets. This list is explicit; adding a service is one
line here, one field in ``controlplane/types.py`` and its images in ``kit/releases/`` (docs/how-to/add-a-service.md).
"""

from __future__ import annotations

from openstack_operator.kit.service import Service
from openstack_operator.services import (
    glance,
    keystone,
    mariadb,
    memcached,
    neutron,
    nova,
    ovn,
    placement,
    rabbitmq,
)

SERVICES: tuple[Service, ...] = (
    mariadb.SERVICE,
    rabbitmq.SERVICE,
    memcached.SERVICE,
    keystone.SERVICE,
    glance.SERVICE,
    placement.SERVICE,
    ovn.SERVICE,
    neutron.SERVICE,
    nova.SERVICE,
)
