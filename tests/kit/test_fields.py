"""No dead field (STYLE C4): each field of a spec is changed in turn, and something that is applied must change with it.

Works on what a service builds from its spec alone; a field that takes effect through another object or through a
server is named in ``ELSEWHERE`` with the test that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openstack_operator.controlplane import resources as controlplane
from openstack_operator.controlplane import types as controlplane_types
from openstack_operator.kit import config, ini, workloads
from openstack_operator.kit.types import Entry
from openstack_operator.runtime.schema import Model
from openstack_operator.services import SERVICES, keystone, mariadb, memcached, rabbitmq
from openstack_operator.services.keystone import config as keystone_config
from openstack_operator.services.keystone import resources as keystone_resources
from openstack_operator.services.mariadb import config as mariadb_config
from openstack_operator.services.mariadb import resources as mariadb_resources
from openstack_operator.services.memcached import resources as memcached_resources
from openstack_operator.services.rabbitmq import resources as rabbitmq_resources

Spec = Any
SOURCES = config.NONE

ELSEWHERE = {
    "databases": "controllers/test_mariadb.py and test_servers.py",
    "storageRetention": "controllers/test_mariadb.py: the owner of the claims",
    "vhosts": "controllers/test_rabbitmq.py and test_servers.py",
    "credentials.database": "controllers/test_keystone.py",
    "adminPasswordSecretRef": "controllers/test_keystone.py",
    "publicEndpoint": "controllers/test_keystone.py",
    "databaseRef": "controllers/test_keystone.py",
    "memcachedRef": "controllers/test_keystone.py",
    "customServiceConfig": "controllers/test_keystone.py",
    "defaultConfigOverwrite": "controllers/test_config_overwrites.py",
    "configSecrets": "controllers/test_config_secrets.py",
    "inheritedConfig": "controllers/test_config_levels.py",
    "configPolicy": "kit/test_config_validity.py",
    "openstackRelease": "controllers/test_keystone.py: the images",
}

OTHER_VALUES: dict[str, Any] = {
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "x"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "containerImage": "localhost/another:1",
    "storageSize": "77Gi",
    "storageClass": "another",
    "storageRetention": "Retain",
    "extraMounts": [{"mountPath": "/mnt/another", "secretName": "another"}],
    "registry": "another.example",
    "prefix": "another",
    "tag": "another",
    "cpu": "7",
    "memory": "7Gi",
    "region": "Another",
    "rotationHours": 12,
}


def memcached_products(spec: Spec) -> Any:
    pod = memcached_resources.pod("one", spec)
    servers = memcached_resources.servers("one", "ns", spec.replicas)
    return workloads.stateful_set(pod, "one", spec.replicas), servers


def mariadb_products(spec: Spec) -> Any:
    pod = mariadb_resources.pod("one", spec, SOURCES)
    return mariadb_config.my_cnf(spec), workloads.stateful_set(pod, "one", spec.replicas, volume=spec)


def rabbitmq_products(spec: Spec) -> Any:
    pod = rabbitmq_resources.pod("one", "ns", spec, SOURCES)
    return workloads.stateful_set(pod, "one", spec.replicas, volume=spec)


def keystone_products(spec: Spec) -> Any:
    facts = {"database.file_url": "mysql+pymysql://x", "cache.servers": "c:11211"}
    keep = keystone_config.max_active_keys(spec, facts)
    return (
        ini.render(keystone_config.ROWS, spec, facts),
        workloads.deployment(keystone_resources.api_pod("one", spec, SOURCES), "one", spec.replicas),
        workloads.template(keystone_resources.bootstrap_pod("one", spec, SOURCES, "http://i", "http://p", "hash")),
        keystone_resources.rotation("one", spec, SOURCES, keep),
    )


BUILT: list[tuple[str, type[Model], Callable[[Spec], Any]]] = [
    ("MariaDB", mariadb.controller.KIND.spec, mariadb_products),
    ("RabbitMQ", rabbitmq.controller.KIND.spec, rabbitmq_products),
    ("Memcached", memcached.controller.KIND.spec, memcached_products),
    ("Keystone", keystone.controller.KIND.spec, keystone_products),
]


def leaves(model: type[Model], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path (as in YAML) and default of each field without fields of its own."""
    for field in model.model_fields.values():
        here = (*path, str(field.alias))
        if isinstance(field.default, Model):
            yield from leaves(type(field.default), here)
        else:
            yield here, field.default


