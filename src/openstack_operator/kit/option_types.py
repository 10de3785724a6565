"""What values an option takes: the types of oslo.config, read as it reads them, without importing it.

`convert(type)` gives a function from a file's text to the value that a service would see; it raises ValueError with the
reason. The rules are those of oslo_config.types; a differential test (`tests/kit/test_oslo_differential.py`) holds the
two together. Called by `custom_config`.
"""

from __future__ import annotations

import functools
import re
import socket
from collections.abc import Callable
from typing import Any

from openstack_operator.kit.catalogues import Type

Convert = Callable[[str], Any]

TRUE = frozenset(("true", "1", "on", "yes"))
FALSE = frozenset(("false", "0", "off", "no"))


@functools.cache
def convert(kind: Type) -> Convert:
    """The function that reads values of a type. A type that is a service's own program takes any text."""
    make = _MAKERS.get(kind.kind)
    return make(kind) if make else _anything


def words(kind: Type) -> str:
    """A type for people: what a value must be."""
    noun = _NOUNS.get(kind.kind, "a text")
    if kind.choices:
        return f"one of {', '.join(map(str, kind.choices))}"
    # A bound of the machine's integers says nothing to people.
    high = None if kind.max is None or kind.max >= 2**31 - 1 else kind.max
    if kind.min is not None and high is not None:
        return f"{noun} from {kind.min} to {high}"
    if kind.min is not None:
        return f"{noun} of at least {kind.min}"
    if kind.max is not None:
        return f"{noun} of at most {kind.max}"
    return noun


def _anything(value: str) -> Any:
    return value


def _string(kind: Type) -> Convert:
    pattern = re.compile(kind.regex, kind.regex_flags) if kind.regex is not None else None
    choices = None if kind.choices is None else frozenset(kind.choices)
    folded = frozenset(str(one).lower() for one in kind.choices or ()) if kind.ignore_case else None
    if pattern is None and choices is None and not kind.quotes and not kind.max_length:
        return _anything

    def read(value: str) -> str:
        if kind.quotes and value and value[0] in "\"'":
            if len(value) == 1 or value[-1] != value[0]:
                raise ValueError("a quote that is not closed")
            value = value[1:-1]
        if kind.max_length and len(value) > kind.max_length:
            raise ValueError(f"longer than {kind.max_length} characters")
        if pattern is not None and not pattern.search(value):
            raise ValueError(f"does not match {kind.regex}")
        if choices is not None and (value.lower() not in folded if folded is not None else value not in choices):
            raise ValueError(f"must be {words(kind)}")
        return value

    return read


def _boolean(kind: Type) -> Convert:
    def read(value: str) -> bool:
        text = value.lower()
        if text in TRUE:
            return True
        if text in FALSE:
            return False
        raise ValueError("must be true or false (or yes, no, on, off, 1, 0)")

    return read


def _number(kind: Type) -> Convert:
    parse: Callable[[str], int | float] = float if kind.kind == "Float" else int
    low, high = kind.min, kind.max

    def read(value: str) -> int | float | None:
        text = value.strip()
        if not text:
            return None
        try:
            number = parse(text)
        except ValueError:
            raise ValueError(f"must be {words(kind)}") from None
        if kind.choices is not None:
            if number not in kind.choices:
                raise ValueError(f"must be {words(kind)}")
        elif (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"must be {words(kind)}")
        return number

    return read


def _length(kind: Type, number: int) -> None:
    if number < kind.min_length:
        raise ValueError(f"must have at least {kind.min_length} entries")


def _inside(kind: Type, value: str, first: str, last: str) -> str:
    if not kind.bounds:
        return value
    if not value.startswith(first) or not value.endswith(last):
        raise ValueError(f"must stand in {first} and {last}")
    return value[1:-1]


