"""Whole files of users: which names there are, and one verdict in admission, the condition and lint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.cli import lint
from openstack_operator.controlplane.types import KIND as CLOUD
from openstack_operator.kit import overwrites
from openstack_operator.runtime.admission import Subject
from openstack_operator.runtime.kinds import Kind
from openstack_operator.services import SERVICES

KINDS = {kind.resource.kind: (service, kind) for service in SERVICES for kind in service.kinds}
LOGGING = "[loggers]\nkeys = root\n[handlers]\nkeys =\n[formatters]\nkeys =\n[logger_root]\nhandlers =\n"
PROCESS = {
    "authUrl": "http://keystone",
    "memcachedServers": "m:11211",
    "serviceUserSecretRef": {"name": "user"},
    "messagingSecretRef": {"name": "bus"},
    "cellDatabaseSecretRef": {"name": "db"},
}


class NoObjects:
    def items(self, resource: Any) -> list[Any]:
        return []


def admitted(kind: Kind, spec: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Errors and warnings about files."""
    subject = Subject(kind.resource, "one", "here", kind.spec.model_validate(spec))
    verdict = kind.admit(subject, None, NoObjects())  # type: ignore[misc]
    return [str(one) for one in verdict.errors], [one for one in verdict.warnings if overwrites.FIELD in one]


def linted(kind: str, spec: dict[str, Any], directory: Path, text: str = "") -> list[dict[str, Any]]:
    path = directory / "one.yaml"
    path.write_text(text or json.dumps({"kind": kind, "spec": spec}))
    remarks: list[dict[str, Any]] = json.loads(lint.run([str(path)], None, None, "json", False)[0])
    return remarks


ALLOWED = "is none of the files that can be overwritten here: "
SAID = [
    ("Keystone", {}, "policy.json", "{}", "error", f"{ALLOWED}logging.conf, policy.yaml"),
    ("Keystone", {}, "../../etc/passwd", "x", "error", f"{ALLOWED}logging.conf, policy.yaml"),
    ("Keystone", {}, "api-paste.ini", "[app:x]\n", "error", f"{ALLOWED}logging.conf, policy.yaml"),
    ("Glance", {}, "api-paste.ini", "", "error", f"{ALLOWED}glance-api-paste.ini, logging.conf, policy.yaml"),
    ("NovaNoVNCProxy", PROCESS, "policy.yaml", "", "error", f"{ALLOWED}logging.conf"),
    ("Nova", {}, "policy.yaml", "a: [\n", "error", "line 2: is not YAML: did not find expected node content"),
    ("Nova", {}, "policy.yaml", "context_is_admin: x\n", "error", "line 1: context_is_admin: 'x' is no check such as"),
    (
        "Nova",
        {},
        "policy.yaml",
        "context_is_admni: role:x\n",
        "warning",
        "line 1: context_is_admni is no rule of nova 2026.1",
    ),
    ("Nova", {}, "policy.yaml", "context_is_admin: role:x\n", "", ""),
    ("Neutron", {}, "api-paste.ini", "[app:x]\nuse = y\n", "", ""),
    ("Neutron", {}, "api-paste.ini", "[app:x]\nnothing\n", "error", "line 2: is no [section], option or comment"),
    ("Neutron", {}, "api-paste.ini", "use = y\n", "error", "line 1: is no [section], option or comment"),
    ("Neutron", {}, "api-paste.ini", "[a]\n[b]\n[a]\n", "error", "line 3: [a] stands there already"),
    ("Neutron", {}, "api-paste.ini", "[a]\nb=1\nb=2\n", "error", "line 3: [a] b stands there already"),
    ("Placement", {}, "logging.conf", LOGGING, "", ""),
    ("Placement", {}, "logging.conf", "[loggers]\n[handlers]\n", "error", "has no section [formatters], without which"),
]


