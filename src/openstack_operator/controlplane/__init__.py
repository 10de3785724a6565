"""OpenStackControlPlane: one object for a whole cloud.

Makes the object of each service from its part of the spec, tells it release, region, images and endpoints, and sums up
their status. It knows services only by ``services.SERVICES``: their order, names and types.
"""

from __future__ import annotations

from openstack_operator.controlplane import controller
from openstack_operator.kit.service import Service
from openstack_operator.services import SERVICES

SERVICE = Service("openstackcontrolplane", (controller.CONTROLLER,))

EVERYTHING: tuple[Service, ...] = (SERVICE, *SERVICES)
"""All that one operator process runs by default."""
