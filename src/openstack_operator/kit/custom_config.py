"""Users' oslo.config text: can a service read it, and does it say what they mean?

`check` is the one answer to that, for the controllers (`config`), for admission and for `openstack-operator lint`: a
pure function from a text to findings. How a text is read is in `config_text`, what values an option takes in
`option_types`, and which options there are in `catalogues`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from openstack_operator.kit import catalogues, config_text, ini, option_types
from openstack_operator.kit.catalogues import Catalogue, Option
from openstack_operator.kit.config_text import Assignment
from openstack_operator.runtime import errors

Severity = Literal["error", "warning"]

RULES: Mapping[str, str] = {
    "unreadable": "oslo.config cannot read the text, so the service would not start.",
    "ill-typed": "The option does not take such a value, so the service would fail when it reads it.",
    "bad-reference": "The value refers with $ to an option that does not exist, so the service would fail.",
    "unknown-option": "The release has no such option there; services ignore it silently.",
    "unknown-section": "The release has no such section; services ignore it silently.",
    "deprecated": "The release still takes the option, but a later one will not.",
    "shadowed": "The option is a former name of one that is set elsewhere, which wins.",
    "owned": "The operator sets this option itself; the user's value wins.",
    "swallowed": "An indented line belongs to the option above it.",
    "inline-comment": "There are no comments behind values; the text belongs to the value.",
    "file-not-allowed": "The service does not read such a file, or it is not one to overwrite.",
    "unknown-rule": "The release has no such policy rule, and no rule of the file refers to it; it has no effect.",
    "undefined-rule": "A policy rule refers to one that does not exist, so it refuses everybody.",
    "cyclic-rule": "A policy rule refers to itself, so every request that it is about fails.",
    "odd-character": "A character that looks like another one, such as a typographic quote or a hard blank.",
}
"""What each rule finds, for people and for SARIF."""

UNKNOWN = ("unknown-option", "unknown-section")


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a text. ``suggestion`` is what to write instead, where that is known."""

    severity: Severity
    rule: str
    field: str
    line: int
    section: str
    option: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.field}: {where}{self.message}"

    def among(self, services: Iterable[str]) -> Finding:
        """The same finding, with the services that it is about."""
        return dataclasses.replace(self, message=f"{self.message} [{', '.join(services)}]")


@dataclasses.dataclass(frozen=True)
class Policy:
    """How a text is judged: ``configPolicy`` of a spec, and what the operator itself sets."""

    unknown: Literal["Warn", "Refuse"] = "Warn"
    known: frozenset[tuple[str, str]] = frozenset()
    """Options that a driver of the user's has, by section and name; the name * stands for all of a section."""
    owned: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """What an override of an option that the operator sets itself means, by section and name."""
    is_secret: bool = False
    """Whether nothing of the text may be shown."""

    @property
    def severity(self) -> Severity:
        """Of what the release does not have."""
        return "error" if self.unknown == "Refuse" else "warning"

    def of(self, owned: Mapping[tuple[str, str], str]) -> Policy:
        """The same policy for a file in which the operator sets these options."""
        return dataclasses.replace(self, owned=owned)

    def declares(self, section: str, name: str) -> bool:
        """Whether an option (section in normal form) is said to be a driver's."""
        return bool(self.known) and ((section, name) in self.known or (section, "*") in self.known)


LENIENT = Policy()


