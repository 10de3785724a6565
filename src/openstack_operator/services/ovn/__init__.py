"""OVN: the virtual network's databases, and the switch and controller on every node that runs guests."""

from __future__ import annotations

from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import Service
from openstack_operator.services.ovn import config, controller

SERVICE = Service(
    "ovn",
    (controller.CONTROLLER,),
    listeners=(
        # The agent's configuration names both databases.
        *(Listener(name, port, Audience.SERVICES_AND_NODES) for name, port in config.CLIENT_PORTS.items()),
        *(Listener(name, port, Audience.MEMBERS) for name, port in config.RAFT_PORTS.items()),
    ),
)
