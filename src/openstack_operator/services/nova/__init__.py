"""Nova: compute, in cells, and the kinds of its parts."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import File, Service
from openstack_operator.kit.types import Ref
from openstack_operator.services.nova import config, controller
from openstack_operator.services.nova.api import config as api_config
from openstack_operator.services.nova.api import controller as api
from openstack_operator.services.nova.cell import controller as cell
from openstack_operator.services.nova.compute import config as compute_config
from openstack_operator.services.nova.compute import controller as compute
from openstack_operator.services.nova.conductor import config as conductor_config
from openstack_operator.services.nova.conductor import controller as conductor
from openstack_operator.services.nova.metadata import config as metadata_config
from openstack_operator.services.nova.metadata import controller as metadata
from openstack_operator.services.nova.novncproxy import config as novncproxy_config
from openstack_operator.services.nova.novncproxy import controller as novncproxy
from openstack_operator.services.nova.scheduler import config as scheduler_config
from openstack_operator.services.nova.scheduler import controller as scheduler

_OF_ALL_CELLS = ({"api_database_secret_ref": Ref(name="api")},)

SERVICE = Service(
    "nova",
    (
        controller.CONTROLLER,
        api.CONTROLLER,
        scheduler.CONTROLLER,
        conductor.CONTROLLER,
        metadata.CONTROLLER,
        novncproxy.CONTROLLER,
        cell.CONTROLLER,
        compute.CONTROLLER,
    ),
    needs=(
        kinds.MARIADB,
        kinds.RABBITMQ,
        kinds.MEMCACHED,
        kinds.KEYSTONE,
        kinds.GLANCE,
        kinds.PLACEMENT,
        kinds.NEUTRON,
    ),
    files=(
        File(controller.CONTROLLER.kind, "nova.conf", lambda spec: config.TOP_ROWS, field=""),
        File(api.CONTROLLER.kind, "nova.conf", lambda spec: api_config.ROWS),
        File(compute.CONTROLLER.kind, "nova.conf", compute_config.choose, cases=({"driver": "Fake"},)),
        File(conductor.CONTROLLER.kind, "nova.conf", conductor_config.choose, cases=_OF_ALL_CELLS),
        File(metadata.CONTROLLER.kind, "nova.conf", metadata_config.choose, cases=_OF_ALL_CELLS),
        File(novncproxy.CONTROLLER.kind, "nova.conf", lambda spec: novncproxy_config.ROWS),
        File(scheduler.CONTROLLER.kind, "nova.conf", lambda spec: scheduler_config.ROWS),
    ),
    own_files=(
        File(controller.CONTROLLER.kind, config.cell_file("<cell>"), lambda spec: config.cell_rows("<cell>")),
        File(controller.CONTROLLER.kind, "nova.conf", lambda spec: config.SERVICE_ROWS, field=""),
        File(
            compute.CONTROLLER.kind,
            compute_config.NODE_FILE,
            lambda spec: compute_config.NODE_ROWS,
            field="",
            in_pod=True,
        ),
    ),
    listeners=(
        Listener("api", api_config.PORT, Audience.EVERYONE),
        # Neutron's agents on nodes ask it for guests.
        Listener("metadata", metadata_config.PORT, Audience.SERVICES_AND_NODES),
        Listener("novncproxy", novncproxy_config.PORT, Audience.EVERYONE),
    ),
)
