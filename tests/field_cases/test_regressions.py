"""Faults that other operators shipped, held off by what is decided without a cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml
from pods import METADATA, TOP

import seeds
from openstack_operator.kit import identity, ini, quantities, releases
from openstack_operator.services import glance, keystone, neutron, placement
from openstack_operator.services.keystone import resources as keystone_resources
from openstack_operator.services.keystone.types import KeystoneSpec
from openstack_operator.services.neutron import config as neutron_config
from openstack_operator.services.neutron.types import NeutronSpec
from openstack_operator.services.nova import controller as nova
from openstack_operator.services.nova.api import config as nova_api_config
from openstack_operator.services.nova.api import resources as nova_api
from openstack_operator.services.nova.api.types import NovaAPISpec
from openstack_operator.services.nova.metadata import config as metadata_config
from openstack_operator.services.nova.metadata import resources as metadata
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec
from openstack_operator.services.ovn import config as ovn

ROOT = Path(__file__).parents[2]
LAST_APPLIED_BYTES = 262144
"""The most that all annotations of an object may have: `kubectl apply` puts a copy of the object into one."""


class Facts(dict[str, Any]):
    """Some value for everything that steps find out."""

    def __missing__(self, name: str) -> str:
        return "x"


def values(rows: tuple[ini.Row, ...], spec: Any) -> dict[tuple[str, str], Any]:
    return {(row.section, row.option): row.value(spec, Facts()) for row in rows}


# --- identity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "spec", "registered"),
    [
        (glance.config.ROWS, glance.controller.KIND.spec(), glance.controller.API.type),
        (placement.config.ROWS, placement.controller.KIND.spec(), placement.controller.API.type),
        (neutron_config.rows(releases.load("2026.1")), NeutronSpec(), neutron.controller.API.type),
        (nova_api_config.ROWS, NovaAPISpec.model_validate(TOP), nova.CATALOG[0][1]),
    ],
    ids=["glance", "placement", "neutron", "nova"],
)
def test_a_service_knows_the_type_that_the_catalogue_gives_it(
    rows: tuple[ini.Row, ...], spec: Any, registered: str
) -> None:
    """Regression r13: access rules name the type, and every restricted credential was refused."""
    assert values(rows, spec)["keystone_authtoken", "service_type"] == registered


def test_service_users_have_the_role_that_services_ask_of_each_other() -> None:
    """Regression r50: Placement refused what did not have it."""
    rows = values(ini.authtoken("placement"), placement.controller.KIND.spec())

    assert rows["keystone_authtoken", "service_token_roles_required"] is True
    assert rows["keystone_authtoken", "service_token_roles"] in identity.ROLES


def test_no_admin_password_becomes_an_option_of_a_command() -> None:
    """Regression r87: one password in 64 began with a dash, and the bootstrap took it for an option."""
    pod = keystone_resources.bootstrap_pod(
        "k", KeystoneSpec(), keystone.config.config.NONE, "http://i", "http://p", "x"
    )
    (container,) = pod.containers

    assert not [word for word in container.command if "password=" in word]
    assert any("OS_BOOTSTRAP_PASSWORD" in word and "/password" in word for word in container.command)


# --- nova and neutron -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["http://nova-metadata", "nova-metadata:8775", "nova metadata", "", "-nova"])
def test_the_metadata_host_is_a_host(host: str) -> None:
    """Regression f10: a URL was taken, and the agents asked `http://http://…`."""
    with pytest.raises(pydantic.ValidationError):
        NeutronSpec.model_validate({"novaMetadataHost": host})


@pytest.mark.parametrize("host", ["nova-metadata", "metadata.example.org", "192.0.2.7"])
def test_host_protocol_and_port_of_the_metadata_service_are_three_options(host: str) -> None:
    """Regression f10."""
    spec = NeutronSpec.model_validate({"novaMetadataHost": host})
    rows = values(neutron_config.AGENT_ROWS, spec)

    assert neutron.resources.metadata_host(spec, "cloud") in (host, f"{host}.cloud.svc")
    assert rows["DEFAULT", "nova_metadata_protocol"] == "http"
    assert rows["DEFAULT", "nova_metadata_port"] == metadata_config.PORT


def test_guests_metadata_and_the_compute_api_are_two_processes() -> None:
    """Regression f11: pods of the API served metadata too, without the check of its caller."""
    assert "module = nova.wsgi.osapi_compute:application" in nova_api.uwsgi().splitlines()
    assert "module = nova.wsgi.metadata:application" in metadata.uwsgi().splitlines()
    assert ("neutron", "metadata_proxy_shared_secret") not in values(
        nova_api_config.ROWS, NovaAPISpec.model_validate(TOP)
    )
    shared = values(metadata_config.GLOBAL_ROWS, NovaMetadataSpec.model_validate(TOP | METADATA))
    assert shared["neutron", "service_metadata_proxy"] is True


def test_nobody_reaches_a_database_of_ovn_before_it_has_a_leader_and_a_first_row() -> None:
    """Regression r6, r95: connections were set up, and members joined, before there was a leader."""
    script = ovn.script("database.sh")
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    steps = ["create-cluster", 'wait "$socket" "$schema" connected', "60 init; do", "ptcp:$clients"]

    assert [script.index(step) for step in steps] == sorted(script.index(step) for step in steps)
    assert script.index("ptcp:$clients") < script.index("ovsdb-server/reload")


# --- objects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "crds").glob("*.yaml")), ids=lambda path: path.stem)
def test_kubectl_can_apply_every_definition(path: Path) -> None:
    """Regression f50, f52: a CRD was larger than the annotation that `kubectl apply` makes of it."""
    assert len(json.dumps(yaml.safe_load(path.read_text()))) < LAST_APPLIED_BYTES


def test_messages_name_things_in_one_order() -> None:
    """Regression f30, f64: each pass named them in another order, which was a change to write."""
    program = (
        "from openstack_operator.controlplane import admission\n"
        "from openstack_operator.controlplane.types import OpenStackControlPlaneSpec\n"
        "from openstack_operator.kit import kinds\n"
        "from openstack_operator.runtime.admission import Subject\n"
        "class Nothing:\n"
        "    def items(self, resource):\n"
        "        return []\n"
        "off = {name: {'enabled': False} for name in ('glance', 'keystone', 'placement', 'neutron')}\n"
        "spec = OpenStackControlPlaneSpec.model_validate(off)\n"
        "print(admission.admit(Subject(kinds.CONTROL_PLANE, 'c', 'n', spec), None, Nothing()))\n"
    )
    said = seeds.answers(program, "1", "2", "3")
    assert len(said) == 1
    assert "nova needs" in said.pop()


def test_the_operators_own_pod_asks_for_memory_and_has_a_limit_above_what_it_uses() -> None:
    """Regression f78, r68: managers were killed for a default limit of 128 MiB."""
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "install.yaml").read_text()))
    (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    # In MiB, with one cloud and with as many as were measured (`bench/operator_alone.py`).
    figures = json.loads((ROOT / "bench" / "results" / "operator-alone.json").read_text())
    usual, most = figures["growth"]["one"]["memory"], max(one["peak"] for one in figures["growth"]["steps"])

    asked, limit = (container["resources"][which]["memory"] for which in ("requests", "limits"))
    assert usual * 2**20 < quantities.value(asked) < 2 * usual * 2**20
    assert 1.5 * most * 2**20 < quantities.value(limit)
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