def _list(kind: Type) -> Convert:
    item = convert(kind.item) if kind.item is not None else _anything

    def read(value: str) -> list[Any]:
        text = _inside(kind, value.strip().rstrip(","), "[", "]")
        if not text:
            _length(kind, 0)
            return []
        parts = text.split(",")
        if item is _anything:
            _length(kind, len(parts))
            return [part.strip() for part in parts]
        found = []
        while parts:
            # An entry that does not fit may be one that has commas of its own: it is tried with the next part.
            part = parts.pop(0)
            while True:
                try:
                    found.append(item(part.strip()))
                    break
                except ValueError:
                    if not parts:
                        raise
                part += "," + parts.pop(0)
        _length(kind, len(found))
        return found

    return read


def _dict(kind: Type) -> Convert:
    item = convert(kind.item) if kind.item is not None else _anything

    def pair_of(text: str) -> tuple[str, Any]:
        key, separator, value = text.partition(kind.separator)
        if not separator:
            raise ValueError(f"must be pairs NAME{kind.separator}VALUE with commas between them")
        return key.strip(), item(value.strip())

    def read(value: str) -> dict[str, Any]:
        text = _inside(kind, value.strip(), "{", "}")
        if not text:
            _length(kind, 0)
            return {}
        found: dict[str, Any] = {}
        parts = text.split(",")
        while parts:
            part = parts.pop(0)
            while True:
                try:
                    name, entry = pair_of(part)
                    break
                except ValueError:
                    if not parts:
                        raise
                part += "," + parts.pop(0)
            if not name:
                raise ValueError("has a pair without a name")
            if name in found:
                raise ValueError(f"has {name} twice")
            found[name] = entry
        _length(kind, len(found))
        return found

    return read


_RANGE = re.compile(r"^(0|-?[1-9][0-9]*)(?:-(0|-?[1-9][0-9]*))?$")


def _range(kind: Type) -> Convert:
    def read(value: str) -> range:
        match = _RANGE.match(value)
        if not match:
            raise ValueError("must be a number, or two with - between them")
        left = int(match[1])
        right = left if match[2] is None else int(match[2])
        low, high = min(left, right), max(left, right)
        # As there: equal ends are compared as a range that runs down.
        if (kind.min is not None and low < kind.min) or (kind.max is not None and high > kind.max):
            raise ValueError(f"must be {words(kind)}")
        step = 1 if left < right else -1
        return range(left, right if kind.exclusive else right + step, step)

    return read


def is_address(value: str, version: int = 0) -> bool:
    """Whether a text is an IP address in full form."""
    families = {4: (socket.AF_INET,), 6: (socket.AF_INET6,)}.get(version, (socket.AF_INET, socket.AF_INET6))
    for family in families:
        try:
            socket.inet_pton(family, value)
        except (OSError, ValueError):
            continue
        return True
    return False


def _address(kind: Type) -> Convert:
    def read(value: str) -> str:
        if not is_address(value, kind.version):
            raise ValueError(f"must be {words(kind)}" + (f" of version {kind.version}" if kind.version else ""))
        return value

    return read


_LABEL = re.compile(r"(?!-)[A-Z0-9-]{1,63}(?<!-)$", re.IGNORECASE)
# As there: from 9 to underscore, by the hyphen between them, which takes in : ; < = > ? @ [ \ ] ^ too.
_LABEL_UNDERSCORE = re.compile(r"(?!-)[A-Z0-9-_]{1,63}(?<!-)$", re.IGNORECASE)


def _host_name(value: str, label: re.Pattern[str]) -> str:
    if not 0 < len(value) <= 253:
        raise ValueError("must be a host name of 1 to 253 characters")
    value = value.removesuffix(".")
    parts = value.split(".")
    if not re.search("[a-zA-Z-]", parts[-1]) or not all(label.match(part) for part in parts):
        raise ValueError("must be a host name")
    return value


def _hostname(kind: Type) -> Convert:
    return lambda value: _host_name(value, _LABEL)


def _host(kind: Type) -> Convert:
    labels = (_LABEL, _LABEL_UNDERSCORE) if kind.kind == "HostDomain" else (_LABEL,)

    def read(value: str) -> str:
        if is_address(value, kind.version):
            return value
        for label in labels:
            try:
                return _host_name(value, label)
            except ValueError:
                continue
        raise ValueError(f"must be {words(kind)}")

    return read


