"""Users' YAML as `kubectl` reads it, for `plan` and `lint`.

PyYAML follows YAML 1.1, kubectl the YAML of Go, which knows fewer types: an address 52:54:00:16:41:11 and a time 12:30
are numbers to base 60 here and texts there, 2024-01-01 is a date here and a text there, and `=` is an error here. A
plan of other values than those that kubectl sends would be a plan of something else. What Go makes of a plain scalar is
in sigs.k8s.io/yaml, goyaml.v2, resolve.go. Policies stay with PyYAML (`kit/policy_text.py`), as oslo.policy does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_PLAIN = "tag:openstack.k8s.io,2026:plain"
_WORDS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
# strconv.ParseInt with base 0, and what is a float in the style of YAML.
_INTEGER = re.compile(r"([-+]?)(0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|[1-9][0-9]*|0)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The C parser is ten times as fast; not every build of PyYAML has it."""

    # Every plain scalar is of a type of ours, and `plain` says which; "<<" stays a merge.
    yaml_implicit_resolvers = {
        "<": [("tag:yaml.org,2002:merge", re.compile(r"<<\Z"))],
        None: [(_PLAIN, re.compile(""))],
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Keys of JSON are texts."""
        # Not by what PyYAML makes of it: to Python, the keys 1 and true are one.
        self.flatten_mapping(node)
        pairs = [(_key(self.construct_object(key, deep=True)), value) for key, value in node.value]
        return {key: self.construct_object(value, deep=deep) for key, value in pairs}


def plain(text: str) -> Any:
    """What an unquoted scalar is."""
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "")
    if (found := _INTEGER.match(digits)) and text[0] in "-+0123456789":
        sign, number = found.groups()
        # A leading 0 alone means octal, which Python refuses.
        whole = int(number, 8 if number.isdigit() and number[0] == "0" else 0) * (-1 if sign == "-" else 1)
        if -(2**63) <= whole < 2**63:
            return whole
    return float(digits) if _FLOAT.match(digits) and text[0] in "-+.0123456789" else text


def value(node: yaml.Node | None) -> Any:
    """What a scalar is, None for anything else."""
    if not isinstance(node, yaml.ScalarNode):
        return None
    return plain(node.value) if node.tag == _PLAIN else node.value


def documents(text: str) -> Iterator[Any]:
    """The documents of a file. Raises ``yaml.YAMLError``."""
    return yaml.load_all(text, Loader=Loader)


def nodes(text: str) -> Iterator[yaml.Node]:
    """Those of the documents, with their lines. Raises ``yaml.YAMLError``."""
    return yaml.compose_all(text, Loader=Loader)


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


Loader.add_constructor(_PLAIN, lambda loader, node: plain(node.value))
