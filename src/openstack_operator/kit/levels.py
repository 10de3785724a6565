"""Users' configuration by level: what an object hands down to those below it, and what a pod merges, in which order.

    defaults of the release < rows < control plane < service < template (a cell) < component

Each object has its own level in its spec. What stands above it, its maker writes into ``inheritedConfig``, one by one
and not as one text, so that every piece keeps the name of where it comes from. Services call `texts` for the files that
they write, and makers of objects `handed_down`.
"""

from __future__ import annotations

from typing import Any

from openstack_operator.kit.config import Text
from openstack_operator.kit.types import ConfigLevel, Configurable
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

TEXT = "customServiceConfig"
INHERITED = "inheritedConfig"


def texts(scope: Scope[Any], *component: str) -> tuple[Text, ...]:
    """The texts of a process, lowest precedence first. ``component`` is the path of its own settings below the spec,
    as in Python."""
    found = [Text(level.origin, level.text) for level in scope.spec.inherited_config]
    model, path = scope.spec, "spec"
    found.append(_own(model, path))
    for name in component:
        path = f"{path}.{type(model).model_fields[name].alias}"
        model = getattr(model, name)
        found.append(_own(model, path))
    return tuple(found)


def _own(model: Configurable, path: str) -> Text:
    return Text(f"{path}.{TEXT}", model.custom_service_config)


def handed_down(resource: Resource, name: str, spec: Any, text: str | None = None) -> dict[str, Any]:
    """The field of the objects below: what stands above this one, then its own, or ``text`` instead of its own."""
    levels: list[ConfigLevel] = list(getattr(spec, "inherited_config", ()))
    own = spec.custom_service_config if text is None else text
    if own:
        levels.append(ConfigLevel(origin=f"spec.{TEXT} of {resource.kind} {name}", text=own))
    return {INHERITED: [one.model_dump(mode="json", by_alias=True) for one in levels]} if levels else {}
