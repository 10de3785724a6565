"""What a service folder exports: its kinds and controllers, listed in ``services/__init__.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from openstack_operator.kit import config, config_validity, custom_config, ini, levels, overwrites
from openstack_operator.kit.network_policies import Listener
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

    @property
    def texts(self) -> tuple[str, ...]:
        """The fields of the kind whose text the file has, lowest precedence first. Jobs of a kind that others run the
        processes of have the kind's own."""
        if self.in_pod:
            return ()
        path = (self.field or f"spec.{levels.TEXT}").split(".")[1:-1]
        return tuple(".".join(("spec", *path[:length], levels.TEXT)) for length in range(len(path) + 1))

    @property
    def overwritable(self) -> tuple[str, ...]:
        """The names of the whole files that users may put beside it; none for Jobs."""
        if self.in_pod or not self.field:
            return ()
        model: Any = self.kind.spec.model_construct()
        for name in self._component(model):
            model = getattr(model, name)
        found: tuple[str, ...] = model.overwritable
        return found

    def overwrites(self) -> tuple[ini.Row, ...]:
        """The rows that name these files; without a file there is no value."""
        component = self._component(self.kind.spec.model_construct())

        def given(name: str, row: ini.Row) -> ini.Row:
            def value(spec: Any, facts: Mapping[str, Any]) -> ini.Value:
                return row.value(spec, facts) if name in levels.whole_files(spec, *component) else None

            return dataclasses.replace(row, value=value)

        origin = levels.files_origin(self.kind.spec.model_construct(), *component)
        return tuple(
            given(name, row) for name in self.overwritable for row in overwrites.rows((name,), config.MERGED, origin)
        )

    def _component(self, model: Any) -> tuple[str, ...]:
        """The path of the process' own settings below the spec, as in Python."""
        found = []
        for part in self.field.split(".")[1:-1]:
            name = next(one for one, field in type(model).model_fields.items() if (field.alias or one) == part)
            found.append(name)
            model = getattr(model, name)
        return tuple(found)


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
    listeners: tuple[Listener, ...] = ()
    """What its pods listen on, and for whom; nobody can connect to anything else (``kit/network_policies.py``)."""

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
