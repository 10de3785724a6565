"""`openstack-operator explain` says the truth: of every row of every service, and of every field of every kind."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import other_values
from openstack_operator import controlplane
from openstack_operator.cli import explain, origins
from openstack_operator.cli.origins import Place
from openstack_operator.controlplane import resources as controlplane_resources
from openstack_operator.kit import ini, overwrites, releases
from openstack_operator.kit.service import File, Service
from openstack_operator.kit.types import DEFAULT_RELEASE
from openstack_operator.runtime import errors
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.schema import Model
from openstack_operator.services import SERVICES
from openstack_operator.services.nova import controller as nova_controller
from openstack_operator.services.nova.cell import controller as cell_controller
from openstack_operator.services.nova.compute import config as compute_config

CONFIGURED = [service for service in SERVICES if service.files]
FILES = [
    pytest.param(file, id=f"{file.kind.resource.kind}-{file.name}")
    for service in CONFIGURED
    for file in (*service.files, *service.own_files)
]
FIELDS = [
    pytest.param(kind, path, field, id=f"{kind.resource.kind}-{'.'.join(path)}")
    for kind in origins.KINDS.values()
    for path, field in origins.leaves(kind.spec)
]


class Facts(dict[str, Any]):
    """A value for everything that steps find out."""

    def __missing__(self, name: str) -> Any:
        return {} if name == "registered" else "qemu" if name == "node.virt_type" else "x"


def answer(name: str) -> str:
    return explain.run(name, None, None, DEFAULT_RELEASE, is_offline=True, as_json=False)


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explain.run(name, None, None, DEFAULT_RELEASE, is_offline=True, as_json=True))
    return found


def kind(name: str) -> Kind:
    return origins.KINDS[name]


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", CONFIGURED, ids=lambda service: service.name)
def test_every_row_is_found_by_the_name_of_its_option_with_file_and_origin(service: Service) -> None:
    for one in origins.settings(service):
        asked = explain.parse(f"{service.name}.{one.row.section}.{one.row.option}", DEFAULT_RELEASE)
        assert isinstance(asked, explain.Named)
        found = explain.option_report(asked, None)
        assert found["catalogue"] is not None, asked.label
        said = [(row["kind"], row["file"], row["origin"]) for row in found["setBy"]]
        assert (one.kind.resource.kind, one.file.name, one.row.origin) in said


def test_an_answer_names_field_file_catalogue_and_the_text_that_wins() -> None:
    lines = answer("keystone.token.expiration").splitlines()
    assert lines[:2] == [
        "[token] expiration of keystone 2026.1",
        "  a whole number of at least 0, default 3600, read at start",
    ]
    assert lines[lines.index("Set by the operator, in") :] == [
        "Set by the operator, in",
        "  keystone.conf of Keystone = 3600  (spec.token.expirationSeconds)",
        "      OpenStackControlPlane spec.keystone.token.expirationSeconds",
        "Users' text wins over it, the first of each list most, and configSecrets beside it over the text:",
        "  Keystone spec.customServiceConfig",
        "      OpenStackControlPlane spec.keystone.customServiceConfig",
        "      OpenStackControlPlane spec.customServiceConfig",
    ]


@pytest.mark.parametrize(
    ("release", "lines"),
    [
        (
            "2026.1",
            [
                "Applied without a restart of nova-conductor and nova-compute, which read it again in 2026.1.",
                "Mutable, but SIGHUP restarts the workers of nova-api, nova-metadata and nova-scheduler in 2026.1: "
                "applied by a rolling restart.",
                "Mutable, but SIGHUP is nothing to nova-novncproxy in 2026.1: applied by a rolling restart.",
            ],
        ),
        (
            "2026.2",
            [
                "Mutable, but SIGHUP restarts the workers of nova-api, nova-metadata, nova-scheduler and "
                "nova-conductor in 2026.2: applied by a rolling restart.",
                "Mutable, but SIGHUP is nothing to nova-novncproxy in 2026.2: applied by a rolling restart.",
                "Mutable, but SIGHUP ends nova-compute in 2026.2: applied by a rolling restart.",
            ],
        ),
    ],
)
def test_of_a_mutable_option_it_is_said_which_processes_take_it_without_a_restart(
    release: str, lines: list[str]
) -> None:
    asked = explain.parse("nova.libvirt.live_migration_timeout_action", release)
    assert isinstance(asked, explain.Named)
    text = " ".join(line.strip() for line in explain.option_text(explain.option_report(asked, None)))
    assert " ".join(lines) in text
    asked = explain.parse("nova.libvirt.cpu_mode", release)
    assert isinstance(asked, explain.Named)
    assert explain.option_report(asked, None)["catalogue"]["onSighup"] == {}


@pytest.mark.parametrize("release", releases.available())
def test_every_release_says_what_sighup_does_to_each_configured_service(release: str) -> None:
    sighup = releases.load(release).sighup
    assert set(sighup) == {service.name for service in CONFIGURED}
    # Sentences end in these words before the names of the containers.
    known = {releases.REREADS, "restarts the workers of", "is nothing to", "ends"}
    assert {effect for effects in sighup.values() for effect in effects.values()} <= known


def test_what_a_pod_writes_by_itself_is_known_as_well() -> None:
    (row,) = report("nova.libvirt.cpu_mode")["setBy"]
    assert (row["kind"], row["file"], row["isWrittenInPod"]) == ("NovaCompute", "node.conf", True)
    assert "OpenStackControlPlane spec.nova.cellTemplates.*.computes.*.virtType" in row["above"]


def test_the_rows_of_a_nodes_file_are_what_the_script_writes() -> None:
    written, section = set(), ""
    # The script has line breaks as printf takes them.
    for word in re.findall(
        r"\[[a-zA-Z]+\]$|\b\w+ = (?=%s|none)", compute_config.NODE.replace("\\n", "\n"), re.MULTILINE
    ):
        if word.startswith("["):
            section = word[1:-1]
        else:
            written.add((section, word.removesuffix(" = ")))
    assert written == {(row.section, row.option) for row in compute_config.NODE_ROWS}


def test_a_secret_is_never_shown() -> None:
    found = report("nova.DEFAULT.transport_url")
    assert found["catalogue"]["secret"] is True
    assert {row["value"] for row in found["setBy"]} == {None}


def test_default_may_be_left_out_and_a_former_name_leads_to_the_present_one() -> None:
    assert report("nova.debug")["section"] == "DEFAULT"
    assert report("nova.cpu_mode")["section"] == "libvirt"
    former = next(
        (section, name, option.old[0])
        for section, name, option in explain.catalogues.load("nova", DEFAULT_RELEASE) or ()
        if option.old and option.old[0][0] == section and option.old[0][1] != name
    )
    _, name, (old_section, old_name) = former
    assert report(f"nova.{old_section}.{old_name}")["option"] == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nova.libvirt.cpu_modell", "nova 2026.1 has no option [libvirt] cpu_modell (did you mean cpu_models?)"),
        ("nova.libvrt.cpu_mode", "nova 2026.1 has no section [libvrt] (did you mean libvirt?)"),
        ("nova.DEFAULT.cpu_models",
         "nova 2026.1 has no option [DEFAULT] cpu_models (did you mean [libvirt] cpu_models?)"),
        ("nvoa.libvirt.cpu_mode", "no service nvoa (did you mean nova?)"),
        ("nova", "nova: which option? Write nova.SECTION.OPTION or nova.spec.FIELD"),
        ("nova.spec.cellTemplate", "Nova: spec has no field cellTemplate (did you mean cellTemplates?)"),
        ("novacmpute.spec.driver", "no kind or service novacmpute (did you mean novacompute?)"),
        ("nova.spec.cellTemplates.a.conductr",
         "Nova: spec.cellTemplates.a has no field conductr (did you mean conductor?)"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_one_error_with_the_nearest_one(name: str, message: str) -> None:
    with pytest.raises(errors.OperatorError) as problem:
        answer(name)
    assert str(problem.value) == message


def test_an_option_of_several_sections_is_asked_back() -> None:
    with pytest.raises(errors.OperatorError, match=r"say which: .*nova\.placement\.auth_url"):
        answer("nova.auth_url")


# --- fields ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "path", "field"), FIELDS)
def test_every_field_has_an_answer_with_its_text(kind: Kind, path: origins.Path, field: origins.Field) -> None:
    name = f"{kind.resource.kind.lower()}.spec.{'.'.join(path)}"
    found = report(name)
    assert found["text"] == field.text != ""


def rendered(file: File, spec: Model) -> dict[tuple[str, str], ini.Value]:
    rows = (*file.rows(spec), *file.overwrites())
    return {(row.section, row.option): value for row in rows if (value := row.value(spec, Facts())) is not None}


@pytest.mark.parametrize("file", FILES)
def test_a_changed_field_moves_the_options_that_it_claims_and_no_others(file: File) -> None:
    base = other_values.required(file.kind.spec)
    for path, field in origins.leaves(file.kind.spec):
        pair = other_values.changed(file.kind.spec, base, path, field)
        rows = [one for one in explain.rows_of([Place(file.kind, path)]) if one.file is file]
        claimed = {(one.row.section, one.row.option) for one in rows}
        if pair is None:
            # Of one value there is no other; the row reads it all the same.
            assert len(set(other_values.literals(field.annotation))) == 1, path
            continue
        before, now = (rendered(file, spec) for spec in pair)
        moved = {place for place in before.keys() | now if before.get(place) != now.get(place)}
        if path[0] in CHOOSES:
            # It chooses which rows there are.
            assert claimed <= moved, path
        else:
            assert moved - ROUNDED == claimed - ROUNDED, path


CHOOSES = {"apiDatabaseSecretRef", "driver", "openstackRelease"}
ROUNDED = {("fernet_tokens", "max_active_keys")}
"""A number of whole keys: not every change of a time makes another one."""


@pytest.mark.parametrize(
    "spec",
    [
        {"token": {"expirationSeconds": 7_000_000}},
        {"token": {"allowExpiredWindowSeconds": 7_000_000}},
        {"fernet": {"rotationHours": 1}},
    ],
)
def test_a_rounded_option_moves_with_a_large_change(spec: dict[str, Any]) -> None:
    (file,) = origins.SERVICES["keystone"].files
    (path,) = [(one, name) for one, inner in spec.items() for name in inner]
    claimed = {(one.row.section, one.row.option) for one in explain.rows_of([Place(file.kind, path)])}
    before, now = (rendered(file, file.kind.spec.model_validate(one)) for one in ({}, spec))
    assert {place for place in before if before[place] != now[place]} == claimed
    assert claimed >= ROUNDED


@pytest.mark.parametrize("service", CONFIGURED, ids=lambda service: service.name)
def test_options_that_a_fields_text_names_are_those_that_it_sets(service: Service) -> None:
    for kind in service.kinds:
        for path, field in origins.leaves(kind.spec):
            places = origins.reached(Place(kind, path))
            named = set(re.findall(r"\[(\w+)\] (\w+)", field.text))
            rows = {(one.row.section, one.row.option): one for one in explain.rows_of(places)}
            facts = {
                (one.row.section, one.row.option) for one in origins.settings(service) if one.value is origins.UNKNOWN
            }
            # A process that asks for no rights reads no policy.
            unread = POLICY if path[-1] == overwrites.FIELD and not reads_policy(kind, path) else set()
            assert named - rows.keys() - facts - CHOSEN == unread, f"{kind.resource.kind} {'.'.join(path)}"


POLICY = {("oslo_policy", "policy_file")}


def reads_policy(kind: Kind, path: origins.Path) -> bool:
    return overwrites.POLICY in origins.resolve(kind.spec, path)[-1][0].overwritable  # type: ignore[attr-defined]


CHOSEN = {("api", "local_metadata_per_cell"), ("vnc", "enabled")}
"""Rows that are there or not; consoles are enabled by the address of their proxy, which is there or not."""


class Recorder:
    """What steps that make children need of a scope; it keeps what they apply."""

    def __init__(self, kind: Kind, spec: Model) -> None:
        self.spec, self.kind, self.name, self.namespace = spec, kind.resource.kind, "one", "space"
        self.facts, self.status = Facts(), dict[str, Any]()
        # It stands for the manager too, in whose name others remember things.
        self.uid, self.manager = "uid", self
        self.applied: dict[str, list[dict[str, Any]]] = {}

    async def apply(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        self.applied.setdefault(resource.kind, []).append(body["spec"])
        return {**body, "kind": resource.kind, "status": {"publicUrl": "http://x"}}

    async def delete(self, resource: Any, name: str) -> None:
        """There is none."""

    async def prune(self, resource: Any, keep: Any) -> None:
        """There are none."""


async def made(kind: Kind, spec: Any) -> dict[str, list[dict[str, Any]]]:
    """The specs of the children that a kind's own steps make."""
    if kind is controlplane.SERVICE.kinds[0]:
        return {
            service.kinds[0].resource.kind: [controlplane_resources.child(service, "cloud", spec)["spec"]]
            for service in SERVICES
        }
    scope: Any = Recorder(kind, spec)
    module: Any = nova_controller if kind.resource.kind == "Nova" else cell_controller
    names = ("api", "conductor", "scheduler", "metadata", "cells") if module is nova_controller else (
        "conductor", "metadata", "novncproxy", "computes")  # fmt: skip
    for name in names:
        with contextlib.suppress(errors.StepError):
            await getattr(module, f"ensure_{name}")(scope)
    found: dict[str, list[dict[str, Any]]] = scope.applied
    return found


