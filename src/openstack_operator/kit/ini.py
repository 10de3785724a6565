"""Configuration files as rows of data (STYLE C1), rendered with the origin of every option (C2).

A service's ``config.py`` holds its rows; ``render`` turns them into the text of a file, split into what may stand in a
ConfigMap and what must stand in a Secret. Users' own text is checked in ``custom_config``; where the files go is in
``config``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openstack_operator.runtime import errors

Value = str | int | bool | None
"""None leaves the option out."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One option: where its value comes from, and what to call that.

    ``origin`` is what the comment line in the file says: "spec.replicas", "fact database.url", "fixed: why".
    """

    section: str
    option: str
    origin: str
    value: Callable[[Any, Mapping[str, Any]], Value]
    secret: bool = False


def fixed(section: str, option: str, value: Value, why: str) -> Row:
    """The same for everybody; ``why`` is for the reader of the file."""
    return Row(section, option, f"fixed: {why}", lambda spec, facts: value)


def spec(section: str, option: str, path: str) -> Row:
    """A field of the spec, by its YAML path without ``spec.``: ``fernet.maxActiveKeys``."""
    attributes = [_snake(part) for part in path.split(".")]

    def read(model: Any, facts: Mapping[str, Any]) -> Value:
        for attribute in attributes:
            model = getattr(model, attribute)
        value: Value = model
        return value

    return Row(section, option, f"spec.{path}", read)


def fact(section: str, option: str, name: str, *, secret: bool = False) -> Row:
    """Something that a step found out (``scope.facts``). Every fact that carries a credential is ``secret``."""
    return Row(section, option, f"fact {name}", lambda model, facts: facts[name], secret)


def computed(
    section: str,
    option: str,
    function: Callable[[Any, Mapping[str, Any]], Value],
    origin: str,
    *,
    secret: bool = False,
) -> Row:
    """Derived from spec and facts; ``origin`` names what it is derived from."""
    return Row(section, option, origin, function, secret)


def login(section: str, *, user: str = "service_user") -> tuple[Row, ...]:
    """The rows of a keystoneauth section that gets tokens as the service's own user, and asks for no endpoint."""
    return (
        fixed(section, "auth_type", "password", "service users log in with a password"),
        fact(section, "auth_url", "identity.url"),
        fact(section, "username", f"{user}.user"),
        fact(section, "password", f"{user}.password", secret=True),
        fixed(section, "project_name", "service", "the project of all service users"),
        fixed(section, "user_domain_name", "Default", "the domain of all service users"),
        fixed(section, "project_domain_name", "Default", "the domain of the service project"),
    )


def keystone_client(section: str, *, user: str = "service_user") -> tuple[Row, ...]:
    """The rows of a keystoneauth section that logs in as the service's own user and looks for an endpoint in the
    catalogue."""
    return (*login(section, user=user), spec(section, "region_name", "region"))


def authtoken(service_type: str) -> tuple[Row, ...]:
    """[keystone_authtoken]: how an API checks its callers' tokens."""
    section = "keystone_authtoken"
    return (
        *keystone_client(section),
        fact(section, "www_authenticate_uri", "identity.public_url"),
        fact(section, "memcached_servers", "cache.servers"),
        fixed(section, "service_token_roles_required", True, "only real services may pass service tokens"),
        fixed(section, "service_token_roles", "service", "the role of all service users"),
        fixed(section, "service_type", service_type, "must equal the catalogue's type for access rules"),
    )


def database(section: str, name: str = "database", *, password_file: bool = False) -> tuple[Row, ...]:
    """A database section. ``name`` is the fact's prefix; with ``password_file`` the URL holds no password
    (``kit.database.client_file``)."""
    connection = (
        fact(section, "connection", f"{name}.file_url")
        if password_file
        else fact(section, "connection", f"{name}.url", secret=True)
    )
    return (
        connection,
        fixed(section, "connection_recycle_time", 10, "idle connections end before anything cuts them"),
        fixed(section, "max_retries", -1, "a database that is away for a while is waited for"),
        fixed(section, "max_pool_size", 5, "one worker per pod; replicas add up against max_connections"),
    )


