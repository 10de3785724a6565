"""Neutron: the network API on OVN, and the agent that brings metadata to guests."""

from __future__ import annotations

from openstack_operator.kit import kinds, releases
from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import File, Service
from openstack_operator.services.neutron import config, controller

SERVICE = Service(
    "neutron",
    (controller.CONTROLLER,),
    needs=(kinds.MARIADB, kinds.RABBITMQ, kinds.MEMCACHED, kinds.KEYSTONE, kinds.OVN_NETWORK),
    files=(
        File(controller.CONTROLLER.kind, config.CONF, lambda spec: config.rows(releases.load(spec.openstack_release))),
        File(
            controller.CONTROLLER.kind,
            config.AGENT_CONF,
            lambda spec: config.AGENT_ROWS,
            field="spec.agent.customServiceConfig",
        ),
    ),
    listeners=(Listener("api", config.PORT, Audience.EVERYONE),),
)
