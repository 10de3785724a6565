"""The StatefulSet and Services of a MariaDB: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, names, releases, settings, workloads
from openstack_operator.services.mariadb.config import DATA, PORT, RUN
from openstack_operator.services.mariadb.types import MariaDBSpec

UID = 42434


def members_service(instance: str) -> str:
    """The headless Service that gives each server its stable name."""
    return names.join(instance, "members")


def pod(instance: str, spec: MariaDBSpec, sources: config.Sources) -> workloads.Pod:
    """The server's pod."""
    release = releases.load(spec.openstack_release)
    return workloads.Pod(
        service="mariadb",
        instance=instance,
        component="server",
        owner_kind=kinds.MARIADB.kind,
        image=releases.image(release, "mariadb", spec.images, settings.image_source(), spec.container_image),
        user=UID,
        settings=spec,
        sources=sources,
        writable=("/tmp", RUN),
        # InnoDB flushes its dirty pages on the way out.
        grace_seconds=120,
        containers=(
            workloads.Container(
                name="mariadb",
                command=("sh", f"{config.SCRIPTS}/start.sh"),
                ports={"mysql": PORT},
                probe=workloads.tcp_probe(PORT),
                liveness=workloads.tcp_probe(PORT),
                cpu="50m",
                memory=f"{spec.buffer_pool_mebibytes + 128}Mi",
                mounts=({"name": "data", "mountPath": DATA},),
            ),
        ),
    )
