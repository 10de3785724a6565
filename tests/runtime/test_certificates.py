"""The webhook's certificate: its life as a table of states, what openssl makes, what a spoilt Secret means."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import os
import ssl
from typing import Any

import pytest

from openstack_operator.runtime import certificates
from openstack_operator.runtime.certificates import LIFE, RENEW, SETTLE, Held, Pair

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)


def pair(name: str, made: datetime.datetime) -> Pair:
    return Pair(f"certificate {name}", f"key {name}", made)


FRESH = certificates.begin("A", pair("a", START))


def test_nothing_is_due_for_a_certificate_that_is_young() -> None:
    now = START + RENEW - SECOND
    assert certificates.due(FRESH) == START + RENEW
    assert not certificates.needs_pair(FRESH, now)
    assert certificates.advance(FRESH, now, is_published=True) == FRESH


def test_the_old_authority_is_trusted_until_all_replicas_have_the_new_certificate() -> None:
    renewed = START + RENEW
    new = pair("b", renewed)
    assert certificates.needs_pair(FRESH, renewed)
    staged = certificates.advance(FRESH, renewed, is_published=True, fresh=("B", new))
    assert staged == Held(FRESH.served, ("A", "B"), renewed, new), "served is the old one, both are trusted"

    soon, later = renewed + SETTLE - SECOND, renewed + SETTLE
    assert certificates.advance(staged, soon, is_published=True) == staged
    assert certificates.advance(staged, later, is_published=False) == staged, "API servers may not know B yet"
    promoted = certificates.advance(staged, later, is_published=True)
    assert promoted == Held(new, ("A", "B"), later)

    assert not certificates.needs_pair(promoted, later + SETTLE)
    assert certificates.advance(promoted, later + SETTLE - SECOND, is_published=True) == promoted
    settled = certificates.advance(promoted, later + SETTLE, is_published=True)
    assert settled == Held(new, ("B",), later + SETTLE)
    assert certificates.due(settled) == renewed + RENEW


def test_an_operator_that_comes_back_too_late_begins_anew() -> None:
    late = START + LIFE
    new = pair("b", late)
    assert certificates.needs_pair(FRESH, late)
    assert certificates.advance(FRESH, late, is_published=False, fresh=("B", new)) == certificates.begin("B", new)
    assert certificates.needs_pair(None, START)


async def made() -> Held:
    return certificates.begin(*await certificates.make(("DNS:operator.system.svc", "IP:127.0.0.1"), START))


async def greet(served: ssl.SSLContext, bundle: str, name: str) -> None:
    """A connection as the API server makes it. Raises ssl.SSLError where that would refuse it."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=served) as server:
        port = server.sockets[0].getsockname()[1]
        trusting = ssl.create_default_context(cadata=bundle)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name)
        writer.close()
        await writer.wait_closed()


async def test_what_openssl_makes_is_trusted_by_its_authority_alone_and_for_its_names_alone() -> None:
    held, other = await made(), await made()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificates.load(context, held.served)
    for name in ("operator.system.svc", "127.0.0.1"):
        await greet(context, held.bundle, name)
        await greet(context, other.bundle + held.bundle, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(context, held.bundle, "other.system.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(context, other.bundle, "127.0.0.1")
    # The next connection meets what was loaded last.
    certificates.load(context, other.served)
    await greet(context, other.bundle, "127.0.0.1")


async def test_a_secret_gives_back_what_was_put_into_it_and_shows_no_key() -> None:
    held = await made()
    both = dataclasses.replace(held, staged=(await made()).served, trusted=(*held.trusted, *(await made()).trusted))
    for one in (held, both):
        assert certificates.from_data({"data": certificates.to_data(one)}) == one
        assert "PRIVATE KEY" not in repr(one)


@pytest.mark.parametrize(
    ("key", "value"),
    [("tls.key", None), ("tls.crt", b"nonsense"), ("ca.crt", b""), ("dates.json", b"{}"), ("tls.key", b"\xff")],
)
async def test_a_spoilt_secret_counts_as_none(key: str, value: bytes | None) -> None:
    data: dict[str, Any] = certificates.to_data(await made())
    if value is None:
        del data[key]
    else:
        data[key] = base64.b64encode(value).decode()
    assert certificates.from_data({"data": data}) is None


async def test_a_key_of_another_certificate_counts_as_none() -> None:
    data = certificates.to_data(await made()) | {"tls.key": certificates.to_data(await made())["tls.key"]}
    assert certificates.from_data({"data": data}) is None
    assert certificates.from_data(None) is None


async def test_a_machine_without_openssl_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(certificates.CertificateError, match="openssl cannot be run"):
        await made()
    monkeypatch.undo()
    with pytest.raises(certificates.CertificateError, match=r"^openssl: .*"):
        await certificates.make(("nonsense",), START)
