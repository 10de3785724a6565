"""What a service folder exports: its kinds and controllers, listed in ``services/__init__.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from openstack_operator.kit import config_validity, custom_config, ini
from openstack_operator.runtime.controller import Controller
from openstack_operator.runtime.kinds import Kind, Resource

Rows = Callable[[Any], tuple[ini.Row, ...]]
"""From a kind's spec to the rows of a configuration file."""


@dataclasses.dataclass(frozen=True)
class File:
    """A configuration file that a kind's pods read. ``field`` is the users' text that is appended to it; ``cases`` are
    fields, by their Python names, with which ``rows`` gives others than for the defaults."""

    kind: Kind
    name: str
    rows: Rows
    field: str = "spec.customServiceConfig"
    cases: tuple[Mapping[str, Any], ...] = ()
    in_pod: bool = False
    """Whether a pod writes it by itself, so that no ConfigMap has it."""

    def all_rows(self) -> tuple[ini.Row, ...]:
        """The rows of all cases, each once."""
        specs = (self.kind.spec.model_construct(**case) for case in ({}, *self.cases))
        return tuple(dict.fromkeys(row for spec in specs for row in self.rows(spec)))


@dataclasses.dataclass(frozen=True)
class Service:
    """One service. ``needs`` are the kinds that must be Ready before it can be: the rollout's order follows.

    With ``files``, users' text is checked before anything else: each controller whose spec has such text gets the step
    that gives the condition ConfigValid.
    """

    name: str
    controllers: tuple[Controller[Any], ...]
    needs: tuple[Resource, ...] = ()
    files: tuple[File, ...] = ()
    own_files: tuple[File, ...] = ()
    """Files without users' text, of Jobs or written in pods: what is in them is known, and nothing to be checked."""

    def __post_init__(self) -> None:
        if self.files:
            checked = tuple(config_validity.guard(one, self.name, self.owned) for one in self.controllers)
            object.__setattr__(self, "controllers", checked)

    def findings(self, kind: Kind, spec: Any) -> tuple[custom_config.Finding, ...]:
        """What ConfigValid says about the users' text in a spec of a kind."""
        return config_validity.findings(kind, self.name, spec, self.owned) if self.files else ()

    def owned(self, kind: Kind, spec: Any, field: str) -> tuple[ini.Row, ...]:
        """The rows of the files that a text is appended to; of all files where it is passed on to other kinds."""
        # A service's own text goes to the files of its components too.
        above = field.rpartition(".")[0] + "."
        own = [file for file in self.files if file.kind is kind and file.field.startswith(above)]
        if own:
            return tuple(row for file in own for row in file.rows(spec))
        return tuple(row for file in self.files for row in file.rows(file.kind.spec.model_construct()))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(controller.kind for controller in self.controllers)
