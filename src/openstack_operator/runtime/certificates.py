"""The certificate of the admission webhook: how it is made, kept in a Secret, and replaced without a refused call.

Each certificate has an authority of its own, whose key is thrown away as soon as it has signed: nothing that is kept
can sign another one. Called by ``webhook``; pure but for ``make``, which runs the program openssl, so that a library
that is needed once in two months costs no memory in between.

    fresh --RENEW--> staged --SETTLE--> promoted --SETTLE--> fresh
    trusted: [A]     trusted: [A, B]    trusted: [A, B]      trusted: [B]
    served:   A      served:   A        served:      B       served:   B

The API servers learn what to trust by a watch of theirs, and replicas what to serve by a watch of ours: ``SETTLE`` is
far longer than either takes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import datetime
import re
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from openstack_operator.runtime import errors
from openstack_operator.runtime.client import Object

LIFE = datetime.timedelta(days=90)
RENEW = datetime.timedelta(days=60)
SETTLE = datetime.timedelta(minutes=10)

# Longest time that openssl may take; it needs hundredths of a second.
OPENSSL_SECONDS = 30

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----\n", re.DOTALL)

# Keys of the Secret: those of the type kubernetes.io/tls, the trusted authorities, the pair that comes next, the dates.
TYPE = "kubernetes.io/tls"
_KEYS = ("tls.crt", "tls.key", "ca.crt", "dates.json")
_NEXT = ("next.crt", "next.key")


class CertificateError(errors.OperatorError):
    """A certificate cannot be made or read; the message says why."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """A certificate and its key as PEM, and when it was made."""

    certificate: str
    key: str = dataclasses.field(repr=False)
    made: datetime.datetime


@dataclasses.dataclass(frozen=True)
class Held:
    """What the Secret holds."""

    served: Pair
    trusted: tuple[str, ...]
    """Authorities as PEM, the newest last."""
    changed: datetime.datetime
    """When this state began."""
    staged: Pair | None = None

    @property
    def bundle(self) -> str:
        return "".join(self.trusted)

    @property
    def expires(self) -> datetime.datetime:
        return self.served.made + LIFE


class _Dates(msgspec.Struct):
    made: datetime.datetime
    changed: datetime.datetime
    staged: datetime.datetime | None = None


# --- decisions -----------------------------------------------------------------------------------------------------


def due(held: Held) -> datetime.datetime:
    """When the next change is to be made."""
    if held.staged is not None or len(held.trusted) > 1:
        return held.changed + SETTLE
    return held.served.made + RENEW


def needs_pair(held: Held | None, now: datetime.datetime) -> bool:
    """Whether the next change begins with a new certificate."""
    if held is None or now >= held.expires:
        return True
    return held.staged is None and len(held.trusted) == 1 and now >= due(held)


def begin(authority: str, pair: Pair) -> Held:
    """The first state, or the one after everything has expired: nothing that is served is worth keeping."""
    return Held(pair, (authority,), pair.made)


def advance(held: Held, now: datetime.datetime, *, is_published: bool, fresh: tuple[str, Pair] | None = None) -> Held:
    """The state that follows, or the same one where nothing is due.

    ``fresh`` is a new authority and pair where ``needs_pair``. What is trusted must be ``is_published`` (stand in the
    webhook's configuration) before anything relies on it.
    """
    if fresh is not None:
        authority, pair = fresh
        if now >= held.expires:
            return begin(authority, pair)
        return dataclasses.replace(held, staged=pair, trusted=(*held.trusted, authority), changed=now)
    if now < due(held) or not is_published:
        return held
    if held.staged is not None:
        return Held(held.staged, held.trusted, now)
    if len(held.trusted) > 1:
        return dataclasses.replace(held, trusted=held.trusted[-1:], changed=now)
    return held


# --- the Secret ----------------------------------------------------------------------------------------------------


def to_data(held: Held) -> dict[str, str]:
    """``data`` of the Secret."""
    dates = _Dates(held.served.made, held.changed, held.staged.made if held.staged else None)
    values = dict(zip(_KEYS, (held.served.certificate, held.served.key, held.bundle, _encoded(dates)), strict=True))
    if held.staged is not None:
        values |= dict(zip(_NEXT, (held.staged.certificate, held.staged.key), strict=True))
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def from_data(secret: Object | None) -> Held | None:
    """What a Secret holds; None where it is missing or somebody spoilt it, and a new certificate must be made."""
    try:
        data = {key: base64.b64decode(value).decode() for key, value in ((secret or {}).get("data") or {}).items()}
        dates = msgspec.json.decode(data["dates.json"], type=_Dates)
        staged = None if dates.staged is None else Pair(data["next.crt"], data["next.key"], dates.staged)
        trusted = tuple(_CERTIFICATE.findall(data["ca.crt"]))
        held = Held(Pair(data["tls.crt"], data["tls.key"], dates.made), trusted, dates.changed, staged)
        check(held)
    except (KeyError, UnicodeDecodeError, binascii.Error, msgspec.DecodeError, CertificateError):
        return None
    return held


def check(held: Held) -> None:
    """Raises CertificateError where keys do not belong to certificates, or nothing is trusted."""
    if not held.trusted:
        raise CertificateError("no authority")
    try:
        ssl.create_default_context(cadata=held.bundle)
        for pair in filter(None, (held.served, held.staged)):
            load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
    except (ssl.SSLError, ValueError) as problem:
        raise CertificateError(str(problem)) from problem


def load(context: ssl.SSLContext, pair: Pair) -> None:
    """What the context serves from now on; open connections go on as they are. Raises ``ssl.SSLError``."""
    # load_cert_chain reads files only; they are private and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(f"{pair.certificate}{pair.key}".encode())
        file.flush()
        context.load_cert_chain(file.name)


def _encoded(dates: _Dates) -> str:
    return msgspec.json.encode(dates).decode()


# --- openssl -------------------------------------------------------------------------------------------------------

_SETTINGS = """\
[req]
distinguished_name = nobody
prompt = no
[nobody]
CN = {name}
[authority]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid:always
subjectAltName = {names}
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


async def make(names: Sequence[str], now: datetime.datetime) -> tuple[str, Pair]:
    """An authority and a certificate that it signed for ``names`` (``DNS:host``, ``IP:address``), valid for LIFE.

    Raises CertificateError with what openssl said.
    """
    # Names of authorities differ, because a client looks for the one that signed by its name first.
    name = f"admission-{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for part in ("authority", "server"):
            text = _SETTINGS.format(name=f"{name}-{part}", names=",".join(names))
            (place / f"{part}.cnf").write_text(text)
        # A day of reserve: certificates are valid by the clock of the machine, and replaced by ours.
        common = ("req", "-x509", *_KEY, "-sha256", "-days", str(LIFE.days + 1))
        await _openssl(
            place, *common, "-config", "authority.cnf", "-extensions", "authority",
            "-keyout", "authority.key", "-out", "authority.crt",
        )  # fmt: skip
        await _openssl(
            place, *common, "-config", "server.cnf", "-extensions", "server",
            "-CA", "authority.crt", "-CAkey", "authority.key", "-keyout", "server.key", "-out", "server.crt",
        )  # fmt: skip
        authority, certificate, key = (
            (place / file).read_text() for file in ("authority.crt", "server.crt", "server.key")
        )
    return authority, Pair(certificate, key, now)


async def _openssl(directory: Path, *arguments: str) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            "openssl", *arguments, cwd=directory,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as problem:
        raise CertificateError(f"openssl cannot be run: {problem}") from problem
    try:
        async with asyncio.timeout(OPENSSL_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CertificateError(f"openssl has not ended after {OPENSSL_SECONDS} s") from None
    if process.returncode:
        raise CertificateError(f"openssl: {said.decode(errors='replace').strip()[-300:]}")
