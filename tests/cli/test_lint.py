"""`openstack-operator lint` on files, folders and standard input, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from openstack_operator.cli import lint

OBJECT = """\
apiVersion: openstack.k8s.io/v1alpha1
kind: OpenStackControlPlane
metadata:
  name: cloud
spec:
  nova:
    customServiceConfig: |
      # computes
      [libvirt]
      cpu_modell = Nehalem
    cellTemplates:
      cell1:
        computes:
          compute:
            customServiceConfig: |

              [libvirt]
              virt_type = qemuu
---
apiVersion: v1
kind: List
items:
- apiVersion: openstack.k8s.io/v1alpha1
  kind: Keystone
  spec:
    configPolicy: {unknownOptions: Refuse, knownOptions: [mine/*]}
    customServiceConfig: "[mine]\\na = b\\n[database]\\nconnection = x\\n[other]\\nz=1\\n"
---
kind: ConfigMap
data: {customServiceConfig: "not ours"}
"""


def report(path: Path, **settings: object) -> tuple[list[tuple[int, str, str, str]], int]:
    arguments = {"service": None, "release": None, "strict": False} | settings
    text, code = lint.run([str(path)], output="json", **arguments)  # type: ignore[arg-type]
    return [(one["line"], one["severity"], one["rule"], one["field"]) for one in json.loads(text)], code


def test_text_in_objects_is_found_with_field_and_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cloud.yaml").write_text(OBJECT)
    found, code = report(tmp_path)

    assert found == [
        (10, "warning", "unknown-option", "spec.nova.customServiceConfig"),
        (18, "error", "ill-typed", "spec.nova.cellTemplates.cell1.computes.compute.customServiceConfig"),
        (27, "warning", "owned", "spec.customServiceConfig"),
        (27, "error", "unknown-section", "spec.customServiceConfig"),
    ]
    assert code == 1


@pytest.mark.parametrize("name", ["nova.conf", "nova-compute.conf", "nova.conf.yaml"])
def test_warnings_alone_pass_unless_asked_otherwise(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = "[libvirt]\ncpu_modell = x\n"
    if path.suffix == ".yaml":
        text = "kind: Nova\nspec: {customServiceConfig: '" + text.replace("\n", "\n\n") + "'}\n"
    path.write_text(text)

    assert report(path)[1] == 0
    assert report(path, strict=True)[1] == 1


def test_a_plain_file_is_read_for_the_service_and_release_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "what.conf"
    path.write_text("[ml2]\ntenant_network_types = geneve\n")

    assert report(path, service="neutron", release="2025.1") == ([], 0)
    assert report(path, service="neutron", release="2026.1")[0] == [(2, "warning", "deprecated", "")]


def test_a_file_whose_service_nobody_knows_is_a_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "what.conf").write_text("")

    with pytest.raises(typer.BadParameter, match="which service reads"):
        report(tmp_path / "what.conf")
    with pytest.raises(typer.BadParameter, match="does not exist"):
        report(tmp_path / "nowhere.conf", service="nova")


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("nova.conf", b"[DEFAULT]\nhost = \xe4\n", 2),
        ("nova.conf", b"debug = true\n", 1),
        ("cloud.yaml", b"a: b\nc: [\n", 3),
    ],
)
def test_what_cannot_be_read_at_all_is_an_error_with_its_line(
    tmp_path: Path, name: str, content: bytes, line: int
) -> None:
    (tmp_path / name).write_bytes(content)

    assert report(tmp_path) == ([(line, "error", "unreadable", "")], 1)


def test_standard_input_is_a_file_of_the_named_service_or_objects() -> None:
    text, code = lint.run(["-"], "nova", None, "text", False, stdin="[libvirt]\nvirt_type = qemuu\n")
    assert (text, code) == (
        "-:2: error: [libvirt] virt_type must be one of kvm, lxc, qemu, parallels: 'qemuu' (did you mean qemu?) "
        "[ill-typed]\n",
        1,
    )
    assert lint.run(["-"], None, None, "text", False, stdin=OBJECT)[1] == 1


def test_sarif_names_rule_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "nova.conf"
    path.write_text("[libvirt]\ncpu_modell = x\n")
    (run,) = json.loads(lint.run([str(path)], None, None, "sarif", False)[0])["runs"]

    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("unknown-option", "warning")
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": path.as_posix()},
        "region": {"startLine": 2},
    }
