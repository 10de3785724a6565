"""`openstack-operator graph`: which object depends on which, how each is, and the way to what everything waits for.

The objects are those of `status`. An edge says that one *owns* another (ownerReferences), *needs* it (a service's
``needs``, and the references in its spec), or *waits* for it now (what its conditions name). Pure but for ``run``.
"""

from __future__ import annotations

import asyncio
import datetime
import html
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openstack_operator.cli import status, tree
from openstack_operator.runtime import errors
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.kinds import Resource

Output = Literal["text", "dot", "svg", "json"]
Relation = Literal["owns", "needs", "waits"]

_COLOURS: dict[tree.State, str] = {
    "ready": "#2e7d32",
    "waiting": "#b26a00",
    "stalled": "#c62828",
    "deleting": "#6a1b9a",
}


@dataclass(frozen=True)
class Edge:
    """From an object to one that it depends on, by their labels."""

    source: str
    target: str
    relation: Relation


@dataclass(frozen=True)
class Graph:
    """The objects in the order of the tree, their edges, and for each root that is not ready the way down."""

    picture: tree.Picture
    nodes: dict[str, tree.Node]
    edges: tuple[Edge, ...]
    paths: tuple[tuple[str, ...], ...]

    def on_path(self, edge: Edge) -> bool:
        return any((edge.source, edge.target) in itertools.pairwise(way) for way in self.paths)


def run(kubeconfig: str | None, namespace: str | None, output: Output, *, everything: bool) -> tuple[str, int]:
    """The answer and the exit code of `status`. Raises ``errors.OperatorError`` where it cannot be found out."""
    objects = asyncio.run(status.collect(kubeconfig, namespace))
    if objects is None:
        raise errors.OperatorError("the operator is not installed: this cluster knows no OpenStackControlPlane")
    graph = build(status.own_resources(), objects, everything=everything)
    now = datetime.datetime.now(datetime.UTC)
    text = {"text": _text, "dot": _dot, "svg": _svg, "json": _json}[output](graph, now)
    return text, status.READY if graph.picture.is_ready else status.NOT_READY


# --- building -------------------------------------------------------------------------------------------------------


def build(own: Sequence[Resource], objects: tree.Objects, *, everything: bool = False) -> Graph:
    """Puts the graph together. Pods and Jobs that are well are left out unless ``everything``."""
    picture = tree.build(own, objects)
    nodes: dict[str, tree.Node] = {}
    edges: dict[Edge, None] = {}
    for top in picture.tops:
        for node in top.walk():
            if everything or not status.is_dull(node):
                nodes[node.label] = node
    for node in nodes.values():
        edges |= {Edge(node.label, child.label, "owns"): None for child in node.children if child.label in nodes}
    needs = _needs()
    for resource in own:
        for item in objects.get(resource, ()):
            label = _label(resource, item)
            for target in _needed(resource, item, objects, needs):
                if target in nodes and label in nodes:
                    edges[Edge(label, target, "needs")] = None
    for node in nodes.values():
        for other in tree.waits_for(picture, node):
            if other.label in nodes:
                edges[Edge(node.label, other.label, "waits")] = None
    paths = []
    for root in picture.roots:
        if not root.is_ready:
            way = tree.path(picture, root, tree.blocking(picture, root))
            paths.append(tuple(node.label for node in way))
    return Graph(picture, nodes, tuple(edges), tuple(paths))


def _needs() -> dict[Resource, tuple[Resource, ...]]:
    """What each service's own kind needs, from the services' declarations."""
    from openstack_operator import controlplane

    return {service.kinds[0].resource: service.needs for service in controlplane.EVERYTHING}


def _needed(
    resource: Resource, item: Object, objects: tree.Objects, needs: Mapping[Resource, tuple[Resource, ...]]
) -> Iterator[str]:
    """Labels of the objects that one needs: of the kinds that its service needs, those that its spec names, or the
    only one there is; of other kinds, those that it refers to by kind and name (``conductorRef``)."""
    namespace = item["metadata"]["namespace"]
    named = {
        field.removesuffix("Ref").lower(): value["name"]
        for field, value in item.get("spec", {}).items()
        if field.endswith("Ref") and isinstance(value, dict) and "name" in value
    }
    for need in needs.get(resource, ()):
        there = {
            one["metadata"]["name"]: one for one in objects.get(need, ()) if one["metadata"]["namespace"] == namespace
        }
        for name in set(named.values()) & there.keys() or (there if len(there) == 1 else ()):
            yield _label(need, there[name])
    if resource in needs:
        return
    for other, items in objects.items():
        for field, name in named.items():
            if other.kind.lower().endswith(field):
                yield from (
                    _label(other, one)
                    for one in items
                    if (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name)
                )


def _label(resource: Resource, item: Object) -> str:
    return f"{resource.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"


# --- showing --------------------------------------------------------------------------------------------------------


def _text(graph: Graph, now: datetime.datetime) -> str:
    """For people: the answer, the way to it, and the tree with what each object needs."""
    lines = (
        [line.plain for line in status.headline(graph.picture, now)] if graph.picture.roots else ["There is no cloud."]
    )
    for way in graph.paths:
        for depth, label in enumerate(way):
            node = graph.nodes.get(label)
            state = f": {node.summary}, for {status.age(node.since, now)}" if node else ""
            lines.append(f"{'   ' * (depth + 1)}{'-> ' if depth else ''}{label}{state}")
    needs: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.relation != "owns" and edge.target not in needs.get(edge.source, ()):
            needs.setdefault(edge.source, []).append(edge.target)
    for root in graph.picture.tops:
        lines.append("")
        for row in _rows(root, graph):
            node = row.node
            lines.append(f"{row.label}  {node.summary}, for {status.age(node.since, now)}")
            if wanted := needs.get(node.label):
                lines.append(f"{row.guide}needs {', '.join(_short(graph.nodes[one], node) for one in wanted)}")
    return "\n".join(lines) + "\n"