def messaging() -> tuple[Row, ...]:
    """The message bus: quorum queues from the start, because changing the kind later needs a fresh virtual host.

    ``use_queue_manager`` stays off. It names the queue of replies after host and process: one that starts while its
    predecessor on that host is still going, or while the bus has not noticed that it is gone, shares its queue, and
    every second reply goes there. A nova-compute did not come up for 80 s by that.
    """
    section = "oslo_messaging_rabbit"
    return (
        fact("DEFAULT", "transport_url", "messaging.url", secret=True),
        fixed(section, "rabbit_quorum_queue", True, "queues survive the loss of a member"),
        fixed(section, "rabbit_transient_quorum_queue", True, "reply queues survive the loss of a member"),
        fixed(section, "rabbit_stream_fanout", True, "fanout without a queue per consumer"),
        fixed(section, "rabbit_qos_prefetch_count", 10, "streams need a limit above 0"),
        fixed("oslo_messaging_notifications", "driver", "noop", "nobody consumes notifications yet"),
    )


CACHE_SECONDS = 60
"""How long an entry of a cache lasts, and how long a pod does without a Memcached that did not answer it. As long as it
does without, nothing that it changes is taken out of that cache; what was there before must not be found again when it
comes back. By default an entry lasts twice as long as that (600 s, 300 s), and a catalogue without the endpoints that
were made meanwhile was in use for five minutes."""


def cache(section: str = "cache") -> tuple[Row, ...]:
    return (
        fixed(section, "enabled", True, "every pod shares the cache"),
        fixed(section, "backend", "oslo_cache.memcache_pool", "the backend that survives a restart of memcached"),
        fact(section, "memcache_servers", "cache.servers"),
        fixed(section, "memcache_dead_retry", CACHE_SECONDS, "how long to do without a server that did not answer"),
        fixed(section, "expiration_time", CACHE_SECONDS, "what that server held is over when it is asked again"),
    )


def logging() -> tuple[Row, ...]:
    return (
        fixed("DEFAULT", "use_stderr", True, "logs belong to the container's output"),
        fixed("DEFAULT", "log_file", "", "no files in a read-only root"),
    )


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A file in two parts that are concatenated: ``public`` for a ConfigMap, ``secret`` for a Secret."""

    public: str
    secret: str


def render(rows: Iterable[Row], model: Any, facts: Mapping[str, Any]) -> Rendered:
    """The text of a file. Raises ``KeyError`` for a fact that no step has set: a mistake in the table of steps.

    Raises ``errors.Stalled`` for a value that no line of an oslo.config file can hold.
    """
    parts: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
    for row in rows:
        value = row.value(model, facts)
        if value is None:
            continue
        lines = parts[row.secret].setdefault(row.section, [])
        lines += [f"# {row.origin}", f"{row.option} = {literal(value, row)}"]
    return Rendered(*(_join(parts[secret]) for secret in (False, True)))


def literal(value: Value, row: Row) -> str:
    """A value so that oslo.config reads back the same one: ``$`` escaped, outer quotes protected."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if "\n" in text or "\r" in text:
        raise errors.Stalled("InvalidValue", f"[{row.section}] {row.option} ({row.origin}) contains a line break")
    # Not doubled: oslo.config takes a backslash before a dollar for an escape of its own, so that \$$ would be $$$.
    text = text.replace("$", "\\$")
    # The parser strips blanks and one pair of equal quotes.
    if text != text.strip() or (text and text[0] == text[-1] and text[0] in "\"'"):
        return f'"{text}"'
    return text


def _join(sections: Mapping[str, list[str]]) -> str:
    return "".join(f"[{name}]\n" + "\n".join(lines) + "\n\n" for name, lines in sections.items())


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
