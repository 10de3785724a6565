"""The server of the APIs against what it is a client of."""

from __future__ import annotations

import configparser

from openstack_operator.kit import wsgi
from openstack_operator.services.mariadb.types import MariaDBSpec

# Nova's API reads that of the API, cell0's and that of one cell; the others have one each.
DATABASES = {"keystone": 1, "glance": 1, "placement": 1, "neutron": 1, "nova": 3}
REPLICAS = 3


def test_all_threads_of_three_replicas_may_hold_all_their_connections() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(wsgi.ini("service.wsgi.api", 8000))
    server = parser["uwsgi"]
    held = int(server["threads"]) * int(server["processes"]) * REPLICAS * sum(DATABASES.values())

    assert held <= MariaDBSpec.model_fields["max_connections"].default
