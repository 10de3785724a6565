"""RabbitMQ: the message bus, and the virtual hosts and users that services ask it for."""

from __future__ import annotations

from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import Service
from openstack_operator.services.rabbitmq import config, controller

SERVICE = Service(
    "rabbitmq",
    (controller.CONTROLLER,),
    listeners=(
        Listener("server", config.AMQP_PORT, Audience.SERVICES_AND_NODES),
        Listener("server", config.MANAGEMENT_PORT, Audience.OPERATOR),
        Listener("server", config.EPMD_PORT, Audience.MEMBERS),
        Listener("server", config.DISTRIBUTION_PORT, Audience.MEMBERS),
    ),
)
