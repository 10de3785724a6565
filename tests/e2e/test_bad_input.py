"""Wrong input stalls with field and reason; running pods are left alone; mending the input alone makes it go on.

What the schema refuses is in `tests/test_samples.py`. Here is what only a cloud can find out.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from clouds import API_VERSION, BROUGHT, CONTROL_PLANE, DIFFICULT_PASSWORD, Cloud, secret, small
from clusters import Cluster, ClusterError, Object, condition, is_stalled

INVALID = Path(__file__).parents[2] / "deploy" / "samples" / "invalid"
EXPECTED = re.compile(r"^# expect-condition: (\w+)/(\w+): (.+)$", re.MULTILINE)
REFUSED = re.compile(r"^# expect-admission: (.+)$", re.MULTILINE)
WEBHOOK = ("validatingwebhookconfigurations", "openstack-operator")
STALLING = [
    path
    for path in sorted(INVALID.glob("*.yaml"))
    if EXPECTED.search(path.read_text()) and path.stem != "two-control-planes"
]


@pytest.mark.parametrize("path", STALLING, ids=lambda path: path.stem)
def test_a_sample_stalls_with_the_message_beside_it(cluster: Cluster, namespace: str, path: Path) -> None:
    text = path.read_text()
    found = EXPECTED.search(text)
    assert found
    objects = [item for item in yaml.safe_load_all(text) if item]
    for item in objects:
        item["metadata"]["namespace"] = namespace
    last = objects[-1]
    if refused := REFUSED.search(text):
        with pytest.raises(ClusterError, match=re.escape(refused[1])):
            cluster.apply(*objects)
        return
    if "# expect-condition: ConfigReady" in text:
        # Configuration is written once the database is known.
        cluster.apply(*(_server(kind, namespace) for kind in ("MariaDB", "Memcached")))
    cluster.apply(*objects)
    resource = f"{last['kind'].lower()}s.{last['apiVersion'].partition('/')[0]}"
    name = last["metadata"]["name"]
    cluster.until(resource, name, namespace, is_stalled, "Stalled", 60)
    item = cluster.get(resource, name, namespace)
    expected, reason, message = (part.replace(" openstack/", f" {namespace}/") for part in found.groups())
    told = condition(item, expected)
    assert (told["status"], told["reason"]) == ("False", reason)
    assert message in told["message"]
    assert condition(item, "Ready")["message"].startswith(f"{expected}: ")


def _server(kind: str, namespace: str) -> Object:
    metadata = {"name": kind.lower(), "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": {}}


@contextlib.contextmanager
def unasked(cluster: Cluster) -> Iterator[None]:
    """The API server asks nobody, as in an outage of the webhook; the operator mends what comes back."""
    manifest = yaml.safe_load_all((INVALID.parents[1] / "install.yaml").read_text())
    configuration = next(item for item in manifest if item["kind"] == "ValidatingWebhookConfiguration")
    cluster.kubectl("delete", *WEBHOOK)
    try:
        yield
    finally:
        cluster.apply(configuration)

        def is_trusted(item: Object | None) -> bool:
            return item is not None and "caBundle" in item["webhooks"][0]["clientConfig"]

        cluster.until(*WEBHOOK, "", is_trusted, "with the operator's authority", 30)


def insist(change: Callable[[], None], seconds: float = 10) -> None:
    """The API server hears a moment later that it shall ask nobody."""
    end = time.monotonic() + seconds
    while True:
        try:
            change()
            return
        except ClusterError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_of_two_control_planes_in_one_namespace_the_older_one_stays(small_cloud: Cloud) -> None:
    cluster, namespace, before = small_cloud.cluster, small_cloud.namespace, small_cloud.pods()
    second = small(cluster, namespace, enabled=())[1]
    second["metadata"]["name"] = "second"
    with pytest.raises(ClusterError, match=f"OpenStackControlPlane {namespace}/small is in this namespace already"):
        cluster.apply(second)
    with unasked(cluster):
        insist(lambda: cluster.apply(second))
    cluster.until(CONTROL_PLANE, "second", namespace, is_stalled, "Stalled", 30)
    told = condition(cluster.get(CONTROL_PLANE, "second", namespace), "Accepted")
    assert told["reason"] == "NamespaceTaken"
    assert f"{namespace}/small" in told["message"]
    cluster.delete(CONTROL_PLANE, "second", namespace)
    cluster.until_gone(CONTROL_PLANE, "second", namespace, 60)
    small_cloud.until_ready(30)
    assert small_cloud.pods() == before
    assert small_cloud.token()


# --- a running cloud --------------------------------------------------------------------------------------------------


def test_text_that_oslo_config_cannot_parse_stalls_with_its_line(small_cloud: Cloud) -> None:
    cluster, namespace, before = small_cloud.cluster, small_cloud.namespace, small_cloud.pods()
    config = cluster.get("configmaps", "keystone-config-data", namespace)
    bad = "[DEFAULT]\ndebug = true\nthis is no option\n"
    with pytest.raises(ClusterError, match=r"spec\.keystone\.customServiceConfig: line 3"):
        small_cloud.set(keystone={"customServiceConfig": bad})
    with unasked(cluster):
        insist(lambda: small_cloud.set(keystone={"customServiceConfig": bad}))
    small_cloud.until_stalled("Keystone", "customServiceConfig: line 3")
    assert small_cloud.pods() == before
    assert cluster.get("configmaps", "keystone-config-data", namespace)["data"] == config["data"]
    assert small_cloud.token()
    small_cloud.set(keystone={"customServiceConfig": ""})
    small_cloud.until_ready()
    assert small_cloud.pods() == before


def test_an_image_that_does_not_exist_leaves_the_old_pod_serving(small_cloud: Cloud) -> None:
    cluster, namespace, before = small_cloud.cluster, small_cloud.namespace, small_cloud.pods()
    image = "localhost/no-such-prefix/keystone:none"
    small_cloud.set(keystone={"containerImage": image})

    def tells_the_pull(item: Object | None) -> bool:
        message = condition(item, "Ready")["message"]
        return "Pull" in message and "keystone" in message

    try:
        cluster.until(CONTROL_PLANE, small_cloud.name, namespace, tells_the_pull, "told about the image", 90)
        assert before.items() <= small_cloud.pods().items()
        assert small_cloud.token()
    finally:
        small_cloud.set(keystone={"containerImage": None})
    small_cloud.until_ready()
    assert small_cloud.pods() == before


@pytest.mark.parametrize(
    ("value", "reason", "text"),
    [
        (None, "SecretKeyMissing", "has no key 'other'"),
        ("", "SecretEmpty", "key 'other' is empty"),
        (b"\xff\xfe\xfd", "SecretNotText", "key 'other' is not UTF-8"),
        ("two\nlines", "SecretInvalid", "control character"),
    ],
    ids=["no such key", "empty", "not text", "two lines"],
)
def test_an_unusable_secret_stalls_until_it_is_mended(
    small_cloud: Cloud, value: str | bytes | None, reason: str, text: str
) -> None:
    cluster, namespace, before = small_cloud.cluster, small_cloud.namespace, small_cloud.pods()
    reference = {"name": "brought", "key": "admin"}
    cluster.apply(secret(namespace, "wrong", **({"unrelated": "x"} if value is None else {"other": value})))
    small_cloud.set(keystone={"adminPasswordSecretRef": {"name": "wrong", "key": "other"}})
    try:
        small_cloud.until_stalled("CredentialsReady", text)
        told = condition(cluster.get("keystones", "keystone", namespace), "CredentialsReady")
        assert told["reason"] == reason
        assert small_cloud.pods() == before
        assert small_cloud.token()
        # The Secret alone is mended: nobody touches the control plane.
        cluster.apply(secret(namespace, "wrong", other=BROUGHT["admin"]))
        small_cloud.until_ready()
    finally:
        small_cloud.set(keystone={"adminPasswordSecretRef": reference})
        cluster.delete("secrets", "wrong", namespace)
    small_cloud.until_ready()
    assert small_cloud.token()
    assert _settled(small_cloud.pods()) == _settled(before)


def test_a_missing_secret_stalls_until_it_is_there(small_cloud: Cloud) -> None:
    cluster, namespace, before = small_cloud.cluster, small_cloud.namespace, small_cloud.pods()
    small_cloud.set(keystone={"credentials": {"database": {"name": "later", "key": "database"}}})
    try:
        small_cloud.until_stalled("DatabaseReady", "Secret", f"{namespace}/later does not exist")
        assert small_cloud.pods() == before
        assert small_cloud.token()
        cluster.apply(secret(namespace, "later", database=BROUGHT["database"]))
        small_cloud.until_ready()
        assert small_cloud.pods() == before, "the same password as before restarts nothing"
    finally:
        small_cloud.set(keystone={"credentials": {"database": {"name": "brought", "key": "database"}}})
        small_cloud.until_ready()
        cluster.delete("secrets", "later", namespace)
    assert small_cloud.pods() == before


@pytest.mark.parametrize(
    ("key", "kept_in", "password"),
    [
        ("admin", "keystone-admin", DIFFICULT_PASSWORD),
        ("database", "keystone-db", DIFFICULT_PASSWORD),
        # Quotes at both ends are what parsers of option files take away.
        ("database", "keystone-db", "'quoted' = \"$HOME\" #'"),
    ],
    ids=["admin", "database", "database, quoted"],
)
def test_any_password_works_and_takes_effect_when_it_is_changed(
    small_cloud: Cloud, tmp_path: Path, key: str, kept_in: str, password: str
) -> None:
    """Of the admin and of the database user, by nothing but an edit of the user's own Secret."""
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    small_cloud.until_ready()
    others = {name: pod for name, pod in small_cloud.pods().items() if "keystone" not in name and "client" not in name}

    def change(value: str) -> None:
        cluster.apply(secret(namespace, "brought", **{**BROUGHT, key: value}))

        def has_arrived(item: Object | None) -> bool:
            data = (item or {}).get("data") or {}
            return base64.b64decode(data.get("password", "")).decode() == value

        cluster.until("secrets", kept_in, namespace, has_arrived, "changed", 30)
        small_cloud.until_settled()
        small_cloud.log_in(tmp_path)
        assert small_cloud.token()
        assert small_cloud.openstack("token", "issue", "-f", "value", "-c", "id").strip()

    try:
        change(password)
        if key == "admin":
            url = small_cloud.object["status"]["identityUrl"]
            assert _login(url, password).status_code == 201
            assert _login(url, BROUGHT["admin"]).status_code == 401
        assert {name: pod for name, pod in small_cloud.pods().items() if name in others} == others
    finally:
        change(BROUGHT[key])


def _login(url: str, password: str) -> requests.Response:
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return requests.post(f"{url}/auth/tokens", json=body, timeout=30)


def _settled(pods: dict[str, Any]) -> dict[str, Any]:
    return {name: pod for name, pod in pods.items() if "bootstrap" not in name}


# --- what only a server finds out -------------------------------------------------------------------------------------


def test_a_missing_storage_class_is_named_and_mended(cluster: Cluster, namespace: str) -> None:
    def database(storage_class: str) -> Object:
        return {
            "apiVersion": API_VERSION,
            "kind": "MariaDB",
            "metadata": {"name": "db", "namespace": namespace},
            "spec": {"storageClass": storage_class, "bufferPoolMebibytes": 64},
        }

    cluster.apply(database("no-such-class"))

    def names_the_class(item: Object | None) -> bool:
        ready = condition(item, "Ready")
        return ready["status"] == "False" and "no-such-class" in ready["message"]

    item = cluster.until("mariadbs", "db", namespace, names_the_class, "told about the storage class", 60)
    assert is_stalled(item), "somebody must make the class or name another one"
    classes = cluster.items("storageclasses")
    cluster.apply(database(classes[0]["metadata"]["name"]))
    cluster.until_ready("mariadbs", "db", namespace, 120)
