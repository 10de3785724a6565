"""MariaDB: the database server, and the databases and users that services ask it for."""

from __future__ import annotations

from openstack_operator.kit.network_policies import Audience, Listener
from openstack_operator.kit.service import Service
from openstack_operator.services.mariadb import config, controller

SERVICE = Service(
    "mariadb",
    (controller.CONTROLLER,),
    listeners=(Listener("server", config.PORT, Audience.SERVICES),),
)
