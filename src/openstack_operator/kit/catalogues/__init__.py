"""Catalogues of OpenStack's options and policy rules, a folder for each release, read from the release's own packages.

`custom_config` checks users' text against them. `make catalogues` writes the files (`embedded/images/catalogues.py`); a
service's file is read when it is first asked for. Three files each: options, policies, and help texts, which only
people ask for.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec


class Type(msgspec.Struct, frozen=True):
    """What values an option takes, in the words of oslo.config's types. Read by `option_types`."""

    kind: str
    name: str = ""
    min: int | float | None = None
    max: int | float | None = None
    choices: tuple[str | int | float | None, ...] | None = None
    regex: str | None = None
    regex_flags: int = 0
    ignore_case: bool = False
    quotes: bool = False
    max_length: int = 0
    min_length: int = 0
    bounds: bool = False
    exclusive: bool = False
    item: Type | None = None
    separator: str = ":"
    version: int = 0
    schemes: tuple[str, ...] | None = None


class Option(msgspec.Struct, frozen=True):
    """One option. `default` is what a file would say, one text for each value; with `sample` it is an example."""

    type: int
    """Index in the catalogue's types."""
    default: tuple[str, ...] | None = None
    sample: bool = False
    multi: bool = False
    secret: bool = False
    mutable: bool = False
    required: bool = False
    removal: bool = False
    reason: str = ""
    since: str = ""
    old: tuple[tuple[str, str], ...] = ()
    """Former names, each a section and an option."""


class Named(msgspec.Struct, frozen=True):
    """Sections that users name themselves: the option that lists them, and the sections whose options hold there."""

    option: tuple[str, str]
    sections: tuple[str, ...]


class _File(msgspec.Struct, frozen=True):
    packages: dict[str, str]
    types: tuple[Type, ...]
    options: dict[str, dict[str, Option]]
    named: Named | None = None
    prefixes: tuple[str, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """One rule of a service's policy."""

    check: str
    scope: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    old_check: str = ""
    removal: bool = False
    reason: str = ""
    since: str = ""


class Help(msgspec.Struct, frozen=True):
    """Texts for people, by section and option, and by rule."""

    options: dict[str, dict[str, str]]
    policies: dict[str, dict[str, Any]]


class Index(msgspec.Struct, frozen=True):
    """What of the services a check needs without importing them; `make generate` writes it."""

    default_release: str
    kinds: dict[str, str]
    """Service by kind; empty for a kind that has a part for each service."""
    owned: dict[str, dict[str, str]]
    """What overriding an option means that the operator sets itself: by service, and by section and option."""
    overwritable: dict[str, dict[str, tuple[str, ...]]]
    """Files that users can overwrite: by kind, and by the path of the settings, in which * is any name."""

    @property
    def services(self) -> tuple[str, ...]:
        """Those that users' text can be for."""
        return tuple(sorted(self.owned))

    def files(self, kind: str, path: Sequence[str]) -> tuple[str, ...]:
        """Files that can be overwritten by a field of a kind, whose path this is, without its own name."""
        for place, names in self.overwritable.get(kind, {}).items():
            parts = place.split(".")
            if len(parts) == len(path) and all(one in ("*", two) for one, two in zip(parts, path, strict=True)):
                return names
        return ()

    def owned_by(self, service: str) -> dict[tuple[str, str], str]:
        found = {}
        for place, meaning in self.owned.get(service, {}).items():
            section, _, option = place.rpartition("/")
            found[section, option] = meaning
        return found


class Catalogue:
    """The options of one service in one release. Sections are looked up as oslo.config does: without regard to case,
    [DEFAULT] excepted."""

    def __init__(self, service: str, release: str, content: _File) -> None:
        self.service = service
        self.release = release
        self.packages = content.packages
        self.types = content.types
        self.named = content.named
        self.prefixes = content.prefixes
        self.names: dict[str, str] = {}
        """Sections as the release spells them, by their normal form."""
        self.options: dict[str, dict[str, Option]] = {}
        """By normal form of the section, then by name."""
        self.former: dict[tuple[str, str], tuple[str, str]] = {}
        """Present section and name by the former ones, sections in normal form."""
        for section, options in content.options.items():
            key = normal(section)
            self.names.setdefault(key, section)
            self.options.setdefault(key, {}).update(options)
        for section, name, option in self:
            for old_section, old_name in option.old:
                if self.find(old_section, old_name) is None:
                    self.former.setdefault((normal(old_section), old_name), (section, name))

    def __iter__(self) -> Iterator[tuple[str, str, Option]]:
        """Section (normal form), name and option, of all."""
        for section, options in self.options.items():
            for name, option in options.items():
                yield section, name, option

    def find(self, section: str, name: str) -> Option | None:
        return self.options.get(normal(section), {}).get(name)

    @functools.cached_property
    def everywhere(self) -> Mapping[str, tuple[str, ...]]:
        """Sections that have an option of a name."""
        found: dict[str, list[str]] = {}
        for section, name, _ in self:
            found.setdefault(name, []).append(section)
        return {name: tuple(sections) for name, sections in found.items()}


def normal(section: str) -> str:
    """How oslo.config compares names of sections."""
    return section if section == "DEFAULT" else section.lower()


def releases() -> tuple[str, ...]:
    """Releases that have catalogues, oldest first."""
    return tuple(sorted(entry.name for entry in resources.files(__name__).iterdir() if entry.name[0].isdigit()))


def services(release: str) -> tuple[str, ...]:
    """Services that a release has a catalogue of."""
    folder = resources.files(__name__) / release
    if not folder.is_dir():
        return ()
    suffix = ".options.xz"
    return tuple(sorted(file.name.removesuffix(suffix) for file in folder.iterdir() if file.name.endswith(suffix)))


@functools.cache
def load(service: str, release: str) -> Catalogue | None:
    """The options of a service; None where there is no catalogue of it."""
    content = _read(service, release, "options")
    return None if content is None else Catalogue(service, release, msgspec.json.decode(content, type=_File))


@functools.cache
def policies(service: str, release: str) -> Mapping[str, Policy]:
    """The policy rules of a service by name; none where there is no catalogue of it."""
    content = _read(service, release, "policies")
    return {} if content is None else msgspec.json.decode(content, type=dict[str, Policy])


@functools.cache
def index() -> Index:
    return msgspec.json.decode((resources.files(__name__) / "services.json").read_bytes(), type=Index)


def help_texts(service: str, release: str) -> Help:
    """What the packages say about options and rules. Not kept: only people ask."""
    content = _read(service, release, "help")
    return Help({}, {}) if content is None else msgspec.json.decode(content, type=Help)


def _read(service: str, release: str, what: str) -> bytes | None:
    file = resources.files(__name__) / release / f"{service}.{what}.xz"
    return lzma.decompress(file.read_bytes()) if file.is_file() else None
