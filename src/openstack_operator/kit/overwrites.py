"""Whole files that users put in the place of a service's own: which there are, and whether a service can read them.

``defaultConfigOverwrite`` maps names of files to texts; which names, the type of the settings says
(``types.Configurable.overwritable``). `check` is the one answer for the controllers (ConfigValid), admission and lint.
`config` writes the files, and `rows` says how the process is told of them.
"""

from __future__ import annotations

import configparser
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openstack_operator.kit import effective, ini, policy_text
from openstack_operator.kit.custom_config import Finding, Policy

FIELD = "defaultConfigOverwrite"
POLICY = "policy.yaml"
LOGGING = "logging.conf"

# What logging.config.fileConfig fails without (docs.python.org, "Configuration file format").
_LOGGING_SECTIONS = ("loggers", "handlers", "formatters")


def rows(names: Iterable[str], directory: str, origin: str = f"spec.{FIELD}") -> tuple[ini.Row, ...]:
    """The options that name these files; paste files are found beside the configuration file. ``origin`` has the
    fields that the files may stand in."""
    places = {POLICY: ("oslo_policy", "policy_file"), LOGGING: ("DEFAULT", "log_config_append")}

    def path(name: str) -> Callable[[Any, Mapping[str, Any]], ini.Value]:
        return lambda spec, facts: f"{directory}/{name}"

    return tuple(
        ini.computed(*places[name], path(name), f"{origin}: {name}") for name in sorted(names) if name in places
    )


def content(name: str, text: str) -> Any:
    """What a file says to the process that reads it, whatever its comments and order."""
    if name == POLICY:
        return policy_text.content(text)
    try:
        return {section: dict(options) for section, options in _parsed(text).items()}
    except configparser.Error:
        return effective.lines(text)


def check(
    files: Mapping[str, str], allowed: Iterable[str], service: str, release: str, policy: Policy, *, field: str
) -> tuple[Finding, ...]:
    """Everything that is to be said about the files of one field."""
    found: list[Finding] = []
    names = sorted(allowed)
    for name, text in sorted(files.items()):
        where = f"{field}[{name}]"
        if name not in names:
            message = f"is none of the files that can be overwritten here: {', '.join(names)}"
            found.append(Finding("error", "file-not-allowed", where, 0, "", name, message))
        elif name == POLICY:
            found += policy_text.check(text, service, release, policy, field=where)
        else:
            found += _check_ini(name, text, where)
    return tuple(found)


def _check_ini(name: str, text: str, field: str) -> Iterable[Finding]:
    try:
        parsed = _parsed(text)
    except configparser.ParsingError as problem:
        # Its subclass for a line before any section has no list.
        line = getattr(problem, "lineno", None) or problem.errors[0][0]
        yield Finding("error", "unreadable", field, line, "", "", "is no [section], option or comment")
    except (configparser.DuplicateSectionError, configparser.DuplicateOptionError) as problem:
        what = f"[{problem.section}]" + (f" {option}" if (option := getattr(problem, "option", "")) else "")
        yield Finding("error", "unreadable", field, problem.lineno or 0, "", "", f"{what} stands there already")
    else:
        missing = [section for section in _LOGGING_SECTIONS if section not in parsed] if name == LOGGING else []
        for section in missing:
            message = f"has no section [{section}], without which the service does not start"
            yield Finding("error", "unreadable", field, 0, section, "", message)


def _parsed(text: str) -> configparser.RawConfigParser:
    """As paste.deploy and logging.config read it. Raises ``configparser.Error``."""
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser
