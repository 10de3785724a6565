"""No secret anywhere but in Secrets, and no right that a container does not need (acceptance 5 and 6).

The first part reads everything that somebody without access to Secrets can read, and looks for the value of every
Secret in it. The second looks at what is declared, and at what the kernel says of the running processes.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import os
import re
import stat
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml
from clouds import Cloud
from clusters import OPERATOR_NAMESPACE, Cluster, ClusterError, Object
from machine import processes

ROOT = Path(__file__).parents[2]
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:openstack-operator"

SHORTEST = 8
# What our Secrets hold beside the secret itself: names and addresses, which are seen everywhere.
PUBLIC_KEYS = {"user", "username", "hostname", "host", "port", "database", "vhost", "project", "region", "url"}
# Lines of configuration files in Secrets that are told to the user as rows with a secret in it.
OPTION = re.compile(r"^\s*([\w.-]+)\s*[=:]\s*(\S.*)$")
LONG_LINE = 40
# Everybody is shown it, and the API server is told of it in base64 (caBundle).
CERTIFICATE, KEY = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"

# --- nothing secret outside of Secrets --------------------------------------------------------------------------------


def _values(item: Object) -> Iterator[tuple[str, str]]:
    """Places and texts of a Secret that nobody else may see: whole values, and the values of options in files."""
    for key, data in (item.get("data") or {}).items():
        where = f"Secret {item['metadata']['namespace']}/{item['metadata']['name']}: {key}"
        with contextlib.suppress(UnicodeDecodeError):
            text = base64.b64decode(data).decode().strip()
            if text.startswith(CERTIFICATE) and KEY not in text:
                continue
            if key not in PUBLIC_KEYS:
                yield where, text
                # A Secret that is printed whole. The same as the text's own base64, unless there is space around it.
                if len(text) >= SHORTEST:
                    yield where, data
            if "\n" in text:
                for line in text.splitlines():
                    option = OPTION.match(line)
                    if option and re.search("password|connection|transport_url|secret|token|key", option[1]):
                        yield f"{where}: {option[1]}", option[2].strip("'\"")
                    elif len(line) >= LONG_LINE and not line.startswith("#") and " " not in line:
                        yield where, line


DEBUG_OPERATOR = "operator-at-debug-level"
RECONCILED = re.compile(r'openstack_operator_reconcile_total\{kind="(\w+)",result="(\w+)"\} ([\d.]+)')
PASS_SECONDS = 120


def _forms(text: str) -> set[str]:
    """The text as it is, and as it is written in URLs, in JSON, and in the data of a Secret."""
    forms = {text, urllib.parse.quote(text, safe=""), json.dumps(text)[1:-1]}
    # What is too short to be looked for is not looked for in a longer form either.
    return forms | ({base64.b64encode(text.encode()).decode()} if len(text) >= SHORTEST else set())


def _searched(items: Iterable[Object]) -> dict[bytes, str]:
    """Where each secret text of these Secrets stands, by each form of the text."""
    found: dict[bytes, str] = {}
    for item in items:
        for where, text in _values(item):
            for form in _forms(text):
                if len(form) >= SHORTEST:
                    found.setdefault(form.encode(), where)
    return found


@pytest.fixture(scope="module")
def secrets(cloud: Cloud) -> dict[bytes, str]:
    found = _searched(cloud.cluster.items("secrets"))
    assert len(found) > 20
    return found


def _leaks(secrets: dict[bytes, str], texts: Iterator[tuple[str, bytes]]) -> list[str]:
    """Where a secret stands in a text. The secret itself is not printed."""
    return [
        f"{place} holds {where}"
        for place, text in texts
        for value, where in secrets.items()
        # A value is looked for as a whole: one that is a part of a longer word is another word.
        if value in text and re.search(rb"(?<![\w-])" + re.escape(value) + rb"(?![\w-])", text)
    ]


def test_a_secret_in_a_text_is_found(secrets: dict[bytes, str]) -> None:
    """The search itself works."""
    # A short one: the text of a whole file holds others as well.
    value, where = min(secrets.items(), key=lambda item: len(item[0]))
    assert _leaks(secrets, iter([("here", b"password = " + value + b"\n"), ("there", b"nothing")])) == [
        f"here holds {where}"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "password = pa/ss word+1",
        "amqp://user:pa%2Fss%20word%2B1@host",
        'data: {"password":"cGEvc3Mgd29yZCsx"}',
        "Secret(data={'padded': 'cGEvc3Mgd29yZCsxCg=='})",
        '"credentials": "W2RhdGFiYXNlXQpjb25uZWN0aW9uID0gbXlzcWw6Ly91OnBhL3NzQGgK"',
    ],
)
def test_every_form_of_a_secret_is_found(text: str) -> None:
    data = {
        "password": "pa/ss word+1",
        "padded": "pa/ss word+1\n",
        "credentials": "[database]\nconnection = mysql://u:pa/ss@h\n",
    }
    assert _leaks(_searched([_secret(data)]), iter([("here", text.encode())])) != []


def test_what_is_public_in_a_secret_is_no_secret() -> None:
    certificate = f"{CERTIFICATE}\n{'A' * 64}\n-----END CERTIFICATE-----\n"
    found = _searched([_secret({"username": "openstack", "name": "nova", "ca.crt": certificate})])
    assert found == {}
    assert _searched([_secret({"both.pem": f"{certificate}-----BEGIN PRIVATE KEY-----\n{'B' * 64}\n"})]) != {}


def _secret(data: dict[str, str]) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"namespace": "any", "name": "any"}, "data": encoded}


def test_no_object_but_a_secret_holds_a_secret(cloud: Cloud, secrets: dict[bytes, str]) -> None:
    """Specs, status, annotations, ConfigMaps, Events, of every kind in the cluster."""

    def texts() -> Iterator[tuple[str, bytes]]:
        for namespaced in (True, False):
            kinds = set(cloud.cluster.kinds_in(namespaced)) - {"secrets", "componentstatuses"}
            for item in cloud.cluster.items(",".join(sorted(kinds))):
                metadata = item["metadata"]
                yield f"{item['kind']} {metadata.get('namespace')}/{metadata['name']}", json.dumps(item).encode()
        for item in cloud.cluster.items("secrets"):
            yield f"metadata of Secret {item['metadata']['name']}", json.dumps(item["metadata"]).encode()

    assert _leaks(secrets, texts()) == []


def test_no_log_holds_a_secret(cloud: Cloud, secrets: dict[bytes, str]) -> None:
    """Logs of all containers, those that ended before included, and of the cluster's own programs. Regression r16."""

    def texts() -> Iterator[tuple[str, bytes]]:
        for pod in cloud.cluster.items("pods"):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            status = pod["status"]
            for container in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
                for previous in ("false", "true") if container["restartCount"] else ("false",):
                    with contextlib.suppress(ClusterError):
                        text = cloud.cluster.kubectl(
                            "logs", "-n", namespace, name, "-c", container["name"], f"--previous={previous}"
                        )
                        yield f"log of pod {namespace}/{name} {container['name']}", text.encode()
        for path in [*(cloud.cluster.state / "log").glob("*"), *(cloud.cluster.state / "pods-log").rglob("*.log")]:
            with contextlib.suppress(FileNotFoundError):
                yield f"file {path.name} of {path.parent.parent.name}", path.read_bytes()

    assert _leaks(secrets, texts()) == []


