"""Users' configuration in our own objects in YAML, for `lint`: texts and whole files, each with its line in the file.

Which kind belongs to which service, and which options the operator sets itself, is in `kit/catalogues/services.json`,
so that nothing of the services is imported.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from openstack_operator.cli import manifests
from openstack_operator.kit import catalogues, custom_config, overwrites, shared_config
from openstack_operator.kit.custom_config import Finding, Policy

KEY = "customServiceConfig"


def findings(text: str, release: str | None) -> Iterator[tuple[int, Finding]]:
    """Each finding with its line of the file."""
    try:
        documents = list(manifests.nodes(text))
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        yield line, Finding("error", "unreadable", "", line, "", "", f"is not YAML: {problem.problem}")
        return
    for document in documents:
        for item in _items(document):
            yield from _object(item, release)


def _items(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Objects of a document, those of a list included."""
    if not isinstance(node, yaml.MappingNode):
        return
    fields = _fields(node)
    items = fields.get("items")
    if _scalar(fields.get("kind")) == "List" and isinstance(items, yaml.SequenceNode):
        for item in items.value:
            yield from _items(item)
    else:
        yield node


def _object(node: yaml.MappingNode, release: str | None) -> Iterator[tuple[int, Finding]]:
    fields = _fields(node)
    index = catalogues.index()
    service = index.kinds.get(_scalar(fields.get("kind")) or "")
    spec = fields.get("spec")
    if service is None or not isinstance(spec, yaml.MappingNode):
        return
    known = release or _scalar(_fields(spec).get("openstackRelease")) or index.default_release
    kind = _scalar(fields.get("kind")) or ""
    for path, files, policy in _files(spec, ("spec",), Policy()):
        where, one = ".".join((*path, overwrites.FIELD)), service or (path[1] if len(path) > 1 else "")
        nodes = {str(key.value): (key, value) for key, value in files.value if isinstance(value, yaml.ScalarNode)}
        texts = {name: value.value for name, (_, value) in nodes.items()}
        for finding in overwrites.check(texts, index.files(kind, path), one, known, policy, field=where):
            key, value = nodes[finding.field.removeprefix(f"{where}[").removesuffix("]")]
            line = value.start_mark.line + 1 + (finding.line if value.style == "|" else 0)
            yield line if finding.line else key.start_mark.line + 1, finding
    for path, value, policy in _texts(spec, ("spec",), Policy()):
        # A control plane has a part for each service, by its name, and a text for all of them.
        one = service or (path[1] if len(path) > 2 else "")
        field = ".".join(path)
        if one:
            found = custom_config.check(value.value, one, known, policy.of(index.owned_by(one)), field=field)
        else:
            used = [name for name in index.services if not _is_disabled(spec, name)]
            found = shared_config.check(value.value, used, known, policy, index.owned_by, field=field)
        for finding in found:
            # Only a literal block has a line of its own for each line of the text.
            line = value.start_mark.line + 1 + (finding.line if value.style == "|" else 0)
            yield line, finding


def _is_disabled(spec: yaml.MappingNode, service: str) -> bool:
    part = _fields(spec).get(service)
    return isinstance(part, yaml.MappingNode) and manifests.value(_fields(part).get("enabled")) is False


def _texts(
    node: yaml.MappingNode, path: tuple[str, ...], policy: Policy
) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode, Policy]]:
    for where, name, value, judged in _pieces(node, path, policy):
        if name == KEY and isinstance(value, yaml.ScalarNode):
            yield (*where, name), value, judged


def _files(
    node: yaml.MappingNode, path: tuple[str, ...], policy: Policy
) -> Iterator[tuple[tuple[str, ...], yaml.MappingNode, Policy]]:
    for where, name, value, judged in _pieces(node, path, policy):
        if name == overwrites.FIELD and isinstance(value, yaml.MappingNode):
            yield where, value, judged


def _pieces(
    node: yaml.MappingNode, path: tuple[str, ...], policy: Policy
) -> Iterator[tuple[tuple[str, ...], str, yaml.Node, Policy]]:
    """Each field with users' configuration: the path of its settings, its name and value, and the policy there."""
    fields = _fields(node)
    declared = fields.get("configPolicy")
    if isinstance(declared, yaml.MappingNode):
        own = _fields(declared)
        listed = own.get("knownOptions")
        names = [_scalar(one) or "" for one in listed.value] if isinstance(listed, yaml.SequenceNode) else []
        policy = Policy(
            unknown="Refuse" if _scalar(own.get("unknownOptions")) == "Refuse" else "Warn",
            known=custom_config.known_options(names),
        )
    for key, value in fields.items():
        if key in (KEY, overwrites.FIELD):
            yield path, key, value, policy
        elif isinstance(value, yaml.MappingNode):
            yield from _pieces(value, (*path, key), policy)


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _scalar(node: yaml.Node | None) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None
