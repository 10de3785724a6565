"""Pure builders of pods and the workloads around them, and the waits for these.

``Pod`` says what a service's container needs; ``template`` turns it into a pod template that is non-root, read-only,
without capabilities and without a service account token unless the service says why not. ``deployment``,
``stateful_set``, ``daemon_set`` wrap it; ``wait`` raises until the cluster runs exactly what was asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import (
    config,
    labels,
    mounts,
    pods,
    probes,
    quantities,
    releases,
    rereading,
    storage,
    verified,
)
from openstack_operator.kit.types import PodSettings, Storage
from openstack_operator.runtime import errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

CPU_FIRST, CPU_AWAITED, CPU_COMMON, CPU_MINOR = "100m", "40m", "15m", "5m"
"""Requests, which are also shares of CPU time where everything starts at once: first what most others wait for, last
what nobody does."""

RESTRICTED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Security context of every container that is not named as an exception with a reason."""


@dataclasses.dataclass(frozen=True)
class Container:
    """One container. ``probe`` is the handler of its probes (``probes.http`` and the like)."""

    name: str
    command: tuple[str, ...]
    image: str = ""
    """Empty: the pod's."""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env_from_fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Name to field path of the downward API."""
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)
    probe: Mapping[str, Any] | None = None
    readiness: Mapping[str, Any] | None = None
    """Handler of the readiness probe where ``probe`` is for the start alone: a server that hangs still takes
    connections, so somebody has to wait for an answer."""
    liveness: Mapping[str, Any] | None = None
    """Handler of the liveness probe; only for what a restart cures."""
    probes_start_only: bool = False
    """Whether what ``probe`` looks for stays when it has come: nobody looks again."""
    probe_timeout: int = 10
    cpu: str = "10m"
    memory: str = "128Mi"
    security: Mapping[str, Any] | None = None
    """Instead of ``RESTRICTED``; the caller says why in a comment."""
    mounts: tuple[Mapping[str, Any], ...] = ()
    config: bool = True
    """Whether it mounts scripts and config-data-merged (if the pod has any)."""
    pre_stop: Mapping[str, Any] | None = None
    """Handler that is over before the container is told to finish; its time is part of the grace period."""
    rereads: bool = False
    """Whether its process takes new values of mutable options while it runs (``Release.rereads``)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pod:
    """The pods of one workload."""

    service: str
    instance: str
    component: str
    owner_kind: str
    image: str
    user: int | None
    """uid = gid as Kolla has it; None: containers bring their own security contexts."""
    containers: tuple[Container, ...]
    settings: PodSettings = dataclasses.field(default_factory=PodSettings)
    sources: config.Sources | None = None
    init: tuple[Container, ...] = ()
    writable: tuple[str, ...] = ("/tmp",)
    """Directories of the main containers that are empty volumes."""
    volumes: tuple[Mapping[str, Any], ...] = ()
    host_network: bool = False
    host_pid: bool = False
    grace_seconds: int = 30
    is_on_one_node: bool = False
    """Whether all pods of a rollout must be on the same node: they share a volume that only one node can mount."""
    hash_extra: str = ""
    """Whatever else must roll the pods when it changes."""


def of_release(release: str, service: str, one: Container) -> Container:
    """The container, which takes new values of mutable options while it runs where the release's process does."""
    return dataclasses.replace(one, rereads=releases.load(release).rereads(service, one.name))


def rereader(pod: Pod) -> str:
    """The container whose process reads mutable options again; empty where there is none."""
    return next((one.name for one in pod.containers if one.rereads and pod.sources), "")


def selector(pod: Pod) -> dict[str, str]:
    return labels.selector(pod.service, pod.instance, pod.component)


