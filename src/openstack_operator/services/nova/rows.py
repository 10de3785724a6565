"""Rows of nova.conf that more than one of Nova's processes has; each kind's ``config.py`` puts its file together."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova.parts import SHUTDOWN_RESERVE

UID = 42436
STATE = "/var/lib/nova"

BASE = (
    *ini.logging(),
    ini.fixed("DEFAULT", "state_path", STATE, "where Kolla's images have it"),
)

HOST = (ini.fact("DEFAULT", "host", "host"),)
"""Of the processes in Deployments."""

LOCKS = (ini.fixed("oslo_concurrency", "lock_path", "/tmp", "pods share no locks"),)

CLIENTS = (
    *ini.login("service_user"),
    ini.fixed("service_user", "send_service_user_token", True, "long operations outlive the user's token"),
    *ini.keystone_client("placement"),
    ini.fixed("placement", "valid_interfaces", "internal", "services talk inside the cluster"),
    *ini.keystone_client("neutron"),
    ini.fixed("neutron", "valid_interfaces", "internal", "services talk inside the cluster"),
    ini.fixed("glance", "valid_interfaces", "internal", "services talk inside the cluster"),
    ini.spec("glance", "region_name", "region"),
)
"""How Nova's processes reach the other services."""

API_DATABASE = ini.database("api_database", "api_database")
CELL_DATABASE = ini.database("database", "cell_database")

SHUTDOWN = (
    ini.spec("DEFAULT", "manager_shutdown_timeout", "shutdownSeconds"),
    ini.computed(
        "DEFAULT",
        "graceful_shutdown_timeout",
        lambda spec, facts: spec.shutdown_seconds + SHUTDOWN_RESERVE,
        "spec.shutdownSeconds",
    ),
)

NO_UPCALLS = (
    ini.fixed("filter_scheduler", "track_instance_changes", False, "cells do not call the scheduler"),
    ini.fixed("workarounds", "disable_group_policy_check_upcall", True, "cells do not read the API database"),
)
