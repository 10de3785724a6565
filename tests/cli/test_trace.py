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

from openstack_operator import controlplane
from openstack_operator.cli import explain, live, origins, trace
from openstack_operator.controlplane import resources as controlplane_resources
from openstack_operator.kit import config, ini, kinds, levels
from openstack_operator.kit.types import DEFAULT_RELEASE
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Resource
from openstack_operator.services import nova as nova_service
from openstack_operator.services.nova import resources as nova_resources
from openstack_operator.services.nova.cell import resources as cell_resources

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


def test_a_process_that_has_read_its_file_again_is_not_older_than_it() -> None:
    def hop(reread: float) -> trace.Hop:
        seen = inside(TEXT, written=300)
        (found,) = ways("libvirt.cpu_mode", nova(), trace.Inside(seen.files, seen.processes, reread))
        return list(found.all())[-1]

    assert hop(301) == trace.Hop(
        "process 1 (nova-compute)", "custom",
        "started 1970-01-01 00:03:20 UTC, read its files again 1970-01-01 00:05:01 UTC without a restart",
    )  # fmt: skip
    assert "started before" in hop(250).problem, "it has been written once more since"


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


# --- levels ---------------------------------------------------------------------------------------------------------


class Recorder:
    """What writing a file needs of a scope; it keeps what is applied."""

    def __init__(self, spec: Any, secrets: dict[str, str]) -> None:
        self.spec, self.name = spec, "nova-cell1-compute"
        self.facts = {levels.FACT: secrets, levels.SERVICE: "nova"}
        self.applied: dict[str, Object] = {}

    async def apply(self, resource: Resource, body: Object) -> Object:
        self.applied[body["metadata"]["name"]] = body
        return body


def cloud(cell: Object, group: Object, **spec: Any) -> Object:
    templates = {"cell1": {**cell, "computes": {"compute": group}}}
    nova_spec = spec.pop("nova", {})
    return {**spec, "nova": {**nova_spec, "cellTemplates": templates}}


async def levelled(spec: Object, secrets: dict[str, str], *, now: Object | None = None) -> live.Snapshot:
    """The objects that the operator makes of a control plane, down to the files of a group of computes; ``now`` is what
    the control plane says since."""
    model = origins.KINDS["OpenStackControlPlane"].spec.model_validate(spec)
    found = nova()
    objects = dict(found.objects)

    def say(resource: Resource, content: Object) -> Any:
        (one,) = objects[resource]
        objects[resource] = [{**one, "spec": content}]
        return origins.KINDS[resource.kind].spec.model_validate(content)

    (service,) = [one for one in controlplane.EVERYTHING if one is nova_service.SERVICE]
    made = say(kinds.NOVA, controlplane_resources.child(service, "cloud", model)["spec"])
    (before,) = found.objects[kinds.NOVA_CELL]
    given = {key: value for key, value in before["spec"].items() if key not in ("computes", "customServiceConfig")}
    cell = say(kinds.NOVA_CELL, given | nova_resources.cell("nova", made, made.cell_templates["cell1"]))
    group = say(kinds.NOVA_COMPUTE, cell_resources.compute("nova-cell1", cell, "compute", "conductor", ""))
    say(kinds.CONTROL_PLANE, now or spec)
    scope: Any = Recorder(group, secrets)
    rows = (ini.spec("DEFAULT", "manager_shutdown_timeout", "shutdownSeconds"),)
    await config.ensure(scope, "nova", [config.File("nova.conf", rows, levels.custom(scope))])
    (holder,) = objects[built_in.CONFIGMAP]
    objects[built_in.CONFIGMAP] = [{**holder, "data": scope.applied["nova-cell1-compute-config-data"]["data"]}]
    (holder,) = objects[built_in.SECRET]
    objects[built_in.SECRET] = [{**holder, "data": scope.applied["nova-cell1-compute-config-secrets"]["data"]}]
    return live.Snapshot(objects)


def merged(snapshot: live.Snapshot) -> str:
    """What the init container makes of the parts."""
    (one,) = snapshot.configured("nova")
    return "\n".join(part.text or "" for part in one.parts)


def text(value: str) -> str:
    return f"[libvirt]\ncpu_mode = {value}\n"


ALL = cloud(
    {"customServiceConfig": text("three")}, {"customServiceConfig": text("four")},
    customServiceConfig=f"# for all\n{text('one')}", nova={"customServiceConfig": text("two")},
)  # fmt: skip


