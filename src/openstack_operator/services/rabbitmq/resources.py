"""The StatefulSet and Services of a RabbitMQ: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, names, releases, settings, workloads
from openstack_operator.services.rabbitmq.config import AMQP_PORT, DATA, MANAGEMENT_PORT, RUN, environment
from openstack_operator.services.rabbitmq.types import RabbitMQSpec

UID = 42439
PORTS = {"amqp": AMQP_PORT, "management": MANAGEMENT_PORT}


def members_service(instance: str) -> str:
    """The headless Service that gives each server its stable name."""
    return names.join(instance, "members")


def pod(instance: str, namespace: str, spec: RabbitMQSpec, sources: config.Sources) -> workloads.Pod:
    """The server's pod."""
    release = releases.load(spec.openstack_release)
    return workloads.Pod(
        service="rabbitmq",
        instance=instance,
        component="server",
        owner_kind=kinds.RABBITMQ.kind,
        image=releases.image(release, "rabbitmq", spec.images, settings.image_source(), spec.container_image),
        user=UID,
        settings=spec,
        sources=sources,
        writable=("/tmp", RUN),
        grace_seconds=60,
        containers=(
            workloads.Container(
                name="rabbitmq",
                command=("sh", f"{config.SCRIPTS}/start.sh"),
                env_from_fields={"POD_NAME": "metadata.name"},
                env=environment(instance, members_service(instance), namespace),
                ports=PORTS,
                # The management port opens after the definitions were imported, the AMQP port last of all.
                probe=workloads.tcp_probe(AMQP_PORT),
                liveness=workloads.tcp_probe(AMQP_PORT),
                cpu="50m",
                memory="256Mi",
                mounts=({"name": "data", "mountPath": DATA},),
            ),
        ),
    )
