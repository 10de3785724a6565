"""`openstack-operator graph` and `status --watch`: edges, states, and the way to what everything waits for."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

import watching
from openstack_operator import controlplane
from openstack_operator.cli import graph, status, tree
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds
from openstack_operator.runtime import errors, informer
from openstack_operator.runtime import kinds as built_in
from readiness import set_ready

NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
OWN = [kind.resource for service in controlplane.EVERYTHING for kind in service.kinds]


@pytest.fixture
def recorded() -> graph.Graph:
    """A real cloud whose image of MariaDB does not exist, as the API server gave it."""
    content = json.loads((Path(__file__).parent / "recorded" / "image-missing.json").read_text())
    return graph.build(OWN, {one: content.get(one.full_name, []) for one in (*OWN, *tree.BUILT_IN)})


def test_the_way_leads_from_the_control_plane_to_the_lowest_object_that_blocks(recorded: graph.Graph) -> None:
    (way,) = recorded.paths
    assert way == (
        "OpenStackControlPlane openstack/openstack",
        "MariaDB openstack/mariadb",
        "StatefulSet openstack/mariadb",
        "Pod openstack/mariadb-0",
    )


def test_services_need_what_they_say_that_they_need_and_own_what_they_made(recorded: graph.Graph) -> None:
    edges = {(one.source, one.target, one.relation) for one in recorded.edges}
    assert ("Keystone openstack/keystone", "MariaDB openstack/mariadb", "needs") in edges
    assert ("Keystone openstack/keystone", "MariaDB openstack/mariadb", "waits") in edges
    assert ("OpenStackControlPlane openstack/openstack", "Keystone openstack/keystone", "owns") in edges
    assert not any(source == target for source, target, _ in edges)


def test_text_begins_with_the_answer_and_the_way_to_it(recorded: graph.Graph) -> None:
    lines = graph._text(recorded, NOW).splitlines()
    assert lines[0].startswith("Waits for Pod openstack/mariadb-0: container merge-config: ImagePullBackOff")
    assert [re.sub(r":.*", "", line) for line in lines[1:5]] == [
        "   OpenStackControlPlane openstack/openstack",
        "      -> MariaDB openstack/mariadb",
        "         -> StatefulSet openstack/mariadb",
        "            -> Pod openstack/mariadb-0",
    ]
    assert any("needs MariaDB mariadb" in line for line in lines)


def test_dot_has_every_node_and_edge_once(recorded: graph.Graph) -> None:
    text = graph._dot(recorded, NOW)
    assert text.count(" [label=") == len(recorded.nodes)
    assert text.count(" -> ") == len(recorded.edges)
    assert text.count("{") == text.count("}") == 1


def test_svg_is_a_picture_with_a_box_for_every_node(recorded: graph.Graph) -> None:
    root = xml.etree.ElementTree.fromstring(graph._svg(recorded, NOW))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    titles = [found.text or "" for found in root.iter(f"{space}title")]
    assert [title.partition(": ")[0] for title in titles] == list(_in_tree_order(recorded))
    assert len(list(root.iter(f"{space}path"))) == len(recorded.edges)


def _in_tree_order(content: graph.Graph) -> Any:
    for top in content.picture.tops:
        yield from (node.label for node in top.walk() if node.label in content.nodes)


def test_json_has_nodes_edges_and_the_ways(recorded: graph.Graph) -> None:
    content = json.loads(graph._json(recorded, NOW))
    assert content["ready"] is False
    assert {node["id"] for node in content["nodes"]} == set(recorded.nodes)
    assert content["blocking"] == [list(recorded.paths[0])]
    assert {edge["relation"] for edge in content["edges"]} == {"owns", "needs", "waits"}


# --- with a real API server -----------------------------------------------------------------------------------------


def test_no_operator_is_an_error(own_apiserver: ControlPlane) -> None:
    with pytest.raises(errors.OperatorError, match="the operator is not installed"):
        graph.run(str(own_apiserver.kubeconfig), None, "text", everything=False)


async def test_a_watched_cloud_is_drawn_anew_when_something_changes(own_apiserver: ControlPlane) -> None:
    for service in controlplane.EVERYTHING:
        for kind in service.kinds:
            own_apiserver.apply(built_in.crd(kind))
    own_apiserver.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    head = {"apiVersion": kinds.CONTROL_PLANE.api_version, "kind": kinds.CONTROL_PLANE.kind}
    own_apiserver.apply({**head, "metadata": {"name": "cloud", "namespace": "default"}})
    drawn: list[tree.Picture] = []

    def draw(picture: tree.Picture, broken: informer.Break | None) -> None:
        assert broken is None
        drawn.append(picture)

    # No tick: what is drawn is drawn because of a change.
    watched = asyncio.ensure_future(status.watch(str(own_apiserver.kubeconfig), None, draw, seconds=3600))
    try:
        await watching.eventually(lambda: drawn and drawn[-1].roots, "the control plane is drawn")
        assert not drawn[-1].is_ready
        set_ready(own_apiserver, "cloud")
        await watching.eventually(lambda: drawn[-1].is_ready, "it is drawn as Ready")
    finally:
        watched.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watched


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Ready: OpenStackControlPlane a/b, for 5 min", "Ready: OpenStackControlPlane a/b"),
        ("Waits for MariaDB a/b: starting (for 5 min)", "Waits for MariaDB a/b: starting"),
    ],
)
def test_a_line_for_a_log_says_nothing_that_changes_with_time_alone(line: str, said: str) -> None:
    assert status.without_age(line) == said