PARENTS = [kind for kind in origins.KINDS.values() if origins.children(kind)]

BASES: dict[str, dict[str, Any]] = {
    # All parts there are, so that each field has somebody to tell.
    "Nova": {"cellTemplates": {"cell1": {"computes": {"cell1": {}}, "metadata": {"enabled": True}}}},
    "NovaCell": {"computes": {"cell1": {}}, "metadata": {"enabled": True}},
    "OpenStackControlPlane": {"nova": {"cellTemplates": {"cell1": {"computes": {"cell1": {}}}}}},
}


@pytest.mark.parametrize("kind", PARENTS, ids=lambda kind: kind.resource.kind)
async def test_a_changed_field_moves_the_fields_of_children_that_it_is_said_to_be_passed_on_to(kind: Kind) -> None:
    base = other_values.required(kind.spec) | BASES[kind.resource.kind]
    wrong = []
    for path, field in origins.leaves(kind.spec):
        pair = other_values.changed(kind.spec, base, path, field)
        if pair is None:
            continue
        before, now = [await made(kind, spec) for spec in pair]
        for place in origins.below(Place(kind, path)):
            name = place.kind.resource.kind
            if values(before[name], place.path) == values(now[name], place.path):
                wrong.append(f"spec.{'.'.join(path)} does not move {place}")
    assert wrong == []


