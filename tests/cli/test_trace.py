"""`openstack-operator trace` and the values that `explain` finds in a cluster, from objects as a cluster has them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli import explain, live, trace
from openstack_operator.kit import config, kinds
from openstack_operator.kit.types import DEFAULT_RELEASE
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Resource

Object = dict[str, Any]
FIELD = "cellTemplates.cell1.computes.compute.customServiceConfig"
TEXT = "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"


def item(resource: Resource, name: str, owner: str = "", **content: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "space", "uid": f"{resource.kind}/{name}"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {"kind": resource.kind, "metadata": metadata, **content}


def nova(*, text: str = TEXT, rendered: str = TEXT, secret: str = "") -> live.Snapshot:
    """A cloud with two cells; the users' text is in the template of one group of computes of `cell1`."""
    group = {"customServiceConfig": text}
    other = {"customServiceConfig": "[libvirt]\ncpu_mode = none\n", "nodeSelector": {"cell": "ten"}}
    cells = {"cell1": {"computes": {"compute": group}}, "cell10": {"computes": {"compute": other}}}
    process = {
        "authUrl": "http://x", "memcachedServers": "x:1", "serviceUserSecretRef": {"name": "u"},
        "messagingSecretRef": {"name": "m"},
    }  # fmt: skip
    cell = {
        **process,
        "cellName": "cell1",
        "cellDatabaseSecretRef": {"name": "d"},
        "computes": cells["cell1"]["computes"],
    }
    labels = {"app": "compute"}
    volume = {
        "name": "config-data",
        "projected": {"sources": [{"configMap": {"name": "c-config-data"}}, {"secret": {"name": "c-config-secrets"}}]},
    }
    template = {"spec": {"containers": [{"name": "nova-compute"}], "volumes": [volume]}}
    data = {
        "nova.conf.10-generated": "[DEFAULT]\n# spec.shutdownSeconds\nmanager_shutdown_timeout = 10\n",
        "nova.conf.90-custom": f"# spec.customServiceConfig\n{rendered}",
    }
    secrets = {"nova.conf.20-secret": f"[DEFAULT]\n# fact messaging.url\ntransport_url = rabbit://u:pass@h/\n{secret}"}
    pod = item(
        built_in.POD, "p", spec={"nodeName": "node1", **template["spec"]},
        status={"containerStatuses": [{"name": "nova-compute", "state": {"running": {}}}]},
    )  # fmt: skip
    pod["metadata"]["labels"] = labels
    compute = {**process, "customServiceConfig": text, "shutdownSeconds": 10}
    return live.Snapshot(
        {
            kinds.CONTROL_PLANE: [item(kinds.CONTROL_PLANE, "cloud", spec={"nova": {"cellTemplates": cells}})],
            kinds.NOVA: [item(kinds.NOVA, "nova", "OpenStackControlPlane/cloud", spec={"cellTemplates": cells})],
            kinds.NOVA_CELL: [item(kinds.NOVA_CELL, "nova-cell1", "Nova/nova", spec=cell)],
            kinds.NOVA_COMPUTE: [item(kinds.NOVA_COMPUTE, "nova-cell1-compute", "NovaCell/nova-cell1", spec=compute)],
            built_in.DAEMONSET: [
                item(
                    built_in.DAEMONSET, "nova-cell1-compute", "NovaCompute/nova-cell1-compute",
                    spec={"selector": {"matchLabels": labels}, "template": template},
                )
            ],
            built_in.CONFIGMAP: [item(built_in.CONFIGMAP, "c-config-data", data=data)],
            built_in.SECRET: [
                item(
                    built_in.SECRET, "c-config-secrets",
                    data={key: base64.b64encode(value.encode()).decode() for key, value in secrets.items()},
                )
            ],
            built_in.POD: [pod],
        }
    )  # fmt: skip


def inside(
    text: str = f"[libvirt]\ncpu_mode = none\n{TEXT}", *, written: float = 100, start: float = 200
) -> trace.Inside:
    """A pod with the file of a node and the merged one, as they are read."""
    return trace.Inside(
        (
            trace.File("/var/lib/node-config/node.conf", written, "[libvirt]\ncpu_mode = none\n"),
            trace.File(f"{config.MERGED}/nova.conf", written, text),
        ),
        (trace.Process(1, "nova-compute", start, ("/var/lib/node-config/node.conf", f"{config.MERGED}/nova.conf")),),
    )


