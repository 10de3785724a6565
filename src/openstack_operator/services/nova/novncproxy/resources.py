"""The pods of a proxy for consoles: pure functions of the spec."""

from __future__ import annotations

from openstack_operator.kit import config, kinds, probes, workloads
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.novncproxy.config import PAGE, PORT
from openstack_operator.services.nova.novncproxy.types import NovaNoVNCProxySpec


def pod(instance: str, spec: NovaNoVNCProxySpec, sources: config.Sources) -> workloads.Pod:
    """The pods of the proxy."""
    container = workloads.Container(
        name="nova-novncproxy",
        command=("nova-novncproxy", "--config-file", resources.CONF),
        env={"XDG_CACHE_HOME": "/tmp", "HOME": "/tmp"},
        ports={"novnc": PORT},
        probe=probes.http(f"/{PAGE}", PORT),
        cpu=workloads.CPU_MINOR,
        memory="150Mi",
    )
    return resources.pod(
        instance,
        spec,
        sources,
        component="novncproxy",
        owner_kind=kinds.NOVA_NOVNCPROXY.kind,
        role="nova-novncproxy",
        container=container,
    )