def template(pod: Pod) -> dict[str, Any]:
    """The pod template."""
    scratch = [{"name": f"{mounts.SCRATCH}{i}", "emptyDir": {}} for i, _ in enumerate(pod.writable)]
    scratch_mounts = [{"name": f"{mounts.SCRATCH}{i}", "mountPath": path} for i, path in enumerate(pod.writable)]
    sources = pod.sources
    init = [_container(pod, one, scratch_mounts, main=False) for one in pod.init]
    if sources is not None:
        security = _security(pod, None)
        init.insert(0, config.init_container(sources, pod.image, security))
    extra = mounts.chosen(pod.settings.extra_mounts, pod.component)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": pod.grace_seconds,
        "securityContext": _pod_security(pod),
        "containers": [_container(pod, one, scratch_mounts, main=True) for one in pod.containers],
        "volumes": [*(config.volumes(sources) if sources else []), *scratch, *(dict(one) for one in pod.volumes)],
    }
    for container in spec["containers"]:
        container["volumeMounts"] += mounts.add(extra, container["volumeMounts"], f"{pod.instance} {pod.component}")
    spec["volumes"] += mounts.volumes(extra)
    if init:
        spec["initContainers"] = init
    if pod.host_network:
        # Names of Services resolve from the host's network too.
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if pod.host_pid:
        spec["hostPID"] = True
    else:
        # No signal reaches the first process of a PID namespace before it has a handler for it: what is told to finish
        # while it starts would go on until its time is over, and the pod that takes its place waits for that.
        spec["shareProcessNamespace"] = True
    settings = pod.settings
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = list(settings.tolerations)
    if settings.topology_spread_constraints:
        spec["topologySpreadConstraints"] = list(settings.topology_spread_constraints)
    if pod.is_on_one_node:
        spec["affinity"] = _together(selector(pod))
    elif not pod.host_network:
        spec["affinity"] = _spread(selector(pod))
    annotations = {}
    read = ""
    if sources is not None:
        read = sources.digest_at_start if rereader(pod) else sources.digest
        if rereader(pod) and sources.mutable_digest:
            annotations[config.MUTABLE_HASH] = sources.mutable_digest
    if digest := ".".join(part for part in (read, pod.hash_extra) if part):
        annotations[config.HASH] = digest
    return {
        "metadata": {
            "labels": labels.pod(pod.service, pod.instance, pod.component, pod.owner_kind),
            "annotations": annotations,
        },
        "spec": spec,
    }


def _pod_security(pod: Pod) -> dict[str, Any]:
    if pod.user is None:
        return {}
    return {
        "runAsUser": pod.user,
        "runAsGroup": pod.user,
        "fsGroup": pod.user,
        # Large volumes are not walked at each start when their root is right already.
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def _security(pod: Pod, own: Mapping[str, Any] | None) -> dict[str, Any]:
    if own is not None:
        return dict(own)
    if pod.user is not None:
        return dict(RESTRICTED)
    # A pod of a node agent: its image may name a user that could not read what is mounted for root.
    return {key: value for key, value in RESTRICTED.items() if key != "runAsNonRoot"} | {"runAsUser": 0}


def _quantities(**lists: dict[str, str]) -> dict[str, dict[str, str]]:
    """Lists of resources, without empty ones; one value is one text: another way to write it is no change."""
    return {
        kind: {name: quantities.canonical(text) for name, text in one.items()} for kind, one in lists.items() if one
    }


def _container(pod: Pod, one: Container, scratch: list[dict[str, Any]], *, main: bool) -> dict[str, Any]:
    requests = {"cpu": one.cpu, "memory": one.memory}
    limits: dict[str, str] = {}
    if main and one is pod.containers[0]:
        wanted = pod.settings.resources
        limits |= wanted.limits.model_dump(exclude_none=True)
        # Kubernetes refuses a request above its limit: ours gives way.
        requests |= {
            name: limit
            for name, limit in limits.items()
            if name in requests and quantities.value(limit) < quantities.value(requests[name])
        }
        requests |= wanted.requests.model_dump(exclude_none=True)
    body: dict[str, Any] = {
        "name": one.name,
        "image": one.image or pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(one.command),
        "securityContext": _security(pod, one.security),
        "resources": _quantities(requests=requests, limits=limits),
        # The last log lines of a container that failed become part of its status, and so of ours.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *(config.main_mounts(is_renewed=one.rereads) if pod.sources and one.config else []),
            *scratch,
            *(dict(mount) for mount in one.mounts),
        ],
    }
    # Fields first: $(NAME) in a value refers to what stands above it.
    env: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in one.env_from_fields.items()
    ]
    env += [{"name": name, "value": value} for name, value in one.env.items()]
    if env:
        body["env"] = env
    if one.ports:
        body["ports"] = [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in one.ports.items()]
    if main:
        body |= probes.of(one.probe, one.readiness, one.liveness, one.probe_timeout, only_start=one.probes_start_only)
    if one.pre_stop:
        body["lifecycle"] = {"preStop": one.pre_stop}
    return body


