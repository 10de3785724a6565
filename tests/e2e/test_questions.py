"""What people ask of a cloud, answered by the real one: explain, trace, graph and plan, and the journey of an option
from a control plane to the running nova-compute."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from clouds import CONTROL_PLANE, Cloud
from clusters import condition

from openstack_operator.cli import explain, graph, live, origins, plan, status, trace
from openstack_operator.kit import first_process, releases, rereading
from openstack_operator.kit.service import Service
from openstack_operator.services import SERVICES

CONFIGURED = [service for service in SERVICES if service.files]
SETTLED_SECONDS = 300
DEBUG = "[DEFAULT]\ndebug = true\n"
TEXT = "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"


def followed(cloud: Cloud, service: str, option: str, node: str | None = None) -> tuple[dict[str, Any], int]:
    text, code = trace.run(
        service, option, str(cloud.cluster.kubeconfig), cloud.namespace, cloud.object["spec"]["openstackRelease"], node,
        as_json=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(text)
    return found, code


def test_the_graph_of_a_cloud_that_is_ready_blocks_nowhere(cloud: Cloud) -> None:
    text, code = graph.run(str(cloud.cluster.kubeconfig), cloud.namespace, "json", everything=False)
    content = json.loads(text)
    assert (code, content["ready"], content["blocking"]) == (status.READY, True, [])
    edges = {(one["from"].split(" ")[0], one["to"].split(" ")[0]) for one in content["edges"]}
    assert {("Nova", "Placement"), ("Neutron", "OVNNetwork"), ("NovaCompute", "DaemonSet")} <= edges


@pytest.mark.parametrize("service", CONFIGURED, ids=lambda service: service.name)
def test_every_hop_of_an_option_of_every_service_agrees_down_to_its_processes(cloud: Cloud, service: Service) -> None:
    # The first row of each service that is a secret, and the first that is none.
    for is_secret in (True, False):
        one = next((one for one in origins.settings(service) if one.row.secret is is_secret), None)
        if one is None:
            # Keystone's URL has no password in it.
            assert (service.name, is_secret) == ("keystone", True)
            continue
        found, code = followed(cloud, service.name, f"{one.row.section}.{one.row.option}")
        assert code == trace.AGREED, json.dumps(found, indent=1)
        hops = [hop for way in found["ways"] for pod in way["pods"] for hop in pod["hops"]]
        processes = [hop for hop in hops if hop["where"].startswith("process ")]
        assert processes, one.row
        if is_secret:
            values = {hop["value"] for way in found["ways"] for hop in way["hops"]} | {hop["value"] for hop in hops}
            assert values <= {live.HIDDEN, None}


def test_explain_finds_the_value_of_each_object(cloud: Cloud) -> None:
    release = cloud.object["spec"]["openstackRelease"]
    text = explain.run(
        "keystone.token.expiration", str(cloud.cluster.kubeconfig), cloud.namespace, release, is_offline=False,
        as_json=True,
    )  # fmt: skip
    (now,) = json.loads(text)["now"]
    assert (now["object"], now["value"], now["origin"]) == (
        f"Keystone {cloud.namespace}/keystone",
        str(cloud.object["spec"]["keystone"]["token"]["expirationSeconds"]),
        "spec.token.expirationSeconds",
    )


@pytest.fixture
def compute_text(cloud: Cloud) -> Iterator[None]:
    """Whatever a test writes there is gone afterwards, and the cloud is Ready again."""
    yield
    cloud.set(nova={"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": ""}}}}})
    settled(cloud)


def settled(cloud: Cloud) -> None:
    cloud.until_ready(SETTLED_SECONDS)
    cloud.until_settled()


def versions(cloud: Cloud) -> dict[tuple[str, str], tuple[int, Any]]:
    """Generation, or data where there is none, of everything that the operator made in the cloud's namespace."""
    kinds = "configmaps,secrets,services,deployments.apps,statefulsets.apps,daemonsets.apps,jobs.batch,cronjobs.batch"
    items = cloud.cluster.items(kinds, cloud.namespace, "app.kubernetes.io/managed-by=openstack-operator")
    items += cloud.cluster.ours(cloud.namespace)
    return {
        (item["kind"], item["metadata"]["name"]): (item["metadata"].get("generation", 0), item.get("data"))
        for item in items
    }


