"""What every kind of ours says at admission: users' configuration text, objects that a spec names, volumes that stay.

``admit`` is the value of ``Kind.admit`` for most kinds; one with rules of its own calls it and adds to it. What a type
can say alone is a validator of the type, so that the controller refuses the same (condition Ready, InvalidSpec).
``check`` is the one place that judges users' text here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from openstack_operator.kit import catalogues, config_validity, kinds, mounts, quantities
from openstack_operator.kit.config_validity import Piece
from openstack_operator.kit.types import Entry, ExtraMount, PodSettings, Ref, SecretKeyRef
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.admission import Objects, Problem, Reference, Subject, Verdict
from openstack_operator.runtime.kinds import Resource
from openstack_operator.runtime.schema import Model

TARGETS: dict[str, Resource] = {
    "database_ref": kinds.MARIADB,
    "messaging_ref": kinds.RABBITMQ,
    "memcached_ref": kinds.MEMCACHED,
    "keystone_ref": kinds.KEYSTONE,
    "placement_ref": kinds.PLACEMENT,
    "neutron_ref": kinds.NEUTRON,
    "ovn_ref": kinds.OVN_NETWORK,
    "nova_ref": kinds.NOVA,
    "conductor_ref": kinds.NOVA_CONDUCTOR,
}
"""What a field of this name refers to; ``…_secret_ref`` is a Secret. A test finds a reference that is not here."""

NAMED: dict[str, Resource] = {
    "storage_class": built_in.STORAGECLASS,
    "secret_name": built_in.SECRET,
    "config_map_name": built_in.CONFIGMAP,
    "claim_name": built_in.PVC,
}
"""What a field of this name names by a text alone."""

# Kubernetes lets nobody change these in a volume that exists, so a change is no error and has no effect there.
_FIXED = {
    "storage_size": "volumes that exist keep their size",
    "storage_class": "volumes that exist keep their class",
}


class Field(NamedTuple):
    """A field of a spec that is set: its path in YAML, its name in Python, its value."""

    path: str
    name: str
    value: Any
    is_enabled: bool
    components: tuple[str, ...] = ()
    """Of the pods that a mount is for."""


def fields(model: Model, path: str = "spec", *, is_enabled: bool = True) -> Iterator[Field]:
    """Every field below a spec, parents before children. What an entry that is disabled holds is not enabled."""
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        where = f"{path}.{info.alias or name}"
        yield Field(where, name, value, is_enabled)
        inner: list[tuple[str, Any]] = [(where, value)]
        if isinstance(value, dict):
            inner = [(f"{where}.{key}", one) for key, one in value.items()]
        elif isinstance(value, tuple):
            inner = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
        for place, one in inner:
            if isinstance(one, SecretKeyRef) and isinstance(value, tuple):
                yield Field(place, name, one, is_enabled)
            elif isinstance(one, Model) and not isinstance(one, Ref | SecretKeyRef):
                if isinstance(one, ExtraMount) and isinstance(model, PodSettings):
                    yield Field(place, name, one, is_enabled, model.components)
                is_used = is_enabled and (one.enabled if isinstance(one, Entry) else True)
                yield from fields(one, place, is_enabled=is_used)


def admit(new: Subject, old: Subject | None, _: Objects) -> Verdict:
    """``runtime.admission.Admit`` of a kind without rules of its own."""
    before = {} if old is None else {field.path: field for field in fields(old.spec)}
    pieces = {piece.path: piece for piece in config_validity.pieces(new.spec)}
    verdict = Verdict()
    for field in fields(new.spec):
        past = before.get(field.path)
        if field.name in (config_validity.TEXT, config_validity.FILES) and field.value:
            verdict += _judge_text(new, pieces[field.path], past)
        elif field.name in _FIXED and past is not None and _is_changed(field, past):
            verdict += Verdict(warnings=(f"{field.path}: {_FIXED[field.name]}",))
        elif isinstance(field.value, ExtraMount) and (past is None or past.value != field.value):
            verdict += _judge_mount(field, field.value)
        reference = _reference(field)
        if reference is not None and (past is None or reference != _reference(past)):
            verdict += Verdict(references=(reference,))
    return verdict


def _judge_mount(field: Field, mount: ExtraMount) -> Verdict:
    why = mounts.reserved(mount)
    if why:
        return Verdict(errors=(Problem(f"{field.path}.mountPath", why),))
    return Verdict(warnings=tuple(_unknown_components(field, mount)))


def _unknown_components(field: Field, mount: ExtraMount) -> Iterator[str]:
    """Nobody would notice: the volume is just not there."""
    for number, name in enumerate(mount.components):
        if name not in field.components:
            near = difflib.get_close_matches(name, field.components, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            known = ", ".join(field.components)
            where = f"{field.path}.components[{number}]"
            yield f"{where}: no pod is called {name}{hint}, so none gets {mount.mount_path} for it; there are {known}"


def _judge_text(subject: Subject, piece: Piece, past: Field | None) -> Verdict:
    verdict = check(subject, piece)
    if past is None or past.value != piece.value:
        return verdict
    # It stands there already: who changes something else is told, and not kept from it.
    return Verdict(warnings=(*(str(one) for one in verdict.errors), *verdict.warnings))


def check(subject: Subject, piece: Piece) -> Verdict:
    """What is to be said about a user's configuration in a field of an object; ConfigValid says the same."""
    index = catalogues.index()
    release = subject.spec.openstack_release
    # A control plane has a part for each service, by its name, and a text for all of them.
    field, policy = piece.path, piece.policy
    service = index.kinds.get(subject.resource.kind) or field.split(".")[1]
    if piece.name == config_validity.FILES:
        found = config_validity.judge_files(piece, service, release)
    elif service in index.services:
        found = config_validity.judge(piece.value, service, release, policy, index.owned_by(service), field=field)
    else:
        used = [name for name in index.services if getattr(getattr(subject.spec, name), "enabled", True)]
        found = config_validity.judge_shared(piece.value, used, release, policy, field=field)
    return Verdict(
        errors=tuple(
            Problem(one.field, str(one).removeprefix(f"{one.field}: ")) for one in found if one.severity == "error"
        ),
        warnings=tuple(str(one) for one in found if one.severity == "warning"),
    )


def _is_changed(field: Field, past: Field) -> bool:
    if field.name == "storage_size":
        return quantities.value(field.value) != quantities.value(past.value)
    return bool(field.value != past.value)


def _reference(field: Field) -> Reference | None:
    if not field.is_enabled:
        return None
    match field.value:
        case SecretKeyRef(name=name, key=key):
            return Reference(field.path, built_in.SECRET, name, key)
        case Ref(name=name):
            resource = built_in.SECRET if field.name.endswith("secret_ref") else TARGETS[field.name]
            return Reference(field.path, resource, name)
        case str(name) if field.name in NAMED:
            return Reference(field.path, NAMED[field.name], name)
    return None
