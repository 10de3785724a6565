"""The condition ConfigValid: every piece of users' text in a spec is checked before anything rolls.

`service.Service` puts the step in front of the steps of each controller whose spec has such text. What is said about a
text is decided in `custom_config`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from openstack_operator.kit import catalogues, custom_config, ini, levels, overwrites, shared_config
from openstack_operator.kit.custom_config import Finding
from openstack_operator.kit.types import ConfigPolicy, ConfigSecret
from openstack_operator.runtime import conditions
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.schema import Model

CONDITION = "ConfigValid"
WARNINGS = "ConfigWarnings"
"""Reason of the Event about text that is taken but probably does not do what it should."""

Owned = Callable[[Kind, Any, str], tuple[ini.Row, ...]]
"""The rows of the files that a text of a kind's spec is appended to, by its field."""

TEXT = "custom_service_config"
SECRETS = "config_secrets"
FILES = "default_config_overwrite"
POLICY = "config_policy"


class Piece(NamedTuple):
    """A field with something of users' configuration, and the policy that holds there."""

    name: str
    path: str
    value: Any
    policy: ConfigPolicy
    files: tuple[str, ...] = ()
    """Files that can be overwritten there."""


def pieces(model: Model, path: str = "spec", policy: ConfigPolicy | None = None) -> Iterator[Piece]:
    """All of them that are not empty. The nearest policy above one holds."""
    policy = getattr(model, POLICY, None) or policy
    for name, field in type(model).model_fields.items():
        value, where = getattr(model, name, None), f"{path}.{field.alias or name}"
        if name in (TEXT, SECRETS, FILES):
            if value:
                yield Piece(name, where, value, policy or ConfigPolicy(), getattr(model, "overwritable", ()))
        elif isinstance(value, Model):
            yield from pieces(value, where, policy)
        elif isinstance(value, dict):
            for key, entry in value.items():
                if isinstance(entry, Model):
                    yield from pieces(entry, f"{where}.{key}", policy)


def judge(
    text: str,
    service: str,
    release: str,
    policy: ConfigPolicy,
    owned: Mapping[tuple[str, str], str],
    *,
    field: str,
    is_secret: bool = False,
) -> tuple[Finding, ...]:
    """What is to be said about one text under the policy that holds there. ``owned`` as in ``custom_config.Policy``."""
    return custom_config.check(text, service, release, _policy(policy, is_secret).of(owned), field=field)


def judge_shared(
    text: str, services: Sequence[str], release: str, policy: ConfigPolicy, *, field: str, is_secret: bool = False
) -> tuple[Finding, ...]:
    """What is to be said about one text for all these services."""
    return shared_config.check(
        text, services, release, _policy(policy, is_secret), catalogues.index().owned_by, field=field
    )


def judge_files(piece: Piece, service: str, release: str) -> tuple[Finding, ...]:
    """What is to be said about whole files."""
    judged = _policy(piece.policy, False)
    return overwrites.check(piece.value, piece.files, service, release, judged, field=piece.path)


def _policy(policy: ConfigPolicy, is_secret: bool) -> custom_config.Policy:
    known = custom_config.known_options(policy.known_options)
    return custom_config.Policy(policy.unknown_options, known, is_secret=is_secret)


def findings(kind: Kind, service: str, spec: Any, owned: Owned) -> tuple[Finding, ...]:
    """What is to be said about all users' text in a spec."""
    found: list[Finding] = []
    for level in spec.inherited_config:
        # The object above has said already what else there is to say.
        judged = judge(level.text, service, spec.openstack_release, ConfigPolicy(), {}, field=level.origin)
        found += (one for one in judged if one.severity == "error")
    for piece in pieces(spec):
        if piece.name == TEXT:
            ours = custom_config.owned(owned(kind, spec, piece.path))
            found += judge(piece.value, service, spec.openstack_release, piece.policy, ours, field=piece.path)
        elif piece.name == FILES:
            found += judge_files(piece, service, spec.openstack_release)
    return tuple(found)


async def secret_findings(scope: Scope[Any], kind: Kind, service: str, owned: Owned) -> tuple[Finding, ...]:
    """What is to be said about all users' text in Secrets, which become facts (``levels.FACT``).

    Raises ``errors.Stalled`` for a Secret or a key that is missing; from now on it is watched by its name.
    """
    read = scope.facts[levels.FACT] = {}
    scope.facts[levels.SERVICE] = service
    release = scope.spec.openstack_release
    found: list[Finding] = []
    for level in scope.spec.inherited_config:
        for name, text in (await _read(scope, levels.inherited_field(level), level.secrets)).items():
            read[name] = text
            judged = judge(text, service, release, ConfigPolicy(), {}, field=name, is_secret=True)
            found += (one for one in judged if one.severity == "error")
    for piece in pieces(scope.spec):
        if piece.name != SECRETS:
            continue
        ours = custom_config.owned(owned(kind, scope.spec, piece.path))
        for name, text in (await _read(scope, piece.path, piece.value)).items():
            read[name] = text
            found += judge(text, service, release, piece.policy, ours, field=name, is_secret=True)
    return tuple(found)


async def shared_secret_findings(scope: Scope[Any], services: Sequence[str]) -> tuple[Finding, ...]:
    """The same of a control plane's text for all services; those of one service are the service's."""
    spec = scope.spec
    policy = spec.config_policy or ConfigPolicy()
    found: list[Finding] = []
    for name, text in (await _read(scope, f"spec.{levels.SECRETS}", spec.config_secrets)).items():
        found += judge_shared(text, services, spec.openstack_release, policy, field=name, is_secret=True)
    return tuple(found)


async def _read(scope: Scope[Any], field: str, secrets: Sequence[ConfigSecret]) -> dict[str, str]:
    """Texts by what messages call them."""
    return {
        levels.label(field, number, one): (await scope.secret(one.name, one.key))[one.key]
        for number, one in enumerate(secrets)
    }


async def tell(scope: Scope[Any], found: Sequence[Finding]) -> str | None:
    """The message of the condition; an Event when it is new. Raises ``errors.Stalled`` with all errors."""
    custom_config.refuse(found)
    if not found:
        return None
    message = "; ".join(map(str, found))[: conditions.LONGEST_MESSAGE]
    before = conditions.find(scope.object, CONDITION)
    if before is None or before["message"] != message:
        await scope.event("Warning", WARNINGS, message)
    return message


def guard(controller: Controller[Any], service: str, owned: Owned) -> Controller[Any]:
    """The controller with the check in front; itself where its spec has no such text."""
    if TEXT not in controller.kind.spec.model_fields:
        return controller

    async def ensure_valid(scope: Scope[Any]) -> str | None:
        """All users' configuration text can be read, and its values fit the release's options."""
        found = findings(controller.kind, service, scope.spec, owned)
        return await tell(scope, found + await secret_findings(scope, controller.kind, service, owned))

    steps = tuple(
        dataclasses.replace(step, needs=(CONDITION, *step.needs))
        if step.needs is not None and step.condition.endswith("ConfigReady")
        else step
        for step in controller.steps
    )
    return dataclasses.replace(controller, steps=(Step(CONDITION, ensure_valid, needs=()), *steps))
