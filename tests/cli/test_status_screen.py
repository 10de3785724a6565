"""What `status` and `status --watch` draw on a terminal: nothing is wider than it, and nothing that matters is cut."""

from __future__ import annotations

import copy
import datetime
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from openstack_operator import controlplane
from openstack_operator.cli import status, tree
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import labels
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Resource
from terminal import Terminal

Object = dict[str, Any]

OWN = [kind.resource for service in controlplane.EVERYTHING for kind in service.kinds]
NOW = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC)
RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, list[Object]]:
    """Objects of a real cloud, as the API server gave them, by the full name of their kind."""
    content: dict[str, list[Object]] = json.loads((RECORDED / f"{name}.json").read_text())
    return content


def picture(name: str) -> tree.Picture:
    content = recorded(name)
    return tree.build(OWN, {one: content.get(one.full_name, []) for one in (*OWN, *tree.BUILT_IN)})


def node(kind: str, name: str, state: tree.State, *children: tree.Node, message: str = "") -> tree.Node:
    summary = "Ready" if state == "ready" else "CreateContainerConfigError"
    return tree.Node(kind, "openstack", name, state, summary, message, "2026-11-28T00:00:00Z", children)


def screen(found: tree.Picture, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    return [line.rstrip() for line in status.screen(console, found, NOW, None, everything=False)]


def squeezed(text: str) -> str:
    """Without what wrapping changes: white space, and the lines of the tree."""
    return "".join(letter for letter in text if letter not in " \n│├└─")


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
@pytest.mark.parametrize("width", [132, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal_and_every_message_is_whole(name: str, width: int) -> None:
    found = picture(name)
    lines = screen(found, width, 500)
    assert max(map(len, lines)) <= width
    text = squeezed("".join(lines))
    for blocking in status.blockers(found):
        assert squeezed(status.shortened(blocking.message)) in text
    for root in found.roots:
        for row in status.rows_of(root, everything=False, is_ascii=False):
            assert squeezed(row.node.name) in text
            assert squeezed(row.node.summary) in text


def test_a_name_that_does_not_fit_beside_its_state_has_a_line_of_its_own() -> None:
    name = "nova-cell1-compute-with-a-long-name-of-its-own-7d9c8b5f66-x2x4z"
    root = node(
        "OpenStackControlPlane", "cloud", "waiting",
        node("Nova", "nova", "waiting", node("Pod", name, "waiting", message="no such Secret")),
    )  # fmt: skip
    lines = screen(tree.Picture((root,)), 80, 50)
    assert lines[-3:] == [
        "└─ … Nova nova                                CreateContainerConfigError    24 h",
        f"   └─ … Pod {name}",
        "                                              CreateContainerConfigError    24 h",
    ]


def test_on_a_low_terminal_what_is_well_gives_way_and_what_is_not_stays() -> None:
    well = [node("Keystone", f"keystone{number}", "ready") for number in range(40)]
    root = node("OpenStackControlPlane", "cloud", "waiting", *well, node("Nova", "nova", "waiting", message="x"))
    lines = screen(tree.Picture((root,)), 80, 24)
    assert len(lines) <= 23
    assert any("Nova nova" in line for line in lines)
    assert lines[-1] == "40 more objects are well"


def test_a_terminal_that_is_too_low_for_what_is_wrong_says_so() -> None:
    bad = [node("Keystone", f"keystone{number}", "waiting") for number in range(40)]
    root = node("OpenStackControlPlane", "cloud", "waiting", *bad)
    lines = screen(tree.Picture((root,)), 80, 24)
    assert len(lines) == 23
    assert lines[-1] == "… 21 more lines: this window is low"


# --- with a real API server and a real terminal ---------------------------------------------------------------------


def load(server: ControlPlane, name: str) -> None:
    """Makes the recorded objects, with their status, in an API server that nobody else works with."""
    for service in controlplane.EVERYTHING:
        for kind in service.kinds:
            server.apply(built_in.crd(kind))
    server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openstack"}})
    content = recorded(name)
    uids: dict[str, str] = {}
    for resource in (*OWN, *tree.BUILT_IN):
        for item in content.get(resource.full_name, []):
            made = make(server, resource, item, uids)
            uids[item["metadata"]["uid"]] = made["metadata"]["uid"]


def completed(resource: Resource, spec: Object) -> Object:
    """With what the API server insists on and nobody shows."""
    pod: Object = {"containers": [{"name": "main", "image": "x"}]}
    if resource == built_in.POD:
        return {**pod, **spec}
    if resource in tree.WORKLOADS:
        whole: Object = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "x"}
        return {**whole, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}, **spec}
    return spec


def make(server: ControlPlane, resource: Resource, item: Object, uids: dict[str, str]) -> Object:
    metadata = item["metadata"]
    owners = [
        {**one, "uid": uids[one["uid"]], "apiVersion": one.get("apiVersion", "v1"), "kind": one.get("kind", "X"),
            "name": one.get("name", "x")}
        for one in metadata.get("ownerReferences", [])
    ]  # fmt: skip
    tags = metadata.get("labels", {}) | {labels.MANAGED_BY: labels.OPERATOR}
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata["name"], "namespace": "openstack", "labels": tags, "ownerReferences": owners},
        "spec": completed(resource, item["spec"]),
    }
    made: Object = server.request("POST", resource.path("openstack"), body)
    # What the server decides by itself.
    status_of = {key: value for key, value in copy.deepcopy(item["status"]).items() if key != "qosClass"}
    for condition in status_of.get("conditions", []):
        if "observedGeneration" in condition:
            condition["observedGeneration"] = made["metadata"]["generation"]
    if "observedGeneration" in status_of:
        status_of["observedGeneration"] = made["metadata"]["generation"]
    path = resource.path("openstack", metadata["name"], "status")
    written: Object = server.request("PUT", path, {**made, "status": status_of})
    return written