def _rows(root: tree.Node, graph: Graph) -> Iterator[status.Row]:
    for row in status.rows_of(root, everything=True, is_ascii=False):
        if row.node.label in graph.nodes:
            yield row


def _short(node: tree.Node, beside: tree.Node) -> str:
    name = node.name if node.namespace == beside.namespace else f"{node.namespace}/{node.name}"
    return f"{node.kind} {name}{'' if node.is_ready else f' ({node.summary})'}"


def _json(graph: Graph, now: datetime.datetime) -> str:
    own = ("kind", "namespace", "name", "state", "summary", "message", "since")
    content: dict[str, Any] = {
        "ready": graph.picture.is_ready,
        "nodes": [{key: getattr(node, key) for key in own} | {"id": label} for label, node in graph.nodes.items()],
        "edges": [{"from": one.source, "to": one.target, "relation": one.relation} for one in graph.edges],
        "blocking": [list(way) for way in graph.paths],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _dot(graph: Graph, now: datetime.datetime) -> str:
    """Graphviz' language."""
    lines = ["digraph cloud {", '  rankdir=LR; node [shape=box, style=rounded, fontname="sans-serif", fontsize=10];']
    on_paths = {label for way in graph.paths for label in way}
    for label, node in graph.nodes.items():
        text = f"{node.kind}\n{node.name}\n{node.summary}, {status.age(node.since, now)}"
        width = ", penwidth=3" if label in on_paths else ""
        lines.append(f"  {_quoted(label)} [label={_quoted(text)}, color={_quoted(_COLOURS[node.state])}{width}];")
    styles = {"owns": "", "needs": "style=dashed", "waits": 'color="#c62828"'}
    for edge in graph.edges:
        style = [styles[edge.relation], "penwidth=3" if graph.on_path(edge) else ""]
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{', '.join(filter(None, style))}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


BOX_WIDTH, BOX_HEIGHT, ROW, INDENT, MARGIN = 330, 22, 30, 28, 12


def _svg(graph: Graph, now: datetime.datetime) -> str:
    """A picture: the tree from top to bottom as boxes, other edges as arcs to the right of them."""
    places: dict[str, tuple[int, int]] = {}
    for top in graph.picture.tops:
        _place(top, graph, 0, places)
    deepest = max((x for x, _ in places.values()), default=0)
    edge_of_boxes = MARGIN + deepest * INDENT + BOX_WIDTH
    width, height = edge_of_boxes + 260, MARGIN * 2 + len(places) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    on_paths = {label for way in graph.paths for label in way}
    for edge in graph.edges:
        if edge.source in places and edge.target in places:
            parts.append(_line(edge, places, edge_of_boxes, is_on_path=graph.on_path(edge)))
    for label, (column, line) in places.items():
        node = graph.nodes[label]
        x, y = MARGIN + column * INDENT, MARGIN + line * ROW
        text = html.escape(f"{node.kind} {node.name}")
        state = html.escape(f"{node.summary}, {status.age(node.since, now)}")
        told = html.escape(f"{label}: {node.message or node.summary} (since {node.since})")
        thick = 3 if label in on_paths else 1
        parts.append(
            f'<g><title>{told}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" '
            f'fill="#fafafa" stroke="{_COLOURS[node.state]}" stroke-width="{thick}"/>'
            f'<text x="{x + 8}" y="{y + 15}">{text}</text>'
            f'<text x="{x + BOX_WIDTH - 8}" y="{y + 15}" text-anchor="end" fill="{_COLOURS[node.state]}">{state}</text>'
            "</g>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _place(node: tree.Node, graph: Graph, column: int, places: dict[str, tuple[int, int]]) -> None:
    """Column and line of a box and of all below it."""
    if node.label not in graph.nodes:
        return
    places[node.label] = (column, len(places))
    for child in node.children:
        _place(child, graph, column + 1, places)


def _line(edge: Edge, places: Mapping[str, tuple[int, int]], right: int, *, is_on_path: bool) -> str:
    (column, line), (other_column, other_line) = places[edge.source], places[edge.target]
    stroke = "#c62828" if is_on_path or edge.relation == "waits" else "#9e9e9e"
    width = 2.5 if is_on_path else 1
    start, end = (MARGIN + one * ROW + BOX_HEIGHT / 2 for one in (line, other_line))
    style = f'fill="none" stroke="{stroke}" stroke-width="{width}"'
    if edge.relation == "owns":
        x = MARGIN + column * INDENT + 10
        top = MARGIN + line * ROW + BOX_HEIGHT
        return f'<path d="M{x} {top} V{end:g} H{MARGIN + other_column * INDENT}" {style}/>'
    # The further the way, the wider the arc.
    bow = right + 20 + min(220, abs(other_line - line) * 8)
    first, last = (MARGIN + one * INDENT + BOX_WIDTH for one in (column, other_column))
    dashes = ' stroke-dasharray="4 3"' if edge.relation == "needs" else ""
    arc = f"M{first} {start:g} H{right} C{bow} {start:g} {bow} {end:g} {right} {end:g} H{last}"
    return f'<path d="{arc}" {style}{dashes}/>'