def planned(cloud: Cloud, change: Any, file: Path) -> Any:
    """What `plan` says of a change of the control plane's spec, as a program reads it."""
    document = {
        "apiVersion": cloud.object["apiVersion"],
        "kind": cloud.object["kind"],
        "metadata": {"name": cloud.name, "namespace": cloud.namespace},
        "spec": merged(cloud.object["spec"], change),
    }
    file.write_text(yaml.safe_dump(document))
    return json.loads(plan.run(str(file), str(cloud.cluster.kubeconfig), None, as_json=True))


@pytest.mark.usefixtures("compute_text")
def test_an_option_goes_from_the_control_plane_to_the_running_nova_compute_as_planned(
    cloud: Cloud, tmp_path: Path
) -> None:
    """Seed 004 in one step: the plan, the change, and every hop of it; nothing but the computes is restarted.
    Regression r69."""
    change = {"nova": {"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": TEXT}}}}}}
    before, pods = versions(cloud), cloud.pods()
    foretold = planned(cloud, change, tmp_path / "changed.yaml")
    assert versions(cloud) == before, "a plan changes nothing"

    cloud.set(**change)
    settled(cloud)
    after = versions(cloud)
    assert {(one["kind"], one["name"]) for one in foretold["changes"]} == {
        place for place in before.keys() | after.keys() if before.get(place) != after.get(place)
    }
    rolled = {one["name"] for one in foretold["changes"] if one["pods"].startswith("replaces")}
    assert rolled == {"nova-cell1-compute"}
    new = {name for name, state in cloud.pods().items() if pods.get(name) != state}
    assert {name.rsplit("-", 1)[0] for name in new} == {"nova-cell1-compute"}

    found, code = followed(cloud, "nova", "libvirt.cpu_models")
    assert code == trace.AGREED, json.dumps(found, indent=1)
    (way,) = [one for one in found["ways"] if any(hop["value"] for hop in one["hops"])]
    fields = [hop["where"].split(" ")[0] for hop in way["hops"]]
    assert fields == ["OpenStackControlPlane", "Nova", "NovaCell", "NovaCompute", "ConfigMap"]
    assert {hop["value"] for hop in way["hops"]} == {"Nehalem"}
    for pod in way["pods"]:
        assert [hop["value"] for hop in pod["hops"] if hop["where"].startswith("process ")] == ["Nehalem"]

    node = next(name for name in nodes_of(cloud, "nova-cell1-compute"))
    found, _ = followed(cloud, "nova", "libvirt.cpu_models", node)
    assert found["agrees"] is True


def main_process(cloud: Cloud, pod: str) -> str:
    """Which it is, and when it started, in ticks since the node did."""
    script = f'set -eu\n{first_process.SHELL}\necho "$first $since"'
    command = ("exec", "-n", cloud.namespace, pod, "-c", "nova-compute", "--", "sh", "-c", script)
    return cloud.cluster.kubectl(*command).strip()


