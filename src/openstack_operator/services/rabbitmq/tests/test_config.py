"""The server's files and its pod."""

from __future__ import annotations

import json

from openstack_operator.kit import config as kit_config
from openstack_operator.kit import workloads
from openstack_operator.services.rabbitmq import config, resources
from openstack_operator.services.rabbitmq.types import RabbitMQSpec


def test_the_definitions_hold_one_administrator_with_any_password() -> None:
    password = "$%@/#+\"':-\\"
    found = json.loads(config.definitions("admin", password))
    assert found["users"] == [{"name": "admin", "password": password, "tags": ["administrator"]}]
    assert found["permissions"] == [{"user": "admin", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}]


def test_queues_are_quorum_queues_unless_a_client_asks_for_others() -> None:
    assert "\ndefault_queue_type = quorum\n" in config.CONF


def test_members_have_long_names_that_follow_the_pod() -> None:
    spec = workloads.template(resources.pod("bus", "ns", RabbitMQSpec(), kit_config.NONE))["spec"]
    (container,) = spec["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["RABBITMQ_NODENAME"] == "rabbit@$(POD_NAME).bus-members.ns.svc"
    assert env["RABBITMQ_USE_LONGNAME"] == "true"
    assert next(iter(env)) == "POD_NAME", "what a value refers to stands above it"
    assert spec["securityContext"]["runAsUser"] == 42439
