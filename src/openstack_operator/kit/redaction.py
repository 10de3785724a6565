"""Text that others wrote (log lines, answers of probes) without the secrets in it, before it stands in a message.

Two ways, because neither is enough: secrets are known by what stands around them, and those in Secrets of ours by
themselves. Called by ``pods``.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from openstack_operator.kit import credentials
from openstack_operator.runtime import kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope

MASK = "***"

# user:password@ of a URL, up to the last @ of the word: a password may hold one, and a list of servers holds many.
_LOGIN = re.compile(r"(://[^:/@\s]*):\S*@")
_NAMES = "passw(?:or)?d|pwd|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|cookie|credential"
_NAMED = re.compile(
    rf"""(?ix) (["']? \b [\w.-]* (?:{_NAMES}) [\w.-]* ["']? \s* [=:] \s* ) ( "[^"]*" | '[^']*' | [^\s,;)}}\]]+ )"""
)
# "Access denied for user … (using password: YES)" tells whether there was one.
_NO_SECRET = re.compile(r"(?i)(yes|no|none|null|true|false|\*+)$")
_IN_SQL = re.compile(r"(?i)(\bidentified\s+(?:by|via\s+\S+\s+using)(?:\s+password)?\s*\(?\s*)('[^']*'|\"[^\"]*\")")
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}")
_FERNET = re.compile(r"\bgAAAA[\w=-]{20,}")

# Keys of Secrets whose values are secret however short, and those whose values are none.
_SECRET_KEYS = re.compile(r"(?i)passw|pwd|secret|token|key|cookie")
_PLAIN_KEYS = frozenset({"user", "username", "hostname", "host", "port", "database"})
# Shorter ones would take letters out of ordinary words. Of a value with another key the length says that it is none.
SHORTEST_PASSWORD, SHORTEST_VALUE = 4, 16


def without_logins(text: str) -> str:
    """The text with the passwords of its URLs hidden."""
    return _LOGIN.sub(rf"\1:{MASK}@", text)


def without_patterns(text: str) -> str:
    """The text without what looks like a secret: logins of URLs, values with telling names, tokens."""

    def named(found: re.Match[str]) -> str:
        value = found[2].strip("\"'")
        # "failed to fetch token: not found": after a colon stands what is wrong with it, unless it looks like one.
        is_prose = ":" in found[1] and value == found[2] and not re.search(r"(?i)passw|pwd", found[1])
        if _NO_SECRET.match(value) or (is_prose and not re.search(r"^(?=.*\d).{8,}", value)):
            return found[0]
        return f"{found[1]}{MASK}"

    text = _SCHEME.sub(rf"\1 {MASK}", _FERNET.sub(MASK, without_logins(text)))
    return _NAMED.sub(named, _IN_SQL.sub(rf"\1'{MASK}'", text))


def without_values(text: str, values: Iterable[str]) -> str:
    """The text without these secrets, as they are and as they stand in URLs."""
    forms = {form for value in values for form in (value, urllib.parse.quote(value, safe=""))}
    # The longest first: one may be a part of another.
    for form in sorted(forms, key=lambda one: (-len(one), one)):
        text = text.replace(form, MASK)
    return text


def secret_values(secret: Object) -> set[str]:
    """The values in a Secret that must not be shown; of files, none: what is secret in them stands in others too."""
    try:
        content = credentials.decode(secret)
    except ValueError:
        # Binary: no line of text has it.
        return set()
    return {
        value
        for key, value in content.items()
        if key not in _PLAIN_KEYS
        and len(value) >= (SHORTEST_PASSWORD if _SECRET_KEYS.search(key) else SHORTEST_VALUE)
        # Of a URL the password alone is secret, and a file is not quoted as a whole.
        and not re.search(r"\s|://", value)
    }


def for_message(scope: Scope[Any], text: str) -> str:
    """The text without secrets of any Secret that the operator caches in the scope's namespace, and without what looks
    like one."""
    values: set[str] = set()
    for secret in scope.manager.cached_items(kinds.SECRET, scope.namespace):
        values |= secret_values(secret)
    return without_patterns(without_values(text, values))