@pytest.fixture
def debug_log(cloud: Cloud) -> Iterator[str]:
    """What another operator says at debug level, which looks at every object of the cloud for the first time: it logs
    in everywhere, and finds all as it should be."""
    deployment = cloud.cluster.get("deployments", "openstack-operator", OPERATOR_NAMESPACE)
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["args"] = ["--log-level=debug", f"--namespace={cloud.namespace}", "--no-leader-election"]
    # Nobody shall ask it about objects.
    container["ports"] = [port for port in container["ports"] if port["name"] != "webhook"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": DEBUG_OPERATOR, "namespace": OPERATOR_NAMESPACE, "labels": template["metadata"]["labels"]},
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }
    wanted = collections.Counter(item["kind"] for item in cloud.cluster.ours(cloud.namespace))
    cloud.cluster.apply(pod)
    try:
        cloud.cluster.until("pods", DEBUG_OPERATOR, OPERATOR_NAMESPACE, _is_running, "running")
        end = time.monotonic() + PASS_SECONDS
        done: collections.Counter[str] = collections.Counter()
        while not done >= wanted:
            assert time.monotonic() < end, f"no pass over {wanted - done} after {PASS_SECONDS} s"
            time.sleep(1)
            with contextlib.suppress(ClusterError):
                path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{DEBUG_OPERATOR}:8080/proxy/metrics"
                text = cloud.cluster.kubectl("get", "--raw", path)
                done = collections.Counter(
                    {kind: int(float(count)) for kind, result, count in RECONCILED.findall(text) if result == "done"}
                )
        yield cloud.cluster.kubectl("logs", "-n", OPERATOR_NAMESPACE, DEBUG_OPERATOR)
    finally:
        cloud.cluster.delete("pods", DEBUG_OPERATOR, OPERATOR_NAMESPACE, wait=True)


