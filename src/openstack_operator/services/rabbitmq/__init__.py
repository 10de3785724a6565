"""RabbitMQ: the message bus, and the virtual hosts and users that services ask it for."""

from __future__ import annotations

from openstack_operator.kit.service import Service
from openstack_operator.services.rabbitmq import controller

SERVICE = Service("rabbitmq", (controller.CONTROLLER,))
