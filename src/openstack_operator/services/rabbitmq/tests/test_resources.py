"""The server's pod."""

from __future__ import annotations

from openstack_operator.kit import config, workloads
from openstack_operator.services.rabbitmq import resources
from openstack_operator.services.rabbitmq.types import RabbitMQSpec


def test_a_server_that_serves_has_to_answer_and_one_that_starts_has_only_to_open_its_last_port() -> None:
    (container,) = workloads.template(resources.pod("bus", "ns", RabbitMQSpec(), config.NONE))["spec"]["containers"]
    page = {"path": "/", "port": 15672, "scheme": "HTTP"}
    assert container["startupProbe"]["tcpSocket"] == {"port": 5672}
    assert (container["readinessProbe"]["httpGet"], container["livenessProbe"]["httpGet"]) == (page, page)
    assert container["readinessProbe"]["failureThreshold"] == 2