async def test_a_text_of_each_level_is_followed_and_the_nearest_wins() -> None:
    snapshot = await levelled(ALL, {})
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(merged(snapshot)))
    of_all = "spec.customServiceConfig of OpenStackControlPlane cloud"
    of_nova = "spec.customServiceConfig of Nova nova"
    in_cell = "cellTemplates.cell1.customServiceConfig"
    of_cell = "spec.customServiceConfig of NovaCell nova-cell1"
    assert [(hop.where, hop.value, hop.origin, hop.problem) for hop in found.hops] == [
        ("OpenStackControlPlane space/cloud spec.customServiceConfig, line 3", "one", "", ""),
        ("Nova space/nova spec.inheritedConfig[0], line 2", "one", of_all, ""),
        ("NovaCell space/nova-cell1 spec.inheritedConfig[0], line 2", "one", of_all, ""),
        ("NovaCompute space/nova-cell1-compute spec.inheritedConfig[0], line 2", "one", of_all, ""),
        ("OpenStackControlPlane space/cloud spec.nova.customServiceConfig, line 2", "two", "", ""),
        ("Nova space/nova spec.customServiceConfig, line 2", "two", "", ""),
        ("NovaCell space/nova-cell1 spec.inheritedConfig[1], line 2", "two", of_nova, ""),
        ("NovaCompute space/nova-cell1-compute spec.inheritedConfig[1], line 2", "two", of_nova, ""),
        (f"OpenStackControlPlane space/cloud spec.nova.{in_cell}, line 2", "three", "", ""),
        (f"Nova space/nova spec.{in_cell}, line 2", "three", "", ""),
        ("NovaCell space/nova-cell1 spec.customServiceConfig, line 2", "three", "", ""),
        ("NovaCompute space/nova-cell1-compute spec.inheritedConfig[2], line 2", "three", of_cell, ""),
        (f"OpenStackControlPlane space/cloud spec.nova.{FIELD}, line 2", "four", "", ""),
        (f"Nova space/nova spec.{FIELD}, line 2", "four", "", ""),
        ("NovaCell space/nova-cell1 spec.computes.compute.customServiceConfig, line 2", "four", "", ""),
        ("NovaCompute space/nova-cell1-compute spec.customServiceConfig, line 2", "four", "", ""),
        ("ConfigMap c-config-data, key nova.conf.90-custom, line 3", "one", f"{of_all}; overridden below", ""),
        ("ConfigMap c-config-data, key nova.conf.92-custom, line 3", "two", f"{of_nova}; overridden below", ""),
        ("ConfigMap c-config-data, key nova.conf.94-custom, line 3", "three", f"{of_cell}; overridden below", ""),
        ("ConfigMap c-config-data, key nova.conf.96-custom, line 3", "four", "spec.customServiceConfig", ""),
    ]  # fmt: skip
    (pod,) = found.pods
    last = [hop for hop in pod[1] if hop.where.startswith("/var/lib/config-data")][-1]
    assert (last.value, last.origin) == ("four", "spec.customServiceConfig")
    assert found.agrees


async def test_a_text_that_has_not_been_handed_down_is_marked_where_the_way_ends() -> None:
    snapshot = await levelled(ALL, {}, now={**ALL, "customServiceConfig": text("another")})
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(merged(snapshot)))
    assert [(where, value) for where, value, problem in said([found]) if problem] == [
        ("OpenStackControlPlane space/cloud spec.customServiceConfig, line 2", "another")
    ]


async def test_a_text_that_the_file_has_of_another_level_only_is_marked() -> None:
    spec = cloud({}, {"customServiceConfig": text("one")}, customServiceConfig=text("one"))
    snapshot = await levelled(spec, {})
    (holder,) = snapshot.objects[built_in.CONFIGMAP]
    data = {key: value for key, value in holder["data"].items() if key != "nova.conf.90-custom"}
    snapshot = live.Snapshot({**snapshot.objects, built_in.CONFIGMAP: [{**holder, "data": data}]})
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(merged(snapshot)))
    assert [where for where, _, problem in said([found]) if problem] == [
        "NovaCompute space/nova-cell1-compute spec.inheritedConfig[0], line 2"
    ]


SECRETS = {
    "spec.configSecrets of OpenStackControlPlane cloud[0]: Secret shared, key a.conf": "[glance]\nretries = 7\n",
    "spec.configSecrets of OpenStackControlPlane cloud[1]: Secret shared, key b.conf": text("so-secret"),
    "spec.configSecrets[0]: Secret own, key c.conf": "[libvirt]\nrbd_user = hush-hush\n",
}
IN_SECRETS = cloud(
    {}, {"configSecrets": [{"name": "own", "key": "c.conf"}]},
    customServiceConfig=text("one"),
    configSecrets=[{"name": "shared", "key": "a.conf"}, {"name": "shared", "key": "b.conf"}],
)  # fmt: skip


