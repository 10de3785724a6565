"""What the command line answers about a running cloud is what happens in it: the way of an option to the process that
uses it (acceptance 1 of configuration), what a change restarts, and what everything waits for.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clouds import CONTROL_PLANE, Cloud
from clusters import Object

COMPUTE = "nova-cell1-compute"
TEXT = "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"


def ask(cloud: Cloud, *arguments: str) -> Any:
    """The answer of `openstack-operator ... --output json`."""
    program = cloud.cluster.kubectl_program.parent / "openstack-operator"
    environment = {**os.environ, "KUBECONFIG": str(cloud.cluster.kubeconfig)}
    command = [str(program), *arguments, "-n", cloud.namespace, "--output", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def with_text(text: str) -> Object:
    """A change of the control plane's spec."""
    return {"nova": {"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": text}}}}}}


def compute_pods(cloud: Cloud) -> list[str]:
    selector = "app.kubernetes.io/name=nova,app.kubernetes.io/component=compute"
    return [item["metadata"]["name"] for item in cloud.cluster.items("pods", cloud.namespace, selector)]


def roll(cloud: Cloud, text: str) -> None:
    """Sets the computes' text and waits until another nova-compute runs."""
    old = compute_pods(cloud)
    cloud.set(**with_text(text))
    for name in old:
        cloud.cluster.until_gone("pods", name, cloud.namespace)
    cloud.until_settled()


@pytest.fixture
def restored(cloud: Cloud) -> Iterator[Cloud]:
    """The cloud, whose computes have no text of users' afterwards."""
    yield cloud
    roll(cloud, "")


def test_a_line_of_text_is_followed_to_the_process_and_restarts_what_was_planned(
    restored: Cloud, tmp_path: Path
) -> None:
    cloud, before = restored, restored.pods()
    changed = cloud.cluster.get(CONTROL_PLANE, cloud.name, cloud.namespace)
    changed["spec"]["nova"]["cellTemplates"]["cell1"]["computes"]["compute"]["customServiceConfig"] = TEXT
    file = tmp_path / "cloud.yaml"
    file.write_text(json.dumps(changed))
    planned = ask(cloud, "plan", "-f", str(file))
    assert [(one["kind"], one["name"]) for one in planned["changes"] if one["pods"]] == [("DaemonSet", COMPUTE)]
    assert cloud.pods() == before, "a plan changes nothing"

    roll(cloud, TEXT)
    after = cloud.pods()
    gone = {name for name in before if name not in after}
    assert [name.rpartition("-")[0] for name in gone] == [COMPUTE]
    assert {name: after[name] for name in before if name not in gone} == {
        name: before[name] for name in before if name not in gone
    }

    followed = ask(cloud, "trace", "nova", "libvirt.cpu_mode")
    assert followed["agrees"]
    (way,) = [way for way in followed["ways"] if way["object"].startswith("NovaCompute ")]
    (pod,) = way["pods"]
    hops = [hop["where"] for hop in way["hops"]]
    kinds = ["OpenStackControlPlane", "Nova", "NovaCell", "NovaCompute", "ConfigMap"]
    assert [hop.split()[0] for hop in hops] == kinds
    assert {hop["value"] for hop in way["hops"]} == {"custom"}
    assert pod["hops"][-1]["where"].startswith("process ")
    assert pod["hops"][-1]["value"] == "custom"

    told = ask(cloud, "explain", "nova.libvirt.cpu_mode")
    assert "customServiceConfig" in str(told)


def tried(cloud: Cloud, text: str) -> subprocess.CompletedProcess[str]:
    """`kubectl patch` with the text, as a dry run."""
    patch = ("--type=merge", "--dry-run=server", "-p", json.dumps({"spec": with_text(text)}))
    command = cloud.cluster.command("patch", CONTROL_PLANE, cloud.name, "-n", cloud.namespace, *patch)
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_a_misspelt_option_is_answered_with_the_right_name(cloud: Cloud) -> None:
    done = tried(cloud, TEXT.replace("cpu_models", "cpu_modell"))
    assert done.returncode == 0
    assert "Warning: " in done.stderr
    assert "cpu_modell" in done.stderr
    assert "cpu_models" in done.stderr


def test_an_impossible_value_is_refused_with_what_is_possible(cloud: Cloud) -> None:
    done = tried(cloud, TEXT.replace("custom", "sometimes"))
    assert done.returncode != 0
    assert "cellTemplates.cell1.computes.compute.customServiceConfig: line 2" in done.stderr
    assert "host-passthrough" in done.stderr


def test_a_cloud_that_is_ready_waits_for_nothing(cloud: Cloud) -> None:
    found = ask(cloud, "graph")
    assert found["ready"]
    assert {node["kind"] for node in found["nodes"]} > {"OpenStackControlPlane", "NovaCompute", "DaemonSet"}
