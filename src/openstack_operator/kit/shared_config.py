"""Text for all services of a cloud: which part of it each one gets, and what is to be said about it.

A control plane's ``customServiceConfig`` may name options that some services have and others do not. Each service gets
the options that it has, so that another value restarts only those that read it; an option is unknown where no service
of the cloud has it, and then none gets it. Called by the control plane (what it hands down, and its condition
ConfigValid), by admission and by lint. What is said about the text of one service is in `custom_config`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from openstack_operator.kit import catalogues, config_text, custom_config
from openstack_operator.kit.config_text import Assignment, Parsed
from openstack_operator.kit.custom_config import Finding, Policy

Owned = Callable[[str], Mapping[tuple[str, str], str]]
"""What an override of an option means that the operator sets for a service (``custom_config.Policy.owned``)."""


def part(text: str, service: str, release: str, known: Iterable[str] = ()) -> str:
    """What a service gets: its options with their sections, and those in ``known`` (``configPolicy.knownOptions``).

    Comments stay behind, so that another one is no change of the service's object. Nothing of a text that nobody can
    read: it is refused where it stands.
    """
    try:
        parsed = config_text.parse(text)
    except config_text.UnreadableError:
        return ""
    takes = _taker(service, release, parsed, Policy(known=custom_config.known_options(known)))
    lines, section = [], ""
    for one in parsed.assignments:
        if not takes(one):
            continue
        if one.section != section:
            section = one.section
            lines.append(f"[{section}]")
        lines += [one.text, *(f"  {line}" for _, line in one.continuations)]
    return "".join(f"{line}\n" for line in lines)


def check(
    text: str, services: Sequence[str], release: str, policy: Policy, owned: Owned, *, field: str
) -> tuple[Finding, ...]:
    """Everything that is to be said about a text, in the order of its lines; the message says for which services."""
    try:
        parsed = config_text.parse(text)
    except config_text.UnreadableError:
        return custom_config.check(text, "", release, policy, field=field)
    services = [service for service in services if catalogues.load(service, release) is not None]
    found = list(_unknown(parsed, services, release, policy, field))
    said: dict[Finding, list[str]] = {}
    for service in services:
        judged = policy.of(owned(service))
        for finding in custom_config.check(text, service, release, judged, field=field):
            if finding.rule not in custom_config.UNKNOWN:
                said.setdefault(finding, []).append(service)
    found += [finding.among(names) for finding, names in said.items()]
    return tuple(sorted(found, key=lambda one: one.line))


def _taker(service: str, release: str, parsed: Parsed, policy: Policy) -> Callable[[Assignment], bool]:
    catalogue = catalogues.load(service, release)
    if catalogue is None:
        return lambda one: False
    reader = custom_config.Reader(catalogue, parsed)
    return lambda one: policy.declares(catalogues.normal(one.section), one.key) or reader.has(one)


def _unknown(parsed: Parsed, services: Sequence[str], release: str, policy: Policy, field: str) -> Iterator[Finding]:
    takers = [_taker(service, release, parsed, policy) for service in services]
    known = [one for one in map(lambda name: catalogues.load(name, release), services) if one is not None]
    sections: set[str] = set()
    for one in parsed.assignments:
        if any(takes(one) for takes in takers):
            continue
        section = catalogues.normal(one.section)
        if any(section in catalogue.options for catalogue in known):
            rule, what, like = "unknown-option", f"[{one.section}] {one.key}", one.key
            near = [custom_config.nearest_option(catalogue, section, one.key) for catalogue in known]
        elif section not in sections:
            sections.add(section)
            rule, what, like = "unknown-section", f"[{one.section}]", one.section
            near = [custom_config.nearest_section(catalogue, one.section) for catalogue in known]
            near = [f"[{name}]" for name in near if name]
        else:
            continue
        suggestion = max(near, key=lambda name: difflib.SequenceMatcher(None, name, like).ratio(), default="")
        hint = f" (did you mean {suggestion}?)" if suggestion else ""
        place = one.section, one.key
        if policy.is_secret and not suggestion:
            # What looks like a name may be a piece of a secret that stands in a line of its own.
            what, place = "an option", ("", "")
        message = f"{what} does not exist in any service of this cloud, and reaches none{hint}"
        yield Finding(policy.severity, rule, field, one.line, *place, message, suggestion)
