"""The pods of compute nodes: pure functions of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, kinds, names, probes, releases, workloads
from openstack_operator.services.nova import resources, rows
from openstack_operator.services.nova.compute import config as files
from openstack_operator.services.nova.compute.types import NovaComputeSpec
from openstack_operator.services.nova.parts import TERMINATION_RESERVE

STATE = "/var/lib/openstack/nova"
LIBVIRT_STATE = "/var/lib/openstack/libvirt"
NODE_CONTAINER = "node-config"
WRAPPER_NAME = "qemu-wrapper.sh"


def libvirt_name(instance: str) -> str:
    return names.workload(instance, "libvirt")


def _host_path(name: str, path: str, kind: str = "DirectoryOrCreate") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _mount(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def _root(*capabilities: str) -> dict[str, Any]:
    """Root with these capabilities only, and a read-only root file system."""
    security: dict[str, Any] = {
        "runAsUser": 0,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]} | ({"add": list(capabilities)} if capabilities else {}),
    }
    if "SYS_ADMIN" not in capabilities:
        # Kubernetes refuses the two together.
        security["allowPrivilegeEscalation"] = False
    return security


# /dev/kvm is in no runtime's default list of devices, and only a privileged container gets it without a device plugin.
_WITH_KVM: Mapping[str, Any] = {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True}


def libvirt_security(spec: NovaComputeSpec) -> Mapping[str, Any]:
    """The least that libvirt can do with.

    Taps need NET_ADMIN, changing the owner of disks CHOWN, FOWNER and DAC_OVERRIDE, starting QEMU without capabilities
    SETPCAP, SETUID and SETGID. SYS_ADMIN and SYS_PTRACE let QEMU leave the container's cgroup namespace (cgroup v2).
    """
    if spec.virt_type != "QEMU":
        return _WITH_KVM
    return _root(
        "NET_ADMIN", "CHOWN", "DAC_OVERRIDE", "FOWNER", "SETPCAP", "SETUID", "SETGID", "SYS_ADMIN", "SYS_PTRACE"
    )


def _image(spec: NovaComputeSpec, role: str, override: str | None) -> str:
    return resources.image(spec, role, override)


def _process(spec: NovaComputeSpec, container: workloads.Container) -> workloads.Container:
    return workloads.of_release(spec.openstack_release, resources.SERVICE, container)


def libvirt_pod(instance: str, spec: NovaComputeSpec, sources: config.Sources) -> workloads.Pod:
    """libvirt on each node."""
    state = {
        "libvirt-run": ("/run/libvirt", "/run/libvirt"),
        "libvirt-lib": (f"{LIBVIRT_STATE}/lib", "/var/lib/libvirt"),
        "libvirt-etc": (f"{LIBVIRT_STATE}/etc", "/etc/libvirt"),
        "libvirt-log": (f"{LIBVIRT_STATE}/log", "/var/log/libvirt"),
        # What QEMU can do, found out by starting it several times.
        "libvirt-cache": (f"{LIBVIRT_STATE}/cache", "/var/cache/libvirt"),
        "nova-state": (STATE, rows.STATE),
    }
    volumes = [_host_path(name, path) for name, (path, _) in state.items()]
    mounts = [_mount(name, path) for name, (_, path) in state.items()]
    volumes.append(_host_path("host-cgroups", "/sys/fs/cgroup", "Directory"))
    mounts.append(_mount("host-cgroups", files.CGROUPS))
    mounts.append(_mount("scripts", "/usr/local/bin/qemu-system-x86_64", subPath=WRAPPER_NAME, readOnly=True))
    if spec.virt_type == "QEMU":
        volumes.append(_host_path("tun", files.TUN, "CharDevice"))
        mounts.append(_mount("tun", files.TUN))
    container = workloads.Container(
        name="libvirt",
        command=("sh", f"{config.SCRIPTS}/start.sh"),
        env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"},
        probe=probes.command("virsh", "-c", "qemu:///system", "version"),
        # nova-compute looks at what it finds there as it starts.
        cpu=workloads.CPU_AWAITED,
        memory="64Mi",
        security=libvirt_security(spec),
        mounts=tuple(mounts),
    )
    return workloads.Pod(
        service=resources.SERVICE,
        instance=instance,
        component="libvirt",
        owner_kind=kinds.NOVA_COMPUTE.kind,
        image=_image(spec, "nova-libvirt", spec.libvirt_container_image),
        user=None,
        settings=spec.model_copy(update={"resources": type(spec.resources)()}),
        sources=sources,
        containers=(container,),
        volumes=tuple(volumes),
        host_network=True,
        # Without the node's process ids the end of the pod's first process would be QEMU's end too.
        host_pid=True,
        grace_seconds=10,
    )


def cleanup_name(instance: str) -> str:
    return names.workload(instance, "cleanup")


def cleanup_pod(instance: str, spec: NovaComputeSpec, sources: config.Sources) -> workloads.Pod:
    """What ends the guests and empties the directories on each node, and is ready when it has."""
    state = {
        "libvirt-run": ("/run/libvirt", "/run/libvirt"),
        "libvirt-state": (LIBVIRT_STATE, "/var/lib/libvirt"),
        "nova-state": (STATE, rows.STATE),
    }
    directories = [path for _, path in state.values()]
    container = workloads.Container(
        name="cleanup",
        command=("sh", f"{config.SCRIPTS}/cleanup.sh", *directories),
        probe=probes.command("test", "-e", files.CLEAN_MARK),
        memory="16Mi",
        # Guests are root's processes, as this one: no capability is needed to end them.
        security=_root(),
        mounts=(
            *(_mount(name, path) for name, (_, path) in state.items()),
            _mount("host-cgroups", files.CGROUPS),
        ),
    )
    return workloads.Pod(
        service=resources.SERVICE,
        instance=instance,
        component="cleanup",
        owner_kind=kinds.NOVA_COMPUTE.kind,
        image=_image(spec, "nova-libvirt", spec.libvirt_container_image),
        user=None,
        settings=spec.model_copy(update={"resources": type(spec.resources)(), "extra_mounts": ()}),
        sources=sources,
        containers=(container,),
        volumes=(
            *(_host_path(name, path) for name, (path, _) in state.items()),
            _host_path("host-cgroups", "/sys/fs/cgroup", "Directory"),
        ),
        host_network=True,
        host_pid=True,
        grace_seconds=0,
    )


def compute_pod(instance: str, spec: NovaComputeSpec, sources: config.Sources) -> workloads.Pod:
    """nova-compute on each node."""
    node = _mount("node-config", files.NODE_DIRECTORY)
    fields = {"NODE_NAME": "spec.nodeName", "HOST_IP": "status.hostIP"}
    makes_taps = releases.load(spec.openstack_release).compute_makes_taps
    choose = workloads.Container(
        name=NODE_CONTAINER,
        image=_image(spec, "nova-libvirt", spec.libvirt_container_image),
        command=("sh", f"{config.SCRIPTS}/node.sh"),
        env={"VIRT_TYPE": spec.virt_type},
        env_from_fields=fields,
        security=_WITH_KVM if spec.virt_type == "Auto" else _root(),
        mounts=(node,),
    )
    container = workloads.Container(
        name="nova-compute",
        command=("python3", f"{config.SCRIPTS}/start.py"),
        env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"},
        env_from_fields={"NODE_NAME": "spec.nodeName"},
        probe=probes.command("sh", f"{config.SCRIPTS}/ready.sh"),
        # The last of the longest chain: in a rollout it starts after all others, and beside most of them.
        cpu=workloads.CPU_FIRST,
        memory="200Mi",
        # Owners of disks and mounts of file systems (config drives, volumes), interfaces of servers: each boot fails
        # without SYS_ADMIN and DAC_READ_SEARCH.
        security=_root("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "NET_ADMIN", "SYS_ADMIN"),
        mounts=(
            _mount("libvirt-run", "/run/libvirt"),
            _mount("nova-state", rows.STATE),
            node | {"readOnly": True},
            *((_mount("tun", files.TUN),) if makes_taps else ()),
        ),
    )
    return workloads.Pod(
        service=resources.SERVICE,
        instance=instance,
        component="compute",
        owner_kind=kinds.NOVA_COMPUTE.kind,
        image=_image(spec, "nova-compute", spec.container_image),
        user=None,
        settings=spec,
        sources=sources,
        containers=(_process(spec, container),),
        init=(choose,),
        volumes=(
            _host_path("libvirt-run", "/run/libvirt"),
            _host_path("nova-state", STATE),
            {"name": "node-config", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            *((_host_path("tun", files.TUN, "CharDevice"),) if makes_taps else ()),
        ),
        host_network=True,
        grace_seconds=spec.shutdown_seconds + TERMINATION_RESERVE,
    )


def fake_pod(instance: str, spec: NovaComputeSpec, sources: config.Sources) -> workloads.Pod:
    """nova-compute that keeps servers in memory."""
    return workloads.Pod(
        service=resources.SERVICE,
        instance=instance,
        component="compute",
        owner_kind=kinds.NOVA_COMPUTE.kind,
        image=_image(spec, "nova-compute", spec.container_image),
        user=rows.UID,
        # The labels are those of nodes with libvirt.
        settings=spec.model_copy(update={"node_selector": {}}),
        sources=sources,
        containers=(_process(spec, resources.daemon("nova-compute", memory="200Mi")),),
        writable=("/tmp", rows.STATE),
        grace_seconds=spec.shutdown_seconds + TERMINATION_RESERVE,
    )