def known_options(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Reads ``section/option`` and ``section/*``."""
    pairs = (name.rpartition("/") for name in names)
    return frozenset((catalogues.normal(section or "DEFAULT"), option) for section, _, option in pairs)


def check(
    text: str, service: str, release: str, policy: Policy = LENIENT, *, field: str = "customServiceConfig"
) -> tuple[Finding, ...]:
    """Everything that is to be said about a text, in the order of its lines. No error means that the service reads it.

    A service without a catalogue has its text parsed, and no more.
    """
    try:
        parsed = config_text.parse(text)
    except config_text.UnreadableError as problem:
        shown = "" if policy.is_secret else f": {problem.text.strip()[:80]!r}"
        return (Finding("error", "unreadable", field, problem.line, "", "", f"{problem.reason}{shown}"),)
    catalogue = catalogues.load(service, release)
    if catalogue is None or not parsed.assignments:
        return ()
    return tuple(sorted(_Check(catalogue, policy, parsed, field).findings(), key=lambda one: one.line))


def refuse(findings: Iterable[Finding]) -> None:
    """Raises ``errors.Stalled`` with field, line and reason of each error; nothing where there is none."""
    found = [str(finding) for finding in findings if finding.severity == "error"]
    if found:
        raise errors.Stalled("InvalidConfig", "; ".join(found))


def require(text: str, field: str, *, is_secret: bool = False) -> None:
    """Raises ``errors.Stalled`` with field, line and reason for a text that oslo.config cannot read."""
    refuse(check(text, "", "", Policy(is_secret=is_secret), field=field))


def values(text: str, service: str, release: str) -> dict[tuple[str, str], Any]:
    """What a service reads from a file with this text: value by section (normal form) and present name of the option.

    Only options of the catalogue that the text sets. Raises what ``check`` finds, as ``ValueError``.
    """
    catalogue = catalogues.load(service, release)
    assert catalogue is not None
    reader = Reader(catalogue, config_text.parse(text))
    return {place: reader.value(*place) for place in reader.places()}


# --- values ---------------------------------------------------------------------------------------------------------


class UnknownValue(Exception):  # noqa: N818 - not an error: the text alone does not say
    """A value refers to an option whose value does not stand in the text."""


class Reader:
    """The options of a catalogue as a text sets them. The last of several values holds, or all where an option takes
    several; a present name goes before a former one."""

    def __init__(self, catalogue: Catalogue, parsed: config_text.Parsed) -> None:
        self.catalogue = catalogue
        self._set: dict[tuple[str, str], list[Assignment]] = {}
        for one in parsed.assignments:
            self._set.setdefault((catalogues.normal(one.section), one.key), []).append(one)
        self._reading: list[tuple[str, str]] = []

    def places(self) -> list[tuple[str, str]]:
        """Section and present name of every known option that the text sets."""
        found = {}
        for section, name in self._set:
            if self.option(section, name) is not None:
                found[section, name] = True
            elif (section, name) in self.catalogue.former:
                found[self.catalogue.former[section, name]] = True
        return list(found)

    def option(self, section: str, name: str) -> Option | None:
        """An option by section and name, sections that users name themselves included."""
        catalogue = self.catalogue
        option = catalogue.find(section, name)
        if option is None and catalogue.named is not None and section not in catalogue.options:
            for template in catalogue.named.sections:
                option = option or catalogue.find(template, name)
        return option

    def has(self, one: Assignment) -> bool:
        """Whether the service has an option of this name, present or former, or may have it: nobody knows what belongs
        into sections that plug-ins name."""
        place = (catalogues.normal(one.section), one.key)
        is_open = place[0] not in self.catalogue.options and place[0].startswith(self.catalogue.prefixes or ("\0",))
        return is_open or self.option(*place) is not None or place in self.catalogue.former

    def effective(self, section: str, name: str, option: Option) -> list[Assignment]:
        """The assignments that count."""
        found: list[Assignment] = []
        for place in ((section, name), *((catalogues.normal(s), n) for s, n in option.old)):
            here = self._set.get(place, [])
            if here and not option.multi:
                return here[-1:]
            # As there: values under a former name come first.
            found = here + found
        return found

    def counted(self) -> dict[tuple[str, str], list[Assignment]]:
        """The assignments that count, by section and present name; all of those of an option that nobody knows."""
        found = {}
        for place in self.places():
            option = self.option(*place)
            assert option is not None  # places are those of known options
            found[place] = self.effective(*place, option)
        for place, assignments in self._set.items():
            if self.option(*place) is None and place not in self.catalogue.former:
                found[place] = assignments
        return found

    def value(self, section: str, name: str) -> Any:
        """Raises ``ValueError`` where the service would fail, ``UnknownValue`` where the text alone does not say."""
        option = self.option(section, name)
        assert option is not None
        convert = option_types.convert(self.catalogue.types[option.type])
        found = [convert(self.substitute(one.value, section)) for one in self.effective(section, name, option)]
        return found if option.multi else found[-1]

    def substitute(self, value: str, section: str) -> str:
        if "$" not in value:
            return value
        lookup = _Lookup(self, section)
        return config_text.Template(value.replace("\\$", "$$")).safe_substitute(lookup)

    def refer(self, key: str, section: str) -> str:
        """The text that ``$key`` stands for."""
        group, dot, name = key.partition(".")
        if dot and group not in self.catalogue.options:
            raise BadReferenceError(f"there is no section [{group}] for ${key}")
        places = [(group, name)] if dot else [(section, key)]
        for place in (*places, ("DEFAULT", key)):
            option = self.option(*place)
            if option is None:
                continue
            if place in self._reading:
                raise BadReferenceError(f"${key} refers to itself")
            if not self.effective(*place, option):
                raise UnknownValue(key)
            self._reading.append(place)
            try:
                found = self.value(*place)
            finally:
                self._reading.pop()
            return "" if found is None else str(found)
        raise BadReferenceError(f"there is no option for ${key}")


class BadReferenceError(ValueError):
    """A ``$reference`` that oslo.config cannot resolve."""


class _Lookup(dict[str, str]):
    def __init__(self, reader: Reader, section: str) -> None:
        super().__init__()
        self._reader = reader
        self._section = section

    def __missing__(self, key: str) -> str:
        return self._reader.refer(key, self._section)


# --- findings -------------------------------------------------------------------------------------------------------

_INLINE_COMMENT = re.compile(r"\s[#;](\s|$)")
_ODD = {
    "\u00a0": "a hard blank",
    "\u2013": "an en dash",
    "\u2014": "an em dash",
    "\u2018": "a typographic quote",
    "\u2019": "a typographic quote",
    "\u201c": "a typographic quote",
    "\u201d": "a typographic quote",
    "\u200b": "a blank without width",
    "\ufeff": "a byte order mark",
}
_ODD_PATTERN = re.compile(f"[{''.join(_ODD)}]")


# Each search takes up to a millisecond, and the operator waits for it. A text with more names that nobody knows is one
# for another service.
MOST_SUGGESTIONS = 30


class _Check:
    def __init__(self, catalogue: Catalogue, policy: Policy, parsed: config_text.Parsed, field: str) -> None:
        self._catalogue = catalogue
        self._policy = policy
        self._parsed = parsed
        self._field = field
        self._reader = Reader(catalogue, parsed)
        self._refused: set[int] = set()
        self._suggestions = MOST_SUGGESTIONS

    def findings(self) -> Iterator[Finding]:
        unknown: set[str] = set()
        judged: set[tuple[str, str]] = set()
        for one in self._parsed.assignments:
            section = catalogues.normal(one.section)
            yield from self._swallowed(one, section)
            if self._policy.declares(section, one.key):
                continue
            if section not in self._catalogue.options and not self._is_named(section, one.key):
                if section not in unknown and not section.startswith(self._catalogue.prefixes or ("\0",)):
                    unknown.add(section)
                    yield self._unknown_section(one)
                continue
            place = (section, one.key)
            option = self._reader.option(section, one.key)
            if option is None:
                present = self._catalogue.former.get(place)
                if present is None:
                    yield self._unknown_option(one, section)
                    continue
                yield self._former(one, present)
                place, option = present, self._catalogue.options[present[0]][present[1]]
            elif option.removal:
                since = f" since {option.since}" if option.since else ""
                why = f": {option.reason}" if option.reason else ""
                yield self._say("warning", "deprecated", one, f"is deprecated{since} and will be removed{why}")
            elif meaning := self._policy.owned.get(place):
                yield self._say("warning", "owned", one, meaning)
            if place not in judged:
                judged.add(place)
                yield from self._values(place, option)
            if not option.secret and one.line not in self._refused:
                yield from self._look(one)

    def _say(
        self, severity: Severity, rule: str, one: Assignment, message: str, suggestion: str = "", line: int = 0
    ) -> Finding:
        where = f"[{one.section}] {one.key}"
        return Finding(
            severity, rule, self._field, line or one.line, one.section, one.key, f"{where} {message}", suggestion
        )

    def _is_named(self, section: str, name: str) -> bool:
        """Whether a section is one that the user names: listed where such sections are, or with an option of theirs."""
        named = self._catalogue.named
        if named is None:
            return False
        listed = self._reader.effective(*named.option, Option(type=0))
        names = {part.partition(":")[0].strip().lower() for one in listed for part in one.value.split(",")}
        return section in names or self._reader.option(section, name) is not None

    def _values(self, place: tuple[str, str], option: Option) -> Iterator[Finding]:
        kind = self._catalogue.types[option.type]
        convert = option_types.convert(kind)
        for one in self._reader.effective(*place, option):
            try:
                convert(self._reader.substitute(one.value, place[0]))
            except UnknownValue:
                continue
            except BadReferenceError as problem:
                message = f"has a $ that oslo.config takes for a reference, and {problem}; write $$ for a dollar sign"
                if option.secret or self._policy.is_secret:
                    message = "has a $ that oslo.config takes for a reference to an option; write $$ for a dollar sign"
                yield self._say("error", "bad-reference", one, message)
            except ValueError as problem:
                shown = "" if option.secret or self._policy.is_secret else f": {one.value[:80]!r}"
                nearest = _nearest_value(kind, one.value) if shown else ""
                hint = f" (did you mean {nearest}?)" if nearest else ""
                if _INLINE_COMMENT.search(one.value):
                    hint += " (a comment needs a line of its own)"
                self._refused.add(one.line)
                yield self._say("error", "ill-typed", one, f"{problem}{shown}{hint}", nearest)

    def _unknown(self, rule: str, one: Assignment, message: str, suggestion: str) -> Finding:
        release = f"{self._catalogue.service} {self._catalogue.release}"
        hint = f" (did you mean {suggestion}?)" if suggestion else ""
        if self._policy.is_secret and not suggestion:
            # What looks like a name may be a piece of a secret that stands in a line of its own.
            return Finding(
                self._policy.severity, rule, self._field, one.line, "", "", f"an option {message} in {release}"
            )
        return self._say(self._policy.severity, rule, one, f"{message} in {release}{hint}", suggestion)

    def _unknown_section(self, one: Assignment) -> Finding:
        found = nearest_section(self._catalogue, one.section) if self._may_suggest() else ""
        return self._unknown(
            "unknown-section", one, "is in a section that does not exist", f"[{found}]" if found else ""
        )

    def _unknown_option(self, one: Assignment, section: str) -> Finding:
        found = nearest_option(self._catalogue, section, one.key) if self._may_suggest() else ""
        return self._unknown("unknown-option", one, "does not exist", found)

    def _may_suggest(self) -> bool:
        self._suggestions -= 1
        return self._suggestions >= 0

    def _former(self, one: Assignment, present: tuple[str, str]) -> Finding:
        name = f"[{self._catalogue.names[present[0]]}] {present[1]}"
        if present in self._policy.owned:
            return self._say(
                "warning", "shadowed", one, f"has no effect: the operator sets it under its present name, {name}", name
            )
        return self._say("warning", "deprecated", one, f"is deprecated: the option is {name} now", name)

    def _swallowed(self, one: Assignment, section: str) -> Iterator[Finding]:
        for line, text in one.continuations:
            name = re.split("[:=]", text, maxsplit=1)[0].strip()
            if name != text and self._reader.option(section, name) is not None:
                message = f"goes on in line {line}: {name!r} there is part of its value, because the line is indented"
                yield self._say("warning", "swallowed", one, message, line=line)

    def _look(self, one: Assignment) -> Iterator[Finding]:
        if _INLINE_COMMENT.search(one.value):
            message = "has a value that ends in what looks like a comment; all of it is the value"
            yield self._say("warning", "inline-comment", one, message)
        if not one.value.isascii() and (odd := _ODD_PATTERN.search(one.value)):
            yield self._say("warning", "odd-character", one, f"has {_ODD[odd[0]]} in its value")


def _nearest_value(kind: catalogues.Type, value: str) -> str:
    known = kind.choices or (("true", "false") if kind.kind == "Boolean" else ())
    texts = [str(one) for one in known]
    found = difflib.get_close_matches(value, texts, 1) or [one for one in texts if one.lower() == value.strip().lower()]
    return found[0] if found else ""


# Texts with the same mistake are checked again with every pass, and each search takes a millisecond.
@functools.lru_cache(maxsize=512)
def nearest_section(catalogue: Catalogue, section: str) -> str:
    key = section.strip().lower()
    if key == "default":
        return "DEFAULT"
    if key in catalogue.names:
        return catalogue.names[key]
    found = difflib.get_close_matches(key, catalogue.names, 1, 0.75)
    return catalogue.names[found[0]] if found else ""


@functools.lru_cache(maxsize=512)
def nearest_option(catalogue: Catalogue, section: str, name: str) -> str:
    here = catalogue.options.get(section, {})
    plain = name.strip().lower().replace("-", "_")
    if plain in here:
        return plain
    elsewhere = catalogue.everywhere.get(plain, ())
    if 0 < len(elsewhere) <= 3:
        return " or ".join(f"[{catalogue.names[one]}] {plain}" for one in elsewhere)
    found = difflib.get_close_matches(plain, here, 1, 0.75)
    if found:
        return found[0]
    similar = [one for one in catalogue.everywhere if abs(len(one) - len(plain)) <= 2]
    found = difflib.get_close_matches(plain, similar, 1, 0.85)
    if found:
        return f"[{catalogue.names[catalogue.everywhere[found[0]][0]]}] {found[0]}"
    return ""


# --- what the operator sets itself ----------------------------------------------------------------------------------

_MEANINGS = (
    ("database", "the operator makes the database, its user and its password, and no longer gives them to the service"),
    ("messaging", "the operator makes the user and virtual host of the message bus, and no longer gives them here"),
    ("identity", "the operator follows Keystone's URL, and the service no longer does"),
    ("cache", "the operator follows the cache servers, and the service no longer does"),
    ("service_user", "the operator makes the service's user and password in Keystone, and the service uses others"),
)


def owned(rows: Iterable[ini.Row]) -> dict[tuple[str, str], str]:
    """What it means to override each row that others rely on: connections, credentials, addresses, paths, and what a
    field of the spec sets. Rows that are a mere choice of ours are free to change."""
    rows = tuple(rows)
    logins = {row.section for row in rows if row.option == "auth_type"}
    found = {}
    for row in rows:
        place = (catalogues.normal(row.section), row.option)
        kind, _, rest = row.origin.partition(" ")
        if kind == "fact":
            name = rest.partition(".")[0]
            why = next((text for prefix, text in _MEANINGS if name.startswith(prefix)), f"it follows {rest} no longer")
            found[place] = f"overrides what the operator sets: {why}"
        elif row.origin.startswith("spec."):
            found[place] = f"overrides {row.origin}, which has no effect any more"
        elif row.origin.startswith("fixed:"):
            value = row.value(None, {})
            if row.section in logins or (isinstance(value, str) and value.startswith(("/", "unix:"))):
                found[place] = f"overrides what the operator sets ({row.origin.removeprefix('fixed: ')})"
        else:
            found[place] = f"overrides what the operator derives from {row.origin}"
    return found