def test_a_watched_cloud_fits_a_terminal_of_eighty_columns_and_follows_what_happens(
    own_apiserver: ControlPlane,
) -> None:
    load(own_apiserver, "image-missing")
    command = ["-m", "openstack_operator", "status", "--watch", f"--kubeconfig={own_apiserver.kubeconfig}"]
    with Terminal(command, 80, 24) as terminal:
        lines = terminal.until(lambda found: any("Placement placement" in line for line in found))
        assert lines[0].startswith("Waits for Pod openstack/mariadb-0: container merge-config: ImagePullBackOff:")
        assert squeezed('failed to pull and unpack image "localhost/nowhere/mariadb-server:1"') in squeezed(
            "".join(lines)
        )
        assert any("StatefulSet mariadb" in line and "0/1" in line for line in lines)
        own_apiserver.kubectl("delete", "openstackcontrolplanes", "openstack", "-n", "openstack")
        own_apiserver.kubectl("delete", "pods,statefulsets", "--all", "-n", "openstack", "--wait=false")
        terminal.until(lambda found: not any("OpenStackControlPlane" in line for line in found))
        assert terminal.screen.overflows == []
        terminal.interrupt()
        while terminal.read():
            pass
        assert terminal.process.wait(20) == 130


def test_a_watched_cloud_whose_api_server_is_away_says_so_and_goes_on_when_it_is_back(
    own_apiserver: ControlPlane,
) -> None:
    load(own_apiserver, "image-missing")
    command = ["-m", "openstack_operator", "status", "--watch", f"--kubeconfig={own_apiserver.kubeconfig}"]
    with Terminal(command, 80, 24) as terminal:
        terminal.until(lambda found: any("Placement placement" in line for line in found))
        assert not any("No answer" in line for line in terminal.screen.text)
        own_apiserver.kill("kube-apiserver")
        away = (
            r"No answer from the API server \(for \d+ s\)\nWhat stands below is from before\.\n\n"
            r"Waits for Pod openstack/mariadb-0: container merge-config: ImagePullBackOff:.*Placement placement"
        )
        # A picture may be read while it is drawn.
        terminal.until(lambda found: re.match(away, "\n".join(found), re.DOTALL) is not None)
        own_apiserver.start()
        terminal.until(
            lambda found: (
                found[0].startswith("Waits for Pod openstack/mariadb-0")
                and not any("No answer" in line for line in found)
                and any("Placement placement" in line for line in found)
            )
        )
        assert terminal.screen.overflows == []


def test_in_a_log_the_lack_of_an_answer_is_one_line(own_apiserver: ControlPlane) -> None:
    load(own_apiserver, "image-missing")
    command = [sys.executable, "-u", "-m", "openstack_operator", "status", "--watch"]
    with subprocess.Popen([*command, f"--kubeconfig={own_apiserver.kubeconfig}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline().decode().split(" ", 1)[1]
            assert first.startswith("Waits for Pod openstack/mariadb-0: container merge-config: ImagePullBackOff:")
            own_apiserver.kill("kube-apiserver")
            assert process.stdout.readline().decode().split(" ", 1)[1] == "No answer from the API server\n"
            own_apiserver.start()
            # One that starts says in between that it does.
            assert first in (line.decode().split(" ", 1)[1] for line in process.stdout)
        finally:
            process.kill()
