"""The condition ConfigValid: every piece of users' text in a spec is checked before anything rolls.

`service.Service` puts the step in front of the steps of each controller whose spec has such text. What is said about a
text is decided in `custom_config`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from openstack_operator.kit import catalogues, custom_config, ini, shared_config
from openstack_operator.kit.custom_config import Finding
from openstack_operator.kit.types import ConfigPolicy
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
POLICY = "config_policy"


def texts(
    model: Model, path: str = "spec", policy: ConfigPolicy | None = None
) -> Iterator[tuple[str, str, ConfigPolicy]]:
    """Field, text and the policy that holds there, for every piece of text that is not empty. The nearest policy above
    a text holds."""
    policy = getattr(model, POLICY, None) or policy
    for name, field in type(model).model_fields.items():
        value, where = getattr(model, name, None), f"{path}.{field.alias or name}"
        if name == TEXT:
            if value:
                yield where, value, policy or ConfigPolicy()
        elif isinstance(value, Model):
            yield from texts(value, where, policy)
        elif isinstance(value, dict):
            for key, entry in value.items():
                if isinstance(entry, Model):
                    yield from texts(entry, f"{where}.{key}", policy)


def judge(
    text: str, service: str, release: str, policy: ConfigPolicy, owned: Mapping[tuple[str, str], str], *, field: str
) -> tuple[Finding, ...]:
    """What is to be said about one text under the policy that holds there. ``owned`` as in ``custom_config.Policy``."""
    return custom_config.check(text, service, release, _policy(policy).of(owned), field=field)


def judge_shared(
    text: str, services: Sequence[str], release: str, policy: ConfigPolicy, *, field: str
) -> tuple[Finding, ...]:
    """What is to be said about one text for all these services."""
    return shared_config.check(text, services, release, _policy(policy), catalogues.index().owned_by, field=field)


def _policy(policy: ConfigPolicy) -> custom_config.Policy:
    return custom_config.Policy(policy.unknown_options, custom_config.known_options(policy.known_options))


def findings(kind: Kind, service: str, spec: Any, owned: Owned) -> tuple[Finding, ...]:
    """What is to be said about all users' text in a spec."""
    found: list[Finding] = []
    for level in spec.inherited_config:
        # The object above has said already what else there is to say.
        judged = judge(level.text, service, spec.openstack_release, ConfigPolicy(), {}, field=level.origin)
        found += (one for one in judged if one.severity == "error")
    for field, text, policy in texts(spec):
        ours = custom_config.owned(owned(kind, spec, field))
        found += judge(text, service, spec.openstack_release, policy, ours, field=field)
    return tuple(found)


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
        return await tell(scope, findings(controller.kind, service, scope.spec, owned))

    steps = tuple(
        dataclasses.replace(step, needs=(CONDITION, *step.needs))
        if step.needs is not None and step.condition.endswith("ConfigReady")
        else step
        for step in controller.steps
    )
    return dataclasses.replace(controller, steps=(Step(CONDITION, ensure_valid, needs=()), *steps))
