"""What a live control plane consists of, read from its objects: containers, files, addresses, and what the operator
made through the APIs of MariaDB, RabbitMQ and Keystone.

`take` is called while the cloud is Ready. Everything stays in memory: it holds the cloud's passwords.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import openstack
import yaml

from openstack_operator.embedded import cloud
from openstack_operator.kit import identity, names

WORKLOADS = "statefulsets,deployments,daemonsets,jobs"
LATER = ("nova-upgrade-check",)
"""What the operator does half a minute after everything is ready, perhaps while this is read, and nobody waits for."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Login:
    """A database, virtual host or user by name, with who may use it."""

    name: str
    user: str
    password: str


@dataclass(frozen=True)
class Pod:
    """The one pod of a workload. Jobs lose the hash in their name."""

    name: str
    spec: Object
    is_job: bool

    @property
    def host_network(self) -> bool:
        return bool(self.spec.get("hostNetwork"))


@dataclass(frozen=True)
class Snapshot:
    """A whole control plane."""

    namespace: str
    pods: Mapping[str, Pod]
    configmaps: Mapping[str, Mapping[str, bytes]]
    secrets: Mapping[str, Mapping[str, bytes]]
    services: tuple[Object, ...]
    databases: tuple[Login, ...]
    vhosts: tuple[Login, ...]
    users: tuple[Login, ...]
    catalog: tuple[identity.Endpoint, ...]
    region: str

    def secret(self, name: str) -> dict[str, str]:
        return {key: value.decode() for key, value in self.secrets[name].items()}

    def address(self, service: str) -> str:
        """The address of a Service that has one."""
        found = next(one for one in self.services if one["metadata"]["name"] == service)
        return str(found["spec"]["clusterIP"])


def take(target: cloud.Cloud) -> Snapshot:
    """Reads the control plane of a cloud that is Ready."""

    def items(kinds: str) -> list[Object]:
        text = cloud.kubectl(target, "-n", target.namespace, "get", kinds, "-o", "json")
        found: list[Object] = json.loads(text)["items"]
        return found

    secrets = {one["metadata"]["name"]: decoded(one.get("data")) for one in items("secrets")}

    def logins(kind: str, field: str) -> tuple[Login, ...]:
        asked = [entry for one in items(kind) for entry in one["spec"].get(field, [])]
        return tuple(login(one["name"], secrets[one["secretRef"]["name"]]) for one in asked)

    catalog, region = endpoints(target)
    return Snapshot(
        namespace=target.namespace,
        pods={pod.name: pod for pod in pods(items(WORKLOADS)) if pod.name not in LATER},
        configmaps={
            one["metadata"]["name"]: {key: text.encode() for key, text in (one.get("data") or {}).items()}
            for one in items("configmaps")
        },
        secrets=secrets,
        services=tuple(items("services")),
        databases=logins("mariadbs", "databases"),
        vhosts=logins("rabbitmqs", "vhosts"),
        users=tuple(
            login(values["user"].decode(), values)
            for name, values in sorted(secrets.items())
            if name == names.service_user_secret(values.get("user", b"").decode())
        ),
        catalog=catalog,
        region=region,
    )


def decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (data or {}).items()}


def login(name: str, values: Mapping[str, bytes]) -> Login:
    return Login(name, values["user"].decode(), values["password"].decode())


def pods(workloads: Iterable[Object]) -> Iterable[Pod]:
    """One pod for each workload that runs any."""
    for one in workloads:
        name, kind = one["metadata"]["name"], one["kind"]
        is_per_node = kind == "DaemonSet"
        wanted = one["status"].get("desiredNumberScheduled", 0) if is_per_node else one["spec"].get("replicas", 1)
        spec = one["spec"]["template"]["spec"]
        if kind == "Job":
            yield Pod(name.rpartition("-")[0], spec, is_job=True)
        elif kind == "StatefulSet" and wanted:
            claims = [claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])]
            volumes = [*spec.get("volumes", []), *({"name": claim, "persistentVolumeClaim": {}} for claim in claims)]
            spec |= {"volumes": volumes, "serviceName": one["spec"]["serviceName"]}
            yield Pod(f"{name}-0", spec, is_job=False)
        elif wanted:
            yield Pod(name, spec, is_job=False)


def endpoints(target: cloud.Cloud) -> tuple[tuple[identity.Endpoint, ...], str]:
    """The catalogue without Keystone's own entry, which its bootstrap makes, and the region."""
    login = yaml.safe_load(target.clouds_yaml.read_text())["clouds"]["openstack"]
    auth = login.pop("auth")
    # No files but ours: the machine may have a clouds.yaml of its own.
    connection: Any = openstack.connect(load_yaml_config=False, load_envvars=False, **login, **auth)
    urls: dict[str, dict[str, str]] = {}
    region = ""
    for one in connection.identity.endpoints():
        urls.setdefault(one.service_id, {})[one.interface] = one.url
        region = one.region_id
    entries = [
        identity.Endpoint(one.name, one.type, one.description or "", urls[one.id]["internal"], urls[one.id]["public"])
        for one in connection.identity.services()
        if one.type != "identity"
    ]
    connection.close()
    return tuple(entries), str(region)