def _is_running(pod: Object | None) -> bool:
    return pod is not None and pod["status"].get("phase") == "Running"


def test_the_operators_log_holds_no_secret_at_debug_level(
    cloud: Cloud, secrets: dict[bytes, str], debug_log: str
) -> None:
    assert '"event": "caches synced"' in debug_log
    assert _leaks(secrets, iter([("log at debug level", debug_log.encode())])) == []


def test_no_argument_and_no_environment_holds_a_secret(cloud: Cloud, secrets: dict[bytes, str]) -> None:
    def texts() -> Iterator[tuple[str, bytes]]:
        for process in processes():
            for file in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    text = (process / file).read_bytes()
                    yield f"{file} of {text[:60]!r}", text.replace(b"\0", b"\n")

    assert len(list(processes())) > 5
    assert _leaks(secrets, texts()) == []


# --- rights -----------------------------------------------------------------------------------------------------------

# The only pods whose containers may be root or hold capabilities: agents of a node, by name and component. A comment
# beside each one's builder says what it needs them for.
NODE_AGENTS = {
    ("ovn", "openvswitch"),
    ("ovn", "gateway"),
    ("ovn", "controller"),
    ("neutron", "metadata-agent"),
    ("neutron", "ovn-agent"),
    ("nova", "libvirt"),
    ("nova", "compute"),
    # The embedded cluster's own: it takes packets from a queue of the node, in the node's own network.
    ("kube-network-policies", "agent"),
}


OF_TESTS = ("e2e-", "faults-")
"""How the names of namespaces begin that tests make."""


def _agent(pod: Object) -> bool:
    labels = pod["metadata"].get("labels", {})
    kind = (labels.get("app.kubernetes.io/name"), labels.get("app.kubernetes.io/component"))
    return kind in NODE_AGENTS


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def _is_of_a_test(item: Object) -> bool:
    """Whether it lies in a namespace that a test has made, with pods of its own."""
    return str(item["metadata"]["namespace"]).startswith(OF_TESTS)


@pytest.fixture(scope="module")
def pods(cloud: Cloud) -> list[Object]:
    """Those of all namespaces: the cloud's, the operator's, and the cluster's own."""
    found = [pod for pod in cloud.cluster.items("pods") if not _is_of_a_test(pod)]
    assert {cloud.namespace, OPERATOR_NAMESPACE, "kube-system"} <= {pod["metadata"]["namespace"] for pod in found}
    return found


def test_containers_are_restricted(pods: list[Object]) -> None:
    problems = []
    for pod in pods:
        whole = pod["spec"].get("securityContext", {})
        for container in _containers(pod):
            own = {**{key: whole.get(key) for key in ("runAsUser", "runAsNonRoot", "seccompProfile")}}
            own |= container.get("securityContext", {})
            where = f"{pod['metadata']['name']} {container['name']}"
            if not own.get("readOnlyRootFilesystem"):
                problems.append(f"{where}: its root file system is writable")
            if _agent(pod):
                continue
            capabilities = own.get("capabilities", {})
            if not own.get("runAsUser") or not own.get("runAsNonRoot"):
                problems.append(f"{where}: may be root")
            if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
                problems.append(f"{where}: keeps capabilities")
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                problems.append(f"{where}: may gain privileges")
            if (own.get("seccompProfile") or {}).get("type") != "RuntimeDefault":
                problems.append(f"{where}: has no seccomp profile")
        if not _agent(pod) and any(whole_host in pod["spec"] for whole_host in ("hostNetwork", "hostPID", "hostIPC")):
            problems.append(f"{pod['metadata']['name']}: shares a name space with the node")
    assert problems == []