def values(specs: list[dict[str, Any]], path: origins.Path) -> list[Any]:
    return [list(_values(spec, path)) for spec in specs]


def _values(spec: Any, path: origins.Path) -> Iterator[Any]:
    if not path:
        yield spec
    elif isinstance(spec, dict):
        for key in spec if path[0] == origins.ANY else path[:1]:
            if key in spec:
                yield from _values(spec[key], path[1:])


def test_the_path_of_a_field_leads_down_to_the_object_with_the_pods() -> None:
    found = report("openstackcontrolplane.spec.nova.cellTemplates.cell1.computes.group.virtType")
    assert found["becomes"] == [
        "Nova spec.cellTemplates.cell1.computes.group.virtType",
        "NovaCell spec.computes.group.virtType",
        "NovaCompute spec.virtType",
    ]
    assert [row["option"] for row in found["options"]] == ["[libvirt] virt_type", "[libvirt] cpu_mode"]


def test_a_text_names_the_files_that_it_is_appended_to() -> None:
    assert report("neutron.spec.agent.customServiceConfig")["texts"] == ["neutron-ovn-agent.ini of Neutron"]
    of_parts = [
        f"nova.conf of Nova{part}" for part in ("API", "Compute", "Conductor", "Metadata", "NoVNCProxy", "Scheduler")
    ]
    # Those of the Nova itself are read by its Jobs.
    own = ["cell-<cell>.conf of Nova", "nova.conf of Nova"]
    for field in ("customServiceConfig", "configSecrets"):
        assert sorted(report(f"nova.spec.{field}")["texts"]) == sorted([*own, *of_parts])
    assert report("nova.spec.cellTemplates.cell1.conductor.configSecrets")["texts"] == ["nova.conf of NovaConductor"]