def changed(path: tuple[str, ...], default: Any) -> dict[str, Any]:
    """A spec in which that field has another value than its default."""
    name = path[-1]
    value: Any
    if name in OTHER_VALUES:
        value = OTHER_VALUES[name]
    elif isinstance(default, bool):
        value = not default
    elif name == "replicas":
        value = 0
    elif isinstance(default, int):
        value = default + 1
    elif name == "overrides":
        names = ("mariadb-server", "rabbitmq", "memcached", "keystone")
        value = {one: "localhost/override:1" for one in names}
    else:
        raise AssertionError(f"another value than {default!r} for {'.'.join(path)} is missing in OTHER_VALUES")
    for part in reversed(path):
        value = {part: value}
    spec: dict[str, Any] = value
    return spec


CASES = [
    pytest.param(spec, build, path, default, id=f"{name}-{'.'.join(path)}")
    for name, spec, build in BUILT
    for path, default in leaves(spec)
    if not any(part in ELSEWHERE for part in (path[0], ".".join(path)))
]


@pytest.mark.parametrize(("spec", "build", "path", "default"), CASES)
def test_a_field_moves_something_that_is_applied(
    spec: type[Model], build: Callable[[Spec], Any], path: tuple[str, ...], default: Any
) -> None:
    assert build(spec.model_validate(changed(path, default))) != build(spec())


@pytest.mark.parametrize(("spec", "build", "path", "default"), CASES)
def test_the_docstring_of_a_field_names_its_effect_and_a_named_option_is_the_one_that_moves(
    spec: type[Model], build: Callable[[Spec], Any], path: tuple[str, ...], default: Any
) -> None:
    model = spec
    for part in path[:-1]:
        field = next(one for one in model.model_fields.values() if one.alias == part)
        model = type(field.default)
    name = next(name for name, one in model.model_fields.items() if one.alias == path[-1])
    text = " ".join(model.described(name).split())
    assert text
    rendered = build(spec.model_validate(changed(path, default)))
    if build is keystone_products:
        for section, option in re.findall(r"\[(\w+)\] (\w+)", text):
            before, after = (option_line(one[0].public, section, option) for one in (build(spec()), rendered))
            assert before is not None
            if option != "max_active_keys":  # rounded: its own cases are in controllers/test_keystone.py
                assert before != after


def option_line(text: str, section: str, option: str) -> str | None:
    for part in text.split("\n\n"):
        if part.startswith(f"[{section}]\n"):
            for line in part.splitlines():
                if line.startswith(f"{option} = "):
                    return line
    return None


def test_every_row_that_names_a_field_names_one_that_exists() -> None:
    known = {".".join(path) for path, _ in leaves(keystone.controller.KIND.spec)}
    named = {
        row.origin.removeprefix("spec.") for row in keystone_config.ROWS if re.fullmatch(r"spec\.[\w.]+", row.origin)
    }
    assert named <= known


# --- the control plane ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_what_a_control_plane_says_to_all_reaches_every_service_that_has_the_field(service: Any) -> None:
    spec = controlplane_types.OpenStackControlPlaneSpec.model_validate(
        {
            "region": "Another",
            "images": {"tag": "another"},
            "storageClass": "another",
            "publicEndpoint": {"type": "NodePort"},
        }
    )
    child = controlplane.child(service, "cloud", spec)
    kind = service.kinds[0].spec
    assert kind.model_validate(child["spec"]), "a service accepts what the control plane writes"
    fields = {field.alias for field in kind.model_fields.values()}
    for name, value in (("region", "Another"), ("storageClass", "another")):
        if name in fields:
            assert child["spec"][name] == value
    assert child["spec"]["images"]["tag"] == "another"
    if "publicEndpoint" in fields:
        assert child["spec"]["publicEndpoint"] == {"type": "NodePort"}


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_every_service_has_a_field_of_its_name_and_can_be_switched_off_if_it_is_not_infrastructure(
    service: Any,
) -> None:
    field = controlplane_types.OpenStackControlPlaneSpec.model_fields[service.name]
    is_infrastructure = service.name in ("mariadb", "rabbitmq", "memcached")
    assert isinstance(field.default, Entry) is not is_infrastructure
