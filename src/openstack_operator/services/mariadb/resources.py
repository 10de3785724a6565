"""The StatefulSet and Services of a MariaDB: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import blueprint, config, kinds, probes, workloads
from openstack_operator.services.mariadb.config import DATA, PORT, ROOM, RUN
from openstack_operator.services.mariadb.types import MariaDBSpec

UID = 42434


def takes_requests(spec: MariaDBSpec) -> str:
    """What a server that greets must have besides. It greets one more than there may be connections, for an
    administrator, and sends everybody else away after the login."""
    return (
        f"taken={probes.taken(PORT)}; [ $taken -le {spec.max_connections} ] || "
        f'{{ echo "all {spec.max_connections} connections of the database are taken"; exit 1; }}; {ROOM}'
    )


BLUEPRINT = blueprint.Blueprint("mariadb", kinds.MARIADB, "mariadb", UID)


def pod(instance: str, spec: MariaDBSpec, sources: config.Sources) -> workloads.Pod:
    """The server's pod."""
    return BLUEPRINT.pod(
        instance,
        spec,
        "server",
        workloads.Container(
            name="mariadb",
            command=("sh", f"{config.SCRIPTS}/start.sh"),
            ports={"mysql": PORT},
            probe=probes.tcp(PORT),
            readiness=probes.greeting(PORT, then=takes_requests(spec)),
            liveness=probes.greeting(PORT),
            # A mariadbd that is told to finish before its threads for replication run waits for these without end, and
            # hears of nothing else (11.8.9; once it greets, they run).
            pre_stop=probes.greeted(PORT),
            cpu=workloads.CPU_FIRST,
            memory=f"{spec.buffer_pool_mebibytes + 128}Mi",
            mounts=({"name": "data", "mountPath": DATA},),
        ),
        own=spec,
        sources=sources,
        writable=("/tmp", RUN),
        # InnoDB flushes its dirty pages on the way out.
        grace_seconds=120,
    )