@pytest.mark.parametrize("field", ["customServiceConfig", "configSecrets"])
def test_a_text_for_all_services_goes_through_the_levels_of_each_object(field: str) -> None:
    found = report(f"openstackcontrolplane.spec.{field}")
    assert set(found["becomes"]) == {
        f"{kind.resource.kind} spec.inheritedConfig"
        for kind in origins.KINDS.values()
        if "inheritedConfig" in origins.fields(kind.spec)
    }
    services = {text.split(" of ")[1] for text in found["texts"]}
    assert services >= {"Keystone", "Glance", "Placement", "Neutron", "NovaAPI", "NovaCompute", "NovaConductor"}
    assert "neutron-ovn-agent.ini of Neutron" in found["texts"]


def test_levels_stand_in_the_order_in_which_they_win() -> None:
    texts = {text["field"]: text["levels"] for text in report("nova.DEFAULT.debug")["usersText"]}
    assert texts["NovaCompute spec.customServiceConfig"] == [
        "OpenStackControlPlane spec.nova.cellTemplates.*.computes.*.customServiceConfig",
        "OpenStackControlPlane spec.nova.cellTemplates.*.customServiceConfig",
        "OpenStackControlPlane spec.nova.customServiceConfig",
        "OpenStackControlPlane spec.customServiceConfig",
    ]
    (agent,) = [one for one in report("neutron.DEFAULT.debug")["usersText"] if "agent" in one["field"]]
    assert agent["levels"] == [
        "OpenStackControlPlane spec.neutron.agent.customServiceConfig",
        "OpenStackControlPlane spec.neutron.customServiceConfig",
        "OpenStackControlPlane spec.customServiceConfig",
    ]