@pytest.mark.usefixtures("compute_text")
def test_a_mutable_option_is_taken_by_the_running_nova_compute_as_planned(cloud: Cloud, tmp_path: Path) -> None:
    release = releases.load(cloud.object["spec"]["openstackRelease"])
    if not release.rereads("nova", "nova-compute"):
        pytest.skip(f"nova-compute of {release.name} does not read its files again")
    change = {"nova": {"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": DEBUG}}}}}}
    foretold = planned(cloud, change, tmp_path / "changed.yaml")
    said = {one["name"]: one["pods"] for one in foretold["changes"] if one["pods"]}
    selector = "app.kubernetes.io/name=nova,app.kubernetes.io/component=compute"
    computes = [pod["metadata"]["name"] for pod in cloud.cluster.items("pods", cloud.namespace, selector)]
    many = f"{len(computes)} pod{'s' if len(computes) > 1 else ''}"
    assert said == {"nova-cell1-compute": f"applied without a restart in {many}: [DEFAULT] debug"}

    pods, starts = cloud.pods(), {pod: main_process(cloud, pod) for pod in computes}
    cloud.set(**change)

    def is_read(item: Any) -> bool:
        return "read again: [DEFAULT] debug" in condition(item, "ComputeReady")["message"]

    cloud.cluster.until(
        "novacomputes", "nova-cell1-compute", cloud.namespace, is_read, "debug is read", SETTLED_SECONDS
    )
    settled(cloud)
    assert cloud.pods() == pods
    assert {pod: main_process(cloud, pod) for pod in computes} == starts
    for pod in computes:
        log = cloud.cluster.kubectl("logs", "-n", cloud.namespace, pod, "-c", "nova-compute")
        assert "Option DEFAULT.debug changed from [None] to [true]" in log
        assert " DEBUG " in log

    found, code = followed(cloud, "nova", "debug")
    assert code == trace.AGREED, json.dumps(found, indent=1)
    hops = [hop for way in found["ways"] for pod in way["pods"] for hop in pod["hops"] if pod["pod"] in computes]
    processes = [hop for hop in hops if hop["where"].startswith("process ")]
    assert {(hop["value"], "read its files again" in hop["origin"]) for hop in processes} == {("true", True)}
    events = cloud.cluster.items("events", cloud.namespace)
    assert any(one["reason"] == rereading.REREAD and "[DEFAULT] debug" in one["message"] for one in events)


def tried(cloud: Cloud, text: str) -> subprocess.CompletedProcess[str]:
    """`kubectl patch` with the text for the computes, as a dry run."""
    change = {"nova": {"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": text}}}}}}
    patch = ("--type=merge", "--dry-run=server", "-p", json.dumps({"spec": change}))
    command = cloud.cluster.command("patch", CONTROL_PLANE, cloud.name, "-n", cloud.namespace, *patch)
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_kubectl_tells_the_right_name_of_a_misspelt_option(cloud: Cloud) -> None:
    done = tried(cloud, TEXT.replace("cpu_models", "cpu_modell"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Warning: .*cpu_modell .*cpu_models", done.stderr, re.MULTILINE), done.stderr


def test_kubectl_refuses_an_impossible_value_and_tells_what_is_possible(cloud: Cloud) -> None:
    done = tried(cloud, TEXT.replace("custom", "sometimes"))
    assert done.returncode != 0
    assert "cellTemplates.cell1.computes.compute.customServiceConfig: line 2" in done.stderr
    assert "host-passthrough" in done.stderr


def nodes_of(cloud: Cloud, workload: str) -> Iterator[str]:
    for pod in cloud.cluster.items("pods", cloud.namespace):
        if pod["metadata"]["name"].startswith(f"{workload}-"):
            yield pod["spec"]["nodeName"]


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return base | {key: merged(base.get(key), value) for key, value in more.items()}
    return more


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "--offline", "nova.spec.replicas"), "Nova spec.replicas"),
        (("graph",), "Ready: OpenStackControlPlane"),
        (("trace", "keystone", "token.expiration"), "[token] expiration of keystone"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_kubectl_has_the_same_commands(cloud: Cloud, arguments: tuple[str, ...], said: str) -> None:
    tools = str(cloud.cluster.kubectl_program.parent)
    done = subprocess.run(
        ["kubectl", "openstack", *arguments], check=True, capture_output=True, text=True,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(cloud.cluster.kubeconfig)},
    )  # fmt: skip
    assert done.stdout.startswith(said)