# RFC 3986, appendix A and B, as the library behind oslo.config reads it: schemes as strict as the RFC, a backslash ends
# the authority, numeric hosts are checked for their bytes.
_PERCENT = "%[0-9A-Fa-f]{2}"
_UNRESERVED = r"A-Za-z0-9._~\-"
_DELIMITERS = r"!$&'()*+,;="
_PARTS = re.compile(r"(?:(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*):)?(?://(?P<authority>[^\\/?#]*))?(?P<path>[^?#]*)")
_NAME = f"(?:{_PERCENT}|[{_DELIMITERS}{_UNRESERVED}])*"
_AUTHORITY = re.compile(
    f"^(?:(?:[{_UNRESERVED}{_DELIMITERS}:]|{_PERCENT})+@)?"
    rf"(?P<host>{_NAME}|\[(?P<six>[0-9A-Fa-f:.]+)(?P<zone>%(?:[{_UNRESERVED}]|{_PERCENT})+)?\]"
    rf"|\[v[0-9A-Fa-f]+\.[{_UNRESERVED}{_DELIMITERS}:]+\]):?(?:[0-9]{{1,5}})?$"
)
_PATH = re.compile(f"^(?:[{_UNRESERVED}{_DELIMITERS}:@/]|{_PERCENT})*$")
_FOUR = re.compile(r"^(?:[0-9]{1,3}\.){3}[0-9]{1,3}$")


def _uri(kind: Type) -> Convert:
    def read(value: str) -> str:
        parts = _PARTS.match(value)
        assert parts is not None  # every part of it may be empty
        scheme, authority = parts["scheme"], parts["authority"]
        if scheme is None or not authority:
            raise ValueError("must be a URI with a scheme and a host, such as http://host:80/path")
        match = _AUTHORITY.match(authority)
        if not match or (match["six"] and not is_address(match["six"], 6)):
            raise ValueError("must be a URI with a valid host and port")
        if match["zone"] and not match["zone"].startswith("%25"):
            raise ValueError("must be a URI whose zone is written with %25")
        if _FOUR.match(match["host"]) and any(int(byte) > 255 for byte in match["host"].split(".")):
            raise ValueError("must be a URI with a valid address")
        if kind.schemes and scheme not in kind.schemes:
            raise ValueError(f"must be a URI with a scheme of {', '.join(kind.schemes)}")
        if not _PATH.match(_encoded(parts["path"])):
            raise ValueError("must be a URI with a valid path")
        if kind.max_length and len(value) > kind.max_length:
            raise ValueError(f"longer than {kind.max_length} characters")
        return value

    return read


def _encoded(path: str) -> str:
    """A path as it is compared: what no URI may hold is written in percents first; % stays where all of them escape."""
    raw = path.encode("utf-8", "surrogateescape")
    escapes = raw.count(b"%") == len(re.findall(b"%[0-9A-Fa-f]{2}", raw))
    kept = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._!-~:/?#[]@$&'()*+,;="
    return "".join(chr(byte) if byte in kept or (byte == ord("%") and escapes) else f"%{byte:02X}" for byte in raw)


_MAKERS: dict[str, Callable[[Type], Convert]] = {
    "String": _string,
    "Boolean": _boolean,
    "Integer": _number,
    "Float": _number,
    "Port": _number,
    "List": _list,
    "Dict": _dict,
    "Range": _range,
    "IPAddress": _address,
    "Hostname": _hostname,
    "HostAddress": _host,
    "HostDomain": _host,
    "URI": _uri,
}

_NOUNS = {
    "Boolean": "true or false",
    "Integer": "a whole number",
    "Float": "a number",
    "Port": "a port number",
    "List": "a list with commas",
    "Dict": "pairs NAME:VALUE with commas",
    "Range": "a range of numbers",
    "IPAddress": "an IP address",
    "Hostname": "a host name",
    "HostAddress": "an address or a host name",
    "HostDomain": "an address or a host name",
    "URI": "a URI",
}
