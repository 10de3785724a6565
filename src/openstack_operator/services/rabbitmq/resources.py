"""The StatefulSet and Services of a RabbitMQ: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import blueprint, config, kinds, names, probes, workloads
from openstack_operator.services.rabbitmq.config import AMQP_PORT, DATA, MANAGEMENT_PORT, RUN, environment
from openstack_operator.services.rabbitmq.types import RabbitMQSpec

UID = 42439
BLUEPRINT = blueprint.Blueprint("rabbitmq", kinds.RABBITMQ, "rabbitmq", UID)
PORTS = {"amqp": AMQP_PORT, "management": MANAGEMENT_PORT}


def pod(instance: str, namespace: str, spec: RabbitMQSpec, sources: config.Sources) -> workloads.Pod:
    """The server's pod."""
    return BLUEPRINT.pod(
        instance,
        spec,
        "server",
        workloads.Container(
            name="rabbitmq",
            command=("sh", f"{config.SCRIPTS}/start.sh"),
            env_from_fields={"POD_NAME": "metadata.name"},
            env=environment(instance, names.members_service(instance), namespace),
            ports=PORTS,
            # The management port opens after the definitions were imported, the AMQP port last of all.
            probe=probes.tcp(AMQP_PORT),
            # AMQP's server does not speak first; both ports are of one process. The page of the login needs none.
            readiness=probes.http("/", MANAGEMENT_PORT),
            liveness=probes.http("/", MANAGEMENT_PORT),
            cpu="50m",
            memory="256Mi",
            mounts=({"name": "data", "mountPath": DATA},),
        ),
        own=spec,
        sources=sources,
        writable=("/tmp", RUN),
        grace_seconds=60,
    )