def _spread(tags: dict[str, str]) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": tags}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def _together(tags: dict[str, str]) -> dict[str, Any]:
    """The first pod goes anywhere, the others to its node."""
    term = {"labelSelector": {"matchLabels": tags}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _head(pod: Pod, name: str) -> dict[str, Any]:
    return {"name": name, "labels": labels.common(pod.service, pod.instance, pod.component)}


def deployment(pod: Pod, name: str, replicas: int) -> Object:
    """New pods come up before old ones go, so that an API with one replica has no gap either."""
    return {
        "metadata": _head(pod, name),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector(pod)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 3,
            "template": template(pod),
        },
    }


def stateful_set(
    pod: Pod,
    name: str,
    replicas: int,
    *,
    volume: Storage | None = None,
    mount_name: str = "data",
    service_name: str = "",
    parallel: bool = True,
) -> Object:
    """Pods with stable names under the headless Service ``service_name`` (default: ``name``)."""
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": selector(pod)},
        "serviceName": service_name or name,
        "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate"},
        "template": template(pod),
    }
    if volume is not None:
        spec["volumeClaimTemplates"] = [
            {
                "metadata": {"name": mount_name, "labels": labels.common(pod.service, pod.instance, pod.component)},
                "spec": storage.claim(volume),
            }
        ]
        # Who deletes the StatefulSet by hand must not lose the data: what the user wants of the volumes when the whole
        # object goes is done by ``apply_stateful_set``.
        spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    return {"metadata": _head(pod, name), "spec": spec}


def daemon_set(pod: Pod, name: str, *, on_delete: bool = False) -> Object:
    """One pod per selected node. ``on_delete`` leaves running pods alone when the template changes."""
    strategy: dict[str, Any] = (
        {"type": "OnDelete"}
        if on_delete
        else {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}}
    )
    return {
        "metadata": _head(pod, name),
        "spec": {"selector": {"matchLabels": selector(pod)}, "updateStrategy": strategy, "template": template(pod)},
    }


def service(
    pod: Pod,
    name: str,
    ports: Mapping[str, int],
    *,
    headless: bool = False,
    only_ready: bool = True,
    kind: str = "ClusterIP",
    node_port: int | None = None,
) -> Object:
    """A Service for the pods; ``headless`` ones publish addresses before pods are ready, for members among
    themselves, and so do others that lead not to ``only_ready`` pods."""
    spec: dict[str, Any] = {
        "type": kind,
        "selector": selector(pod),
        "ports": [
            {"name": label, "port": port, "targetPort": port, "protocol": "TCP"}
            | ({"nodePort": node_port} if node_port else {})
            for label, port in ports.items()
        ],
    }
    if headless:
        spec["clusterIP"] = "None"
    if headless or not only_ready:
        spec["publishNotReadyAddresses"] = True
    return {"metadata": _head(pod, name), "spec": spec}


def disruption_budget(pod: Pod, name: str) -> Object:
    """One pod at a time may be evicted."""
    return {
        "metadata": _head(pod, name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(pod)}},
    }


async def ensure_budget(scope: Scope[Any], pod: Pod, name: str, replicas: int) -> None:
    """A budget where there is more than one replica; a single one must stay evictable."""
    if replicas > 1:
        await scope.apply(kinds.PDB, disruption_budget(pod, name))
    else:
        await scope.delete(kinds.PDB, name)