def test_a_whole_file_is_known_by_its_option_and_by_its_field() -> None:
    rows = {row["kind"]: row for row in report("nova.oslo_policy.policy_file")["setBy"]}
    assert (rows["NovaAPI"]["file"], rows["NovaAPI"]["origin"]) == (
        "nova.conf", "spec.defaultConfigOverwrite: policy.yaml",
    )  # fmt: skip
    assert {"Nova spec.defaultConfigOverwrite", "OpenStackControlPlane spec.nova.api.defaultConfigOverwrite"} <= set(
        rows["NovaAPI"]["above"]
    )
    assert "NovaNoVNCProxy" not in rows
    files = report("openstackcontrolplane.spec.nova.defaultConfigOverwrite")["files"]
    assert "policy.yaml beside nova.conf of NovaAPI" in files
    assert "policy.yaml beside nova.conf of NovaNoVNCProxy" not in files
    (agent,) = [row for row in report("neutron.DEFAULT.log_config_append")["setBy"] if "agent" in row["file"]]
    assert agent["fields"] == ["Neutron spec.agent.defaultConfigOverwrite", "Neutron spec.defaultConfigOverwrite"]
    found = report("openstackcontrolplane.spec.neutron.agent.defaultConfigOverwrite")
    assert found["files"] == ["logging.conf beside neutron-ovn-agent.ini of Neutron"]