def ways(option: str, snapshot: live.Snapshot, found: trace.Inside | str) -> list[trace.Way]:
    asked = explain.parse_option("nova", option, DEFAULT_RELEASE)
    return [
        trace.way(asked, one, snapshot, [(pod, found) for pod in trace.pods_of(one, snapshot)])
        for one in snapshot.configured("nova")
    ]


def said(found: list[trace.Way]) -> Iterator[tuple[str, str | None, str]]:
    for one in found:
        for hop in one.all():
            yield hop.where, hop.value, hop.problem


def test_every_hop_from_the_control_plane_to_the_process_is_there_in_its_order() -> None:
    (found,) = ways("libvirt.cpu_mode", nova(), inside(TEXT))
    assert found.agrees
    assert [(where, value) for where, value, _ in said([found])] == [
        (f"OpenStackControlPlane space/cloud spec.nova.{FIELD}, line 2", "custom"),
        (f"Nova space/nova spec.{FIELD}, line 2", "custom"),
        ("NovaCell space/nova-cell1 spec.computes.compute.customServiceConfig, line 2", "custom"),
        ("NovaCompute space/nova-cell1-compute spec.customServiceConfig, line 2", "custom"),
        ("ConfigMap c-config-data, key nova.conf.90-custom, line 3", "custom"),
        ("/var/lib/node-config/node.conf, line 2", "none"),
        ("/var/lib/config-data/merged/nova.conf, line 2", "custom"),
        ("process 1 (nova-compute)", "custom"),
    ]  # fmt: skip


def test_text_that_is_handed_down_is_followed_from_the_object_that_says_it() -> None:
    snapshot = nova(text="", rendered="")
    (above,) = snapshot.of_kind(kinds.NOVA)
    above["spec"]["customServiceConfig"] = TEXT
    (config_map,) = snapshot.of_kind(built_in.CONFIGMAP)
    config_map["data"]["nova.conf.90-custom"] = f"# spec.customServiceConfig of Nova nova\n{TEXT}"
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(TEXT))
    assert found.agrees
    assert [(where, value) for where, value, _ in said([found])][:2] == [
        ("Nova space/nova spec.customServiceConfig, line 2", "custom"),
        ("ConfigMap c-config-data, key nova.conf.90-custom, line 3", "custom"),
    ]


def test_a_pod_that_was_not_replaced_is_marked() -> None:
    (found,) = ways("libvirt.cpu_mode", nova(), inside("[libvirt]\ncpu_mode = host-model\n"))
    assert [where for where, _, problem in said([found]) if problem] == [
        "/var/lib/config-data/merged/nova.conf, line 2"
    ]


def test_a_pod_that_still_has_what_the_objects_have_no_longer_is_marked() -> None:
    (found,) = ways("libvirt.cpu_mode", nova(text="", rendered=""), inside("[libvirt]\ncpu_mode = host-model\n"))
    assert not found.agrees
    (found,) = ways("libvirt.cpu_mode", nova(), inside("[DEFAULT]\n"))
    assert [problem for _, _, problem in said([found]) if problem] == [
        "differs from the objects: this pod has not been replaced since"
    ]


def test_text_that_the_operator_has_not_rendered_is_marked() -> None:
    (found,) = ways(
        "libvirt.cpu_mode", nova(rendered="[libvirt]\ncpu_mode = none\n"), inside("[libvirt]\ncpu_mode = none\n")
    )
    assert [where for where, _, problem in said([found]) if problem] == [
        "NovaCompute space/nova-cell1-compute spec.customServiceConfig, line 2"
    ]


def test_a_process_that_is_older_than_its_file_is_marked() -> None:
    (found,) = ways("libvirt.cpu_mode", nova(), inside(TEXT, written=300))
    assert [where for where, _, problem in said([found]) if problem] == ["process 1 (nova-compute)"]


def test_a_pod_that_cannot_be_seen_is_no_agreement() -> None:
    (found,) = ways("libvirt.cpu_mode", nova(), "container nova-compute does not run")
    assert not found.agrees