def wait(scope: Scope[Any], resource: Resource, item: Object) -> None:
    """Raises ``errors.Waiting`` until the workload runs what its spec says, everywhere, with nothing old left.

    The message names the pod and what is wrong with it.
    """
    status, spec, metadata = item.get("status", {}), item["spec"], item["metadata"]
    name = f"{resource.kind} {metadata['namespace']}/{metadata['name']}"
    if resource == kinds.DAEMONSET:
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
        if spec.get("updateStrategy", {}).get("type") == "OnDelete":
            updated = wanted
        total = wanted
        made = status.get("currentNumberScheduled", 0)
    else:
        wanted = spec.get("replicas", 1)
        updated = status.get("updatedReplicas", 0)
        ready = status.get("availableReplicas", 0)
        total = made = status.get("replicas", 0)
        if resource == kinds.STATEFULSET:
            if status.get("currentRevision") == status.get("updateRevision"):
                updated = max(updated, status.get("currentReplicas", 0))
            ready = min(ready, _serving(scope, spec["selector"]["matchLabels"], ready))
    seen = status.get("observedGeneration", 0) >= metadata["generation"]
    if seen and updated >= wanted and ready >= wanted and total <= wanted:
        return
    why = pods.explain(scope, spec["selector"]["matchLabels"])
    if made < wanted:
        # Nothing that runs says why there is not more of it.
        why = _failure(status) or pods.uncreated(scope, item) or why
    message = f"{name}: {min(ready, updated)} of {wanted} pods ready" + (f": {why}" if why else "")
    raise errors.Waiting("RollingOut", message, on=resource.kind)


def _serving(scope: Scope[Any], selector: dict[str, str], counted: int) -> int:
    """How many of a server's pods serve; ``counted`` is what its workload says.

    A pod that is gone is counted for some hundredths of a second more. Who believes that asks a host that is away, and
    tells nothing of it until that has timed out.
    """
    if verified.is_assumed(scope):
        return counted
    return sum(pods.is_ready(pod) for pod in pods.selected(scope, selector))


def _failure(status: Mapping[str, Any]) -> str:
    """What a Deployment says of pods that it cannot make."""
    for condition in status.get("conditions", []):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return pods.one_line(condition.get("message", ""))
    return ""


def with_mounts(one: Container, *mounts: Mapping[str, Any]) -> Container:
    """The container with further mounts."""
    return dataclasses.replace(one, mounts=(*one.mounts, *mounts))


async def apply(scope: Scope[Any], resource: Resource, body: Object) -> Object:
    """Applies a Deployment or DaemonSet. What its running pods can read again replaces none of them: `reread`."""
    return await scope.apply(resource, rereading.kept(body, scope.get(resource, body["metadata"]["name"])))


async def reread(scope: Scope[Any], resource: Resource, item: Object, pod: Pod) -> str:
    """Brings users' mutable options to running pods whose processes read them again; what there is to say about it."""
    container = rereader(pod)
    if pod.sources is None or not container:
        return ""
    return await rereading.ensure(scope, resource, item, pod.sources, container)


async def ensure_deployment(scope: Scope[Any], pod: Pod, name: str, replicas: int) -> str | None:
    """Applies the Deployment and its budget, sets the replica fields of status, and waits; what there is to say about
    its pods."""
    await ensure_budget(scope, pod, name, replicas)
    item = await apply(scope, kinds.DEPLOYMENT, deployment(pod, name, replicas))
    status = item.get("status", {})
    scope.status["replicas"] = status.get("replicas", 0)
    scope.status["readyReplicas"] = status.get("readyReplicas", 0)
    scope.status["selector"] = ",".join(f"{key}={value}" for key, value in selector(pod).items())
    # Before the wait: one node that is down must not keep the pods of all others from it.
    told = await reread(scope, kinds.DEPLOYMENT, item, pod)
    wait(scope, kinds.DEPLOYMENT, item)
    return told or None


async def apply_stateful_set(scope: Scope[Any], body: Object, volume: Storage | None = None) -> Object:
    """Applies a StatefulSet; what Kubernetes does not let change in one that exists (claims, Service) stays.

    Raises ``errors.Stalled`` when a new one's ``volume`` needs a storage class that does not exist, and
    ``errors.Waiting`` while claims without a volume are replaced by such of another class.
    """
    present = scope.get(kinds.STATEFULSET, body["metadata"]["name"])
    if volume is not None:
        await storage.replace_claims(scope, volume, body, present)
    if present is None and volume is not None:
        storage.check(scope, volume)
    if present is not None:
        fixed = ("volumeClaimTemplates", "serviceName", "podManagementPolicy")
        spec = {key: value for key, value in body["spec"].items() if key not in fixed}
        spec |= {key: present["spec"][key] for key in fixed if key in present["spec"] and key in body["spec"]}
        body = {**body, "spec": spec}
    if volume is not None:
        await storage.ensure_claims(scope, body, volume)
    return await scope.apply(kinds.STATEFULSET, body)
