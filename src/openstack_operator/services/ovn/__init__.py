"""OVN: the virtual network's databases, and the switch and controller on every node that runs guests."""

from __future__ import annotations

from openstack_operator.kit.service import Service
from openstack_operator.services.ovn import controller

SERVICE = Service("ovn", (controller.CONTROLLER,))