def test_a_field_is_followed_to_its_row() -> None:
    (found,) = ways("DEFAULT.manager_shutdown_timeout", nova(), inside("[DEFAULT]\nmanager_shutdown_timeout = 10\n"))
    assert [(where, value) for where, value, _ in said([found])][:2] == [
        ("NovaCompute space/nova-cell1-compute spec.shutdownSeconds", "10"),
        ("ConfigMap c-config-data, key nova.conf.10-generated, line 3", "10"),
    ]


@pytest.mark.parametrize(
    ("option", "secret"), [("DEFAULT.transport_url", ""), ("libvirt.rbd_user", "[libvirt]\nrbd_user = pass\n")]
)
def test_what_comes_from_a_secret_is_hidden_in_every_hop_and_every_form(option: str, secret: str) -> None:
    snapshot = nova(secret=secret)
    merged = inside(f"[DEFAULT]\ntransport_url = rabbit://u:pass@h/\n{secret}")
    found = ways(option, snapshot, merged)
    asked = explain.parse_option("nova", option, DEFAULT_RELEASE)
    shown = "\n".join((*trace._text(asked, found), trace._json(asked, found)))
    shown += json.dumps(explain.option_report(asked, snapshot)) + "\n".join(
        explain.option_text(explain.option_report(asked, snapshot))
    )
    assert "pass" not in shown.replace("password", "").replace("user:pass", "").replace("userN:pass", "")
    assert live.HIDDEN in shown


def test_explain_names_the_line_that_gives_an_object_its_value() -> None:
    asked = explain.parse_option("nova", "libvirt.cpu_models", DEFAULT_RELEASE)
    (now,) = explain.option_report(asked, nova())["now"]
    assert (now["object"], now["value"], now["from"], now["key"], now["line"], now["origin"]) == (
        "NovaCompute space/nova-cell1-compute", "Nehalem", "ConfigMap c-config-data", "nova.conf.90-custom", 4,
        "spec.customServiceConfig",
    )  # fmt: skip
    assert [field["object"].split(" ")[0] for field in now["fields"]] == [
        "NovaCompute", "NovaCell", "Nova", "OpenStackControlPlane",
    ]  # fmt: skip


def test_explain_of_a_field_names_objects_files_and_workloads() -> None:
    asked = explain.parse("nova.spec.cellTemplates.cell1.computes.compute.shutdownSeconds", DEFAULT_RELEASE)
    assert not isinstance(asked, explain.Named)
    found = explain.field_report(asked, nova())
    (compute,) = [one for one in found["now"] if one["object"].startswith("NovaCompute")]
    assert compute == {
        "object": "NovaCompute space/nova-cell1-compute",
        "given": ["spec.shutdownSeconds = 10"],
        "files": [
            "ConfigMap c-config-data, key nova.conf.10-generated",
            "Secret c-config-secrets, key nova.conf.20-secret",
            "ConfigMap c-config-data, key nova.conf.90-custom",
        ],
        "workloads": ["DaemonSet nova-cell1-compute"],
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config-file", "{0}/node.conf", "--config-file={0}/nova.conf"),
        ("nova: worker (/bin/x --config-file={0}/nova.conf)",),
        ("nova: master process [/bin/x --config-file {0}/nova.conf]",),
    ],
)
def test_the_script_finds_processes_and_the_files_that_they_were_started_with(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    for name in ("node.conf", "nova.conf"):
        (tmp_path / name).write_text(f"[DEFAULT]\nhost = {name}\n")
    words = [one.format(tmp_path) for one in arguments]
    # Without a program among its arguments it waits for one on its input. A title stands where the arguments were.
    process = subprocess.Popen(
        [*(["python3", "-"] if len(words) > 1 else []), *words], executable=sys.executable, stdin=subprocess.PIPE
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", trace.SCRIPT, str(tmp_path), "nova.conf"],
            check=True, capture_output=True,
        )  # fmt: skip
    finally:
        process.communicate()
    found = trace.msgspec.json.decode(done.stdout, type=trace.Inside)
    (mine,) = [one for one in found.processes if one.pid == process.pid]
    names = [Path(path).name for path in mine.files]
    assert names == (["node.conf", "nova.conf"] if len(words) > 1 else ["nova.conf"])
    texts = {one.path: one.text for one in found.files}
    assert texts[str(tmp_path / "nova.conf")] == "[DEFAULT]\nhost = nova.conf\n"
    assert mine.start + trace.CLOCK_SECONDS >= (tmp_path / "nova.conf").stat().st_mtime
