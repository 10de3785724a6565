"""Clouds of the end-to-end tests: the one that `./up` makes, and small ones with nothing but an identity service, which
tests may break and delete. Waiting and asking Kubernetes is in `clusters`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import openstack
import yaml
from clusters import API_GROUPS, Cluster, Object, condition, owner
from keystoneauth1 import exceptions

from openstack_operator.kit.types import DEFAULT_RELEASE

CONTROL_PLANE = "openstackcontrolplanes"
API_VERSION = "openstack.k8s.io/v1alpha1"
RELEASE = os.environ.get("OPENSTACK_OPERATOR_E2E_RELEASE") or DEFAULT_RELEASE
INTERNAL_SERVICES = ("mariadb", "rabbitmq", "memcached")

READY_SECONDS = 240
TOKEN_SECONDS = 60

# Every character that some quoting rule on the way (shell, INI, URL, SQL, YAML, oslo.config's $) has a meaning for.
# Only ASCII: PyMySQL cannot send others.
DIFFICULT_PASSWORD = "-$%@/#+\"' :\\${x}%(y)s;&=?"
# Passwords that the user of the small cloud brings, by key of the Secret.
BROUGHT = {"admin": "brought-by-the-user", "database": "brought-by-the-user-too"}


@dataclasses.dataclass
class Cloud:
    """A control plane in a namespace."""

    cluster: Cluster
    namespace: str
    name: str = "openstack"
    clouds_yaml: Path = dataclasses.field(default_factory=Path)
    connection: Any = None

    # --- its object ---------------------------------------------------------------------------------------------------

    @property
    def object(self) -> Object:
        return self.cluster.get(CONTROL_PLANE, self.name, self.namespace)

    def set(self, **spec: Any) -> None:
        """Merges into the spec."""
        self.cluster.patch(CONTROL_PLANE, self.name, self.namespace, {"spec": spec})

    def until_ready(self, seconds: float = READY_SECONDS) -> Object:
        return self.cluster.until_ready(CONTROL_PLANE, self.name, self.namespace, seconds)

    def until_settled(self) -> None:
        """Ready, with every workload at its newest pods: also right after a change of a Secret, when nobody has looked
        at it yet."""
        for item in self.children():
            if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
                name = item["metadata"]["name"]
                self.cluster.until_available(item["kind"].lower() + "s", name, self.namespace)
        self.until_ready()

    def until_all_is_told(self, seconds: float = READY_SECONDS) -> None:
        """Ready, and no condition of any object is Unknown: what Ready does not wait for, such as Nova's upgrade check
        a while after a change, has had its Job too."""
        self.until_ready()

        def is_told(item: Object | None) -> bool:
            found = (item or {}).get("status", {}).get("conditions", [])
            return all(one["status"] != "Unknown" for one in found)

        for item in self.cluster.ours(self.namespace):
            if not is_told(item):
                resource = f"{item['kind'].lower()}.{item['apiVersion'].partition('/')[0]}"
                name = item["metadata"]["name"]
                self.cluster.until(resource, name, self.namespace, is_told, "without an Unknown condition", seconds)

    def until_stalled(self, *texts: str, seconds: float = 60) -> Object:
        """Waits for Stalled, with all of the texts in its message."""

        def is_met(item: Object | None) -> bool:
            stalled = condition(item, "Stalled")
            return (
                item is not None
                and stalled["status"] == "True"
                and stalled["observedGeneration"] == item["metadata"]["generation"]
                and all(text in stalled["message"] for text in texts)
            )

        item = self.cluster.until(CONTROL_PLANE, self.name, self.namespace, is_met, f"Stalled with {texts}", seconds)
        assert item is not None
        return item

    def pods(self) -> dict[str, tuple[str, int]]:
        """uid and restarts of each pod that serves, by name."""
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(one["restartCount"] for one in pod["status"].get("containerStatuses", [])),
            )
            for pod in self.cluster.items("pods", self.namespace)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def mariadb(self, statement: str) -> list[str]:
        """Rows of a query as root, sorted. The password goes through standard input: everybody sees arguments."""
        script = f'read -r MYSQL_PWD; export MYSQL_PWD; exec mariadb -h 127.0.0.1 -u root -N -B -e "{statement}"'
        out = self.cluster.kubectl(
            "exec", "-i", "-n", self.namespace, "mariadb-0", "--", "sh", "-c", script,
            stdin=self.secret("mariadb-root")["password"] + "\n",
        )  # fmt: skip
        return sorted(out.splitlines())

    def rabbitmqctl(self, *command: str) -> list[str]:
        """Lines of what it says, sorted."""
        words = ("rabbitmqctl", "--silent", *command)
        out = self.cluster.kubectl("exec", "-n", self.namespace, "rabbitmq-0", "--", *words)
        return sorted(line for line in out.splitlines() if line.strip())

    def children(self) -> list[Object]:
        """Everything that an object of ours controls, ours included."""
        ours = {(item["kind"], item["metadata"]["name"]) for item in self.cluster.ours(self.namespace)}
        kinds = "configmaps,secrets,services,serviceaccounts,deployments,statefulsets,daemonsets,jobs,cronjobs,roles"
        found = self.cluster.items(f"{kinds},rolebindings,poddisruptionbudgets,networkpolicies", self.namespace)
        return [item for item in [*found, *self.cluster.ours(self.namespace)] if owner(item) in ours]

    # --- its users ----------------------------------------------------------------------------------------------------

    def secret(self, name: str) -> dict[str, str]:
        data = self.cluster.get("secrets", name, self.namespace).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def log_in(self, directory: Path) -> None:
        """Writes clouds.yaml as a user would get it, and connects from outside the cluster."""
        directory.mkdir(parents=True, exist_ok=True)
        self.clouds_yaml = directory / "clouds.yaml"
        self.clouds_yaml.touch(mode=0o600)
        self.clouds_yaml.write_text(self.login())
        self.connection = self.connect()

    def login(self) -> str:
        """clouds.yaml of the administrator, with the password of now."""
        return self.secret(self.object["status"]["adminSecret"])["clouds.yaml"]

    def connect(self, login: str = "") -> Any:
        """A new connection of the administrator, by a ``login`` of earlier if that is given."""
        options = yaml.safe_load(login or self.login())["clouds"]["openstack"]
        auth = options.pop("auth")
        # No files but ours: the machine may have a clouds.yaml of its own.
        return openstack.connect(load_yaml_config=False, load_envvars=False, **options, **auth)

    def token(self) -> str:
        """A new token, as a user would get it now; proves that Keystone, its database, its keys and the password work.

        Waits for a while: connections that a restart of the database has cut end with an error each, and a public
        Service that was made again has another port.
        """
        end = time.monotonic() + TOKEN_SECONDS
        while True:
            self.log_in(self.clouds_yaml.parent)
            try:
                token: str = self.connection.session.get_token()
                return token
            except (exceptions.ConnectFailure, exceptions.RetriableConnectionFailure, exceptions.HttpServerError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def openstack(self, *arguments: str) -> str:
        """Output of the openstack command on this machine."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        environment |= {"OS_CLIENT_CONFIG_FILE": str(self.clouds_yaml), "OS_CLOUD": "openstack"}
        program = Path(sys.executable).with_name("openstack")
        done = subprocess.run(
            [str(program), *arguments], check=False, capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 0, f"openstack {' '.join(arguments)}: {done.stderr.strip()[-2000:]}"
        return done.stdout

    def openstack_json(self, *arguments: str) -> Any:
        return json.loads(self.openstack(*arguments, "-f", "json"))


NO_SERVICES = ("networkPolicies",)
"""Fields that can be switched off and are no service."""


def services(cluster: Cluster) -> dict[str, Object]:
    """Schema of each service that a control plane can have, by the name of its field."""
    crd = json.loads(cluster.kubectl("get", "crd", f"{CONTROL_PLANE}.openstack.k8s.io", "-o", "json"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: dict[str, Object] = schema["properties"]["spec"]["properties"]
    return {
        name: field
        for name, field in fields.items()
        if name not in NO_SERVICES and (name in INTERNAL_SERVICES or "enabled" in field.get("properties", {}))
    }


def small(cluster: Cluster, namespace: str, enabled: tuple[str, ...] = ("keystone",), **spec: Any) -> list[Object]:
    """Namespace and control plane with only these services. Whatever services there will be, they are switched off."""
    off = {
        name: {"enabled": False}
        for name, schema in services(cluster).items()
        if name not in enabled and "enabled" in schema.get("properties", {})
    }
    host = next(
        one["address"] for one in cluster.items("nodes")[0]["status"]["addresses"] if one["type"] == "InternalIP"
    )
    whole = {
        "openstackRelease": RELEASE,
        "publicEndpoint": {"type": "NodePort", "host": host},
        "mariadb": {"bufferPoolMebibytes": 64},
        **off,
    }
    for name, value in spec.items():
        whole[name] = {**whole.get(name, {}), **value} if isinstance(value, dict) else value
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": API_VERSION,
            "kind": "OpenStackControlPlane",
            "metadata": {"name": "small", "namespace": namespace},
            "spec": whole,
        },
    ]


def secret(namespace: str, name: str, **values: str | bytes) -> Object:
    data = {
        key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for key, value in values.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": data,
    }


def remove_namespace(cluster: Cluster, name: str, *, wait: bool = True) -> None:
    """Our objects first: a namespace that is going lets nobody finish. Without ``wait`` the name must not be used again
    soon."""
    ours = [kind for kind in cluster.kinds_in() if kind.partition(".")[2] in API_GROUPS]
    for kinds in (CONTROL_PLANE, ",".join(ours)):
        cluster.kubectl("delete", kinds, "--all", "-n", name, "--timeout=120s", seconds=150)
    cluster.kubectl("delete", "namespace", name, f"--wait={str(wait).lower()}", "--timeout=120s", seconds=150)
