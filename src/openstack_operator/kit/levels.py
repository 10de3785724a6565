"""Users' configuration by level: what an object hands down to those below it, and what a pod merges, in which order.

    defaults of the release < rows < control plane < service < template (a cell) < component

Each object has its own level in its spec. What stands above it, its maker writes into ``inheritedConfig``, one by one
and not as one text, so that every piece keeps the name of where it comes from. Whole files are handed down as they are,
the nearest of each name. Services call `custom` for the files that they write, and makers of objects `handed_down` and
`files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import effective, overwrites, shared_config
from openstack_operator.kit.config import Custom, Text
from openstack_operator.kit.types import ConfigLevel, ConfigSecret, Configurable
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

TEXT = "customServiceConfig"
SECRETS = "configSecrets"
INHERITED = "inheritedConfig"
FACT = "config.secrets"
"""Fact with the texts in Secrets, by `label`, which the check in front of all steps has read."""
SERVICE = "config.service"
"""Fact with the name of the service whose options count."""


def label(field: str, number: int, secret: ConfigSecret) -> str:
    """What messages and files call a text in a Secret."""
    return f"{field}[{number}]: Secret {secret.name}, key {secret.key}"


def inherited_field(level: ConfigLevel) -> str:
    """What messages call the Secrets of a level above."""
    return level.origin.replace(TEXT, SECRETS, 1)


def custom(scope: Scope[Any], *component: str) -> Custom:
    """What users add to the file of a process. ``component`` is the path of the process' own settings below the spec,
    as in Python."""
    return Custom(texts(scope, *component), whole_files(scope.spec, *component), files_origin(scope.spec, *component))


def whole_files(spec: Any, *component: str) -> dict[str, str]:
    """The whole files of a process. ``component`` as in `custom`."""
    model, files = spec, dict(spec.default_config_overwrite)
    for name in component:
        model = getattr(model, name)
        files = overwritten(files, model)
    return files


def files_origin(spec: Any, *component: str) -> str:
    """The fields that the whole files of a process may stand in, the nearest first."""
    fields, model, path = [f"spec.{overwrites.FIELD}"], spec, "spec"
    for name in component:
        path = f"{path}.{type(model).model_fields[name].alias}"
        model = getattr(model, name)
        fields.insert(0, f"{path}.{overwrites.FIELD}")
    return ", else ".join(fields)


def overwritten(above: Mapping[str, str], settings: Configurable) -> dict[str, str]:
    """Whole files of a process: its own, else those from above that it reads."""
    inherited = {name: text for name, text in above.items() if name in settings.overwritable}
    return inherited | settings.default_config_overwrite


def texts(scope: Scope[Any], *component: str) -> tuple[Text, ...]:
    """The texts of a process, lowest precedence first: of each level its text, then those in its Secrets."""
    known = scope.spec.config_policy.known_options if scope.spec.config_policy else ()
    found: list[Text] = []
    for level in scope.spec.inherited_config:
        found.append(Text(level.origin, level.text))
        pieces = _secrets(scope, inherited_field(level), level.secrets)
        if level.shared:
            service, release = scope.facts[SERVICE], scope.spec.openstack_release
            pieces = {name: shared_config.part(text, service, release, known) for name, text in pieces.items()}
        found.append(_joined(pieces))
    model, path = scope.spec, "spec"
    for name in ("", *component):
        if name:
            path = f"{path}.{type(model).model_fields[name].alias}"
            model = getattr(model, name)
        found.append(Text(f"{path}.{TEXT}", model.custom_service_config))
        found.append(_joined(_secrets(scope, f"{path}.{SECRETS}", model.config_secrets)))
    return tuple(found)


def _secrets(scope: Scope[Any], field: str, secrets: tuple[ConfigSecret, ...]) -> dict[str, str]:
    read: dict[str, str] = scope.facts[FACT]
    names = (label(field, number, one) for number, one in enumerate(secrets))
    return {name: read[name] for name in names}


def _joined(pieces: dict[str, str]) -> Text:
    """Several texts as one: a file has room for two numbers of each level."""
    said = {name: text for name, text in pieces.items() if effective.lines(text)}
    first, *others = said or ("",)
    text = said.get(first, "") + "".join(f"\n# {name}\n{said[name]}" for name in others)
    return Text(first, text, is_secret=True)


def handed_down(resource: Resource, name: str, spec: Any, text: str | None = None) -> dict[str, Any]:
    """The field of the objects below: what stands above this one, then its own. With ``text``, the level is for all
    services of a cloud, and this is what the one in question gets of it."""
    levels: list[ConfigLevel] = list(getattr(spec, "inherited_config", ()))
    own = spec.custom_service_config if text is None else text
    if own or spec.config_secrets:
        origin = f"spec.{TEXT} of {resource.kind} {name}"
        shared = text is not None
        levels.append(ConfigLevel(origin=origin, text=own, secrets=spec.config_secrets, shared=shared))
    return (
        {INHERITED: [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in levels]}
        if levels
        else {}
    )


def files(spec: Configurable, settings: Configurable) -> dict[str, Any]:
    """The field of an object below with ``settings``: the whole files that it reads, its own before ``spec``'s."""
    found = overwritten(spec.default_config_overwrite, settings)
    return {overwrites.FIELD: found} if found else {}
