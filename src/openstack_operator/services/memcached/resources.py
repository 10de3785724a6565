"""The StatefulSet of a Memcached: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import blueprint, kinds, names, probes, workloads
from openstack_operator.services.memcached.types import MemcachedSpec

UID = 42457
BLUEPRINT = blueprint.Blueprint("memcached", kinds.MEMCACHED, "memcached", UID)
PORT = 11211


def pod(instance: str, spec: MemcachedSpec) -> workloads.Pod:
    """A server's pod; all of its configuration is on the command line."""
    command = (
        "memcached",
        "-p",
        str(PORT),
        "-U",
        "0",
        "-m",
        str(spec.cache_mebibytes),
        "-c",
        str(spec.max_connections),
    )
    return BLUEPRINT.pod(
        instance,
        spec,
        "server",
        workloads.Container(
            name="memcached",
            command=command,
            ports={"memcache": PORT},
            probe=probes.tcp(PORT),
            liveness=probes.tcp(PORT),
            # Who has no answer within a second does without for a minute.
            cpu=workloads.CPU_AWAITED,
            memory=f"{spec.cache_mebibytes + 16}Mi",
        ),
        own=spec,
        grace_seconds=5,
    )


def servers(instance: str, namespace: str, replicas: int) -> list[str]:
    """Addresses of the members, which exist before the pods do."""
    return [f"{instance}-{i}.{names.dns(instance, namespace)}:{PORT}" for i in range(replicas)]