WORKLOADS = ("deployments", "statefulsets", "daemonsets", "jobs", "cronjobs")


def _templates(cluster: Cluster) -> Iterator[tuple[str, Object]]:
    """Pod templates of the workloads of all namespaces, and how to call them."""
    for item in cluster.items(",".join(WORKLOADS)):
        if _is_of_a_test(item):
            continue
        spec = item["spec"]["jobTemplate"]["spec"] if item["kind"] == "CronJob" else item["spec"]
        template = spec["template"]
        # A StatefulSet gives its pods these volumes by itself.
        template["spec"].setdefault("volumes", []).extend(
            {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": "any"}}
            for claim in spec.get("volumeClaimTemplates", [])
        )
        yield f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}", template


def test_kubernetes_own_standard_takes_every_pod_but_the_agents_of_nodes(cloud: Cloud, namespace: str) -> None:
    """A namespace that enforces the Pod Security Standard `restricted` is asked about each template."""
    cloud.cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    cloud.cluster.until("serviceaccounts", "default", namespace, lambda item: item is not None, "there")
    templates = list(_templates(cloud.cluster))
    refused = {}
    for where, template in templates:
        spec = {key: value for key, value in template["spec"].items() if not key.startswith("serviceAccount")}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "tried", "namespace": namespace, "labels": template["metadata"]["labels"]},
            "spec": spec,
        }
        try:
            cloud.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
        except ClusterError as problem:
            if 'violates PodSecurity "restricted:latest"' not in str(problem):
                raise
            refused[where] = _agent(template)
    assert set(refused.values()) == {True}, refused
    assert len(refused) == sum(_agent(template) for _, template in templates), "an agent is listed without need"
    assert len(templates) - len(refused) > 15


def test_node_agents_are_what_the_list_says_and_drop_what_they_do_not_need(pods: list[Object]) -> None:
    privileged = []
    for pod in filter(_agent, pods):
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
        for container in _containers(pod):
            own = container["securityContext"]
            if own.get("privileged"):
                privileged.append(f"{pod['metadata']['labels']['app.kubernetes.io/component']} {container['name']}")
            else:
                assert own["capabilities"]["drop"] == ["ALL"], f"{pod['metadata']['name']} {container['name']}"
    # Only a privileged container gets /dev/kvm without a device plugin, or a mount that the node sees too.
    assert {name.split()[0] for name in privileged} <= {"libvirt", "compute", "ovn-agent"}