async def test_a_text_in_a_secret_is_followed_by_the_secrets_name_and_never_shown() -> None:
    snapshot = await levelled(IN_SECRETS, SECRETS)
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(merged(snapshot)))
    origin = "spec.configSecrets of OpenStackControlPlane cloud[1]: Secret shared, key b.conf"
    where = "(Secret shared, key b.conf)"
    assert [(hop.where, hop.value, hop.origin) for hop in found.hops if hop.where.endswith(where)] == [
        (f"OpenStackControlPlane space/cloud spec.configSecrets[1] {where}", live.HIDDEN, ""),
        (f"Nova space/nova spec.inheritedConfig[0].secrets[1] {where}", live.HIDDEN, origin),
        (f"NovaCell space/nova-cell1 spec.inheritedConfig[0].secrets[1] {where}", live.HIDDEN, origin),
        (f"NovaCompute space/nova-cell1-compute spec.inheritedConfig[0].secrets[1] {where}", live.HIDDEN, origin),
    ]
    last = found.hops[-1]
    assert (last.where.rpartition(",")[0], last.value, last.origin) == (
        "Secret c-config-secrets, key nova.conf.91-custom", live.HIDDEN, origin,
    )  # fmt: skip
    assert found.agrees
    asked = explain.parse_option("nova", "libvirt.cpu_mode", DEFAULT_RELEASE)
    (now,) = explain.option_report(asked, snapshot)["now"]
    assert (now["value"], now["origin"], now["fields"][-1]["field"]) == (
        live.HIDDEN, origin, f"spec.configSecrets[1] {where}",
    )  # fmt: skip
    shown = trace._json(asked, [found]) + json.dumps(now)
    (own,) = ways("libvirt.rbd_user", snapshot, inside(merged(snapshot)))
    assert own.hops[-1].origin == "spec.configSecrets[0]: Secret own, key c.conf"
    assert f"spec.nova.{FIELD.replace('customServiceConfig', 'configSecrets')}[0]" in own.hops[0].where
    shown += trace._json(explain.parse_option("nova", "libvirt.rbd_user", DEFAULT_RELEASE), [own])
    assert "so-secret" not in shown
    assert "hush-hush" not in shown


async def test_a_pod_that_still_has_what_was_in_a_secret_does_not_show_it() -> None:
    old = merged(await levelled(IN_SECRETS, SECRETS))
    snapshot = await levelled(cloud({}, {}, customServiceConfig=text("one")), {})
    (found,) = ways("libvirt.cpu_mode", snapshot, inside(old))
    assert not found.agrees
    assert "so-secret" not in trace._json(explain.parse_option("nova", "libvirt.cpu_mode", DEFAULT_RELEASE), [found])


async def test_a_whole_file_is_followed_from_the_field_that_it_stands_in() -> None:
    logging = {"defaultConfigOverwrite": {"logging.conf": "[loggers]\nkeys = root\n"}}
    snapshot = await levelled(cloud({}, {}, nova=logging), {})
    (found,) = ways("DEFAULT.log_config_append", snapshot, inside(merged(snapshot)))
    file = "spec.defaultConfigOverwrite[logging.conf]"
    assert [(hop.where, hop.value) for hop in found.hops[:-1]] == [
        (f"OpenStackControlPlane space/cloud {file.replace('spec.', 'spec.nova.')}", "a file of 2 lines"),
        (f"Nova space/nova {file}", "a file of 2 lines"),
        (f"NovaCell space/nova-cell1 {file}", "a file of 2 lines"),
        (f"NovaCompute space/nova-cell1-compute {file}", "a file of 2 lines"),
    ]
    last = found.hops[-1]
    assert (last.where.rpartition(",")[0], last.value, last.origin) == (
        "ConfigMap c-config-data, key nova.conf.10-generated",
        f"{config.MERGED}/logging.conf",
        "spec.defaultConfigOverwrite: logging.conf",
    )
    assert found.agrees


async def test_of_two_whole_files_of_one_name_the_nearest_is_followed() -> None:
    near, far = ({"defaultConfigOverwrite": {"logging.conf": f"[loggers]\nkeys = {name}\n"}} for name in ("a", "b"))
    snapshot = await levelled(cloud({}, near, nova=far), {})
    (found,) = ways("DEFAULT.log_config_append", snapshot, inside(merged(snapshot)))
    file = "defaultConfigOverwrite[logging.conf]"
    group = "cellTemplates.cell1.computes.compute"
    assert [hop.where for hop in found.hops[:-1]] == [
        f"OpenStackControlPlane space/cloud spec.nova.{group}.{file}",
        f"Nova space/nova spec.{group}.{file}",
        f"NovaCell space/nova-cell1 spec.computes.compute.{file}",
        f"NovaCompute space/nova-cell1-compute spec.{file}",
    ]