@pytest.mark.parametrize(("kind", "rest", "name", "text", "severity", "message"), SAID)
def test_admission_the_condition_and_lint_say_the_same(
    kind: str, rest: dict[str, Any], name: str, text: str, severity: str, message: str, tmp_path: Path
) -> None:
    """Case 24."""
    spec = {**rest, "defaultConfigOverwrite": {name: text}}
    service, found_kind = KINDS[kind]
    found = service.findings(found_kind, found_kind.spec.model_validate(spec))
    said = [str(one) for one in found]
    errors, warnings = admitted(found_kind, spec)
    remarks = linted(kind, spec, tmp_path)

    assert [one.severity for one in found] == [one["severity"] for one in remarks] == ([severity] if severity else [])
    assert errors + warnings == said
    assert [(one["field"], one["message"]) for one in remarks] == [(one.field, one.message) for one in found]
    for one in said:
        assert one.startswith(f"spec.defaultConfigOverwrite[{name}]: {message}")


def test_every_place_of_a_cloud_has_files_of_its_own(tmp_path: Path) -> None:
    bad = {"defaultConfigOverwrite": {"x": ""}}
    computes = {"computes": {"gpu": bad}}
    spec = {
        "keystone": bad,
        "neutron": {"agent": bad},
        "nova": {**bad, "api": bad, "cellTemplates": {"cell1": {**bad, "conductor": bad, **computes}}},
    }
    errors, _ = admitted(CLOUD, spec)

    assert sorted(errors) == sorted(
        f"{one['field']}: {one['message']}" for one in linted("OpenStackControlPlane", spec, tmp_path)
    )
    assert [one.split("[x]: ") for one in errors] == [
        ["spec.keystone.defaultConfigOverwrite", f"{ALLOWED}logging.conf, policy.yaml"],
        ["spec.neutron.agent.defaultConfigOverwrite", f"{ALLOWED}logging.conf"],
        ["spec.nova.defaultConfigOverwrite", f"{ALLOWED}api-paste.ini, logging.conf, policy.yaml"],
        ["spec.nova.api.defaultConfigOverwrite", f"{ALLOWED}api-paste.ini, logging.conf, policy.yaml"],
        [
            "spec.nova.cellTemplates.cell1.defaultConfigOverwrite",
            f"{ALLOWED}api-paste.ini, logging.conf, policy.yaml",
        ],
        ["spec.nova.cellTemplates.cell1.conductor.defaultConfigOverwrite", f"{ALLOWED}logging.conf, policy.yaml"],
        ["spec.nova.cellTemplates.cell1.computes.gpu.defaultConfigOverwrite", f"{ALLOWED}logging.conf, policy.yaml"],
    ]


def test_lint_names_the_line_of_the_file_and_reads_a_policy_alone(tmp_path: Path) -> None:
    rules = "policy.yaml: |\n      # mine\n      context_is_admin: x\n"
    text = f"kind: Nova\nspec:\n  defaultConfigOverwrite:\n    {rules}    y: z\n"
    assert [(one["line"], one["rule"]) for one in linted("", {}, tmp_path, text)] == [
        (6, "unreadable"),
        (7, "file-not-allowed"),
    ]
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump({"context_is_admin": "role:x", "context_is_admni": "role:x"}))
    remarks = json.loads(lint.run([str(path)], "nova", None, "json", False)[0])
    assert [(one["line"], one["rule"]) for one in remarks] == [(2, "unknown-rule")]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("policy.yaml", "a: role:x\nb: role:y\n", "# why\nb:   'role:y'\n\na: role:x\n"),
        ("api-paste.ini", "[a]\nx = 1\ny = 2\n[b]\n", "# why\n[b]\n\n[a]\ny=2\nx: 1\n"),
        ("logging.conf", LOGGING, LOGGING.replace(" = ", "=") + "; end\n"),
    ],
)
def test_the_same_said_otherwise_is_the_same(name: str, one: str, other: str) -> None:
    assert overwrites.content(name, one) == overwrites.content(name, other)
    assert overwrites.content(name, one) != overwrites.content(name, one.replace("x", "z").replace("root", "z"))