def test_the_kernel_agrees(pods: list[Object]) -> None:
    """No process of a restricted pod is root, has a capability, can get one, or can write to its root."""
    restricted = {
        status["containerID"].rpartition("/")[2]: f"{pod['metadata']['name']} {status['name']}"
        for pod in pods
        if not _agent(pod)
        for status in pod["status"].get("containerStatuses", [])
        if status.get("containerID") and "running" in status["state"]
    }
    seen, problems = set(), []
    for process in processes():
        with contextlib.suppress(OSError):
            groups, status = (process / "cgroup").read_text(), (process / "status").read_text()
            mounts = (process / "mounts").read_text()
            identifier = next((one for one in restricted if one in groups), None)
            if identifier is None:
                continue
            seen.add(identifier)
            facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if facts["Name"].startswith("runc:["):
                # An exec probe that is about to begin: the runtime drops its own rights before it becomes the command.
                continue
            if "0" in facts["Uid"].split():
                problems.append(f"{restricted[identifier]}: runs as root")
            if any(int(facts[kind], 16) for kind in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")):
                problems.append(f"{restricted[identifier]}: has capabilities")
            if facts["NoNewPrivs"] != "1" or facts["Seccomp"] != "2":
                problems.append(f"{restricted[identifier]}: no_new_privs or seccomp is off")
            root = next(line.split()[3] for line in mounts.splitlines() if line.split()[1] == "/")
            if not root.startswith("ro"):
                problems.append(f"{restricted[identifier]}: its root is mounted {root}")
    assert len(seen) >= len(restricted) // 2, "processes were not found by their control groups"
    assert sorted(set(problems)) == []


def test_no_file_gives_rights_to_those_who_run_it(pods: list[Object]) -> None:
    """No setuid or setgid program and no file with capabilities in the root of any container."""
    identifiers = {
        status["containerID"].rpartition("/")[2]
        for pod in pods
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status["state"]
    }
    roots: dict[str, Path] = {}
    for process in processes():
        with contextlib.suppress(OSError):
            groups = (process / "cgroup").read_text()
            if any(one in groups for one in identifiers):
                mount = next(line for line in (process / "mounts").read_text().splitlines() if line.split()[1] == "/")
                # Containers of one image have the same directories below what each may write.
                layers = re.search(r"lowerdir=([^,]+)", mount)
                roots.setdefault(layers[1] if layers else str(process), process / "root")
    assert roots
    found = [f"{image[:60]}: {path}" for image, root in roots.items() for path in _privileged_files(root)]
    assert sorted(set(found)) == []


def _privileged_files(root: Path) -> Iterator[str]:
    device = root.stat().st_dev
    for folder, folders, files in os.walk(root):
        # Volumes are no part of the image.
        folders[:] = [name for name in folders if os.lstat(os.path.join(folder, name)).st_dev == device]
        for name in files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_dev != device:
                continue
            is_program = bool(status.st_mode & 0o111)
            has_capabilities = is_program and "security.capability" in os.listxattr(path)
            if status.st_mode & (stat.S_ISUID | stat.S_ISGID) or has_capabilities:
                yield path.removeprefix(str(root))


def test_only_those_who_need_it_get_a_token(pods: list[Object]) -> None:
    """The operator, the rotation of keys, which changes one Secret, and of the cluster's own those that follow its
    Services and policies."""
    holders = {
        pod["metadata"]["labels"].get("app.kubernetes.io/component", pod["metadata"]["name"])
        for pod in pods
        if any("serviceAccountToken" in str(volume) for volume in pod["spec"].get("volumes", []))
    }
    assert holders <= {"operator", "fernet-rotate", "dns", "agent"}


def test_the_operator_has_the_generated_rights_and_nothing_more(cluster: Cluster) -> None:
    generated = [item for item in yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()) if item]
    expected = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item["rules"]
        for item in generated
        if "rules" in item
    }
    bindings = [
        item
        for item in cluster.items("clusterrolebindings,rolebindings")
        if any(
            (one["kind"], one["name"], one.get("namespace"))
            == ("ServiceAccount", "openstack-operator", OPERATOR_NAMESPACE)
            for one in item.get("subjects", [])
        )
    ]
    granted = {
        (
            item["roleRef"]["kind"],
            item["metadata"].get("namespace") if item["roleRef"]["kind"] == "Role" else None,
            item["roleRef"]["name"],
        )
        for item in bindings
    }
    # Further roles of the file are for people.
    assert granted <= set(expected)
    assert ("ClusterRole", None, "openstack-operator") in granted
    for kind, namespace, name in granted:
        live = cluster.kubectl("get", kind.lower(), name, "-o", "json", *(["-n", namespace] if namespace else []))
        assert json.loads(live)["rules"] == expected[kind, namespace, name]


def test_the_rights_suffice_and_no_star_is_among_them(cluster: Cluster) -> None:
    refused = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in cluster.audited()
        if entry["user"]["username"] == OPERATOR_USER and entry.get("responseStatus", {}).get("code") == 403
    ]
    # A namespace that is going refuses new objects with the same code.
    assert [one for one in refused if not any(f"/namespaces/{prefix}" in one for prefix in OF_TESTS)] == []
    assert "*" not in (ROOT / "deploy" / "rbac.yaml").read_text()
