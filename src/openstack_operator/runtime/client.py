"""A small asynchronous client of the Kubernetes API: aiohttp and msgspec, objects are plain dictionaries.

Called by informers, controllers, the Lease and the command line. It knows verbs and errors; caching, ownership and
drift are elsewhere (``informer``, ``apply``).
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import base64
import dataclasses
import os
import random
import re
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
import yarl

from openstack_operator.runtime import errors, http, metrics
from openstack_operator.runtime.kinds import POD, Resource

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# A busy or starting API server asks to come back (429, and 503 with Retry-After): this often, and this long at most
# each time, then the error is reported and the caller's own back-off takes over.
ATTEMPTS = 4
LONGEST_RETRY_AFTER_SECONDS = 30.0

# Watches hold a connection each and must never wait for one, so the pool has no limit and requests have their own.
REQUESTS_AT_ONCE = 32
REQUEST_SECONDS = 30
CONNECT_SECONDS = 10

# A request that is given up before its answer leaves a connection that says farewell by TLS, of which aiohttp does not
# know any more: a round trip, before the event loop may end.
FAREWELL_SECONDS = 0.1

# A stream that is silent for longer may be dead, whatever TCP says. Bookmarks come about once a minute, but none before
# the server's cache of the kind is past the version where the watch began, which is that of the whole store: on a quiet
# kind that takes a change or etcd's own notification, every 10 minutes by default (four of five watches of a new server
# were silent for 119 s). So silence is no sign of trouble; that the next watch is not answered would be one.
WATCH_SILENCE_SECONDS = 75
WATCH_SECONDS = 300
PAGE = 500

# What asyncio sets aside for each TLS connection and asks of it at a time. Its own 256 KiB would be a tenth of the
# operator's memory, for watches that mostly carry a few KiB.
TLS_BUFFER_BYTES = 32 * 1024
asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
MOST_WARNINGS = 100
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')

encode = msgspec.json.encode
decode = msgspec.json.decode


@dataclasses.dataclass(frozen=True)
class Config:
    """Where the API server is and how to log in. ``token_file`` is read for each request: the kubelet rotates it."""

    server: str
    ssl_context: ssl.SSLContext | None
    token: str | None = None
    token_file: Path | None = None
    namespace: str = "default"

    @classmethod
    def load(cls, kubeconfig: str | None = None) -> Config:
        """From a kubeconfig (argument, then KUBECONFIG), else from the pod's service account.

        Raises ``errors.OperatorError`` that says which of them was looked for when there is neither.
        """
        # kubectl takes a list of files; the first that exists is enough here.
        paths = [kubeconfig] if kubeconfig else os.environ.get("KUBECONFIG", "").split(os.pathsep)
        for path in filter(None, paths):
            if Path(path).exists() or len(paths) == 1:
                return cls.from_kubeconfig(Path(path))
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return cls.in_cluster()
        raise errors.OperatorError("no cluster: KUBECONFIG names no file, no --kubeconfig was given, this is not a pod")

    @classmethod
    def in_cluster(cls) -> Config:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        if ":" in host:
            host = f"[{host}]"
        return cls(
            server=f"https://{host}:{port}",
            ssl_context=ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt")),
            token_file=SERVICE_ACCOUNT / "token",
            namespace=(SERVICE_ACCOUNT / "namespace").read_text().strip(),
        )

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Config:
        """The current context of a kubeconfig file; certificates by path or inline, bearer tokens."""
        try:
            content = yaml.safe_load(path.read_text())
            named = {
                section: {entry["name"]: entry[section.removesuffix("s")] for entry in content[section]}
                for section in ("clusters", "contexts", "users")
            }
            context = named["contexts"][content["current-context"]]
            cluster, user = named["clusters"][context["cluster"]], named["users"][context["user"]]
        except (OSError, yaml.YAMLError, KeyError, TypeError) as problem:
            raise errors.OperatorError(f"kubeconfig {path}: {problem!r}") from problem
        if "exec" in user:
            raise errors.OperatorError(f"kubeconfig {path}: credential plug-ins (exec) are not supported")
        server: str = cluster["server"]
        return cls(
            server=server.rstrip("/"),
            ssl_context=_ssl_context(path, cluster, user) if server.startswith("https") else None,
            token=user.get("token"),
            token_file=Path(user["tokenFile"]) if "tokenFile" in user else None,
            namespace=context.get("namespace", "default"),
        )


def _ssl_context(path: Path, cluster: Object, user: Object) -> ssl.SSLContext:
    def inline_or_file(entry: Object, key: str) -> bytes | None:
        if f"{key}-data" in entry:
            return base64.b64decode(entry[f"{key}-data"])
        return (path.parent / entry[key]).read_bytes() if key in entry else None

    authority = inline_or_file(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = inline_or_file(user, "client-certificate"), inline_or_file(user, "client-key")
    if certificate and key:
        # load_cert_chain only reads files.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a command in a container said, and its exit code."""

    output: bytes
    errors: bytes
    code: int


# Protocols of exec over a WebSocket: the first byte of each message is its channel.
_CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _OUTCOME = 0, 1, 2, 3
STDIN_CHUNK = 16384


class Client:
    """One connection pool to one API server. Use as an asynchronous context manager."""

    def __init__(self, config: Config, manager: str, *, silence: float = WATCH_SILENCE_SECONDS) -> None:
        """``manager`` is the field manager of what we apply; a watch without a byte for ``silence`` seconds is dead."""
        self.config = config
        self.manager = manager
        self._silence = silence
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._agreed = {"User-Agent": manager, "Accept": "application/json"}
        self._pool = http.Pool(config.server, config.ssl_context, self._agreed, CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None
        # Whether a request was given up before its answer came.
        self._is_interrupted = False
        self.warnings: list[str] = []
        """What the API server, and webhooks through it, remarked on requests, each once."""

    async def __aenter__(self) -> Client:
        connector = aiohttp.TCPConnector(ssl=self.config.ssl_context or True, limit=0, socket_factory=_socket)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS),
            headers=self._agreed,
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._pool.close()
        if self._session is not None:
            await self._session.close()
            if self._is_interrupted:
                await asyncio.sleep(FAREWELL_SECONDS)

    def _headers(self) -> dict[str, str]:
        token = self.config.token_file.read_text().strip() if self.config.token_file else self.config.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def request(
        self,
        verb: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        resource: str = "",
    ) -> Any:
        """One request; the decoded answer, or None where there is none.

        Raises ``errors.ApiError`` for a status of 400 and above, ``errors.ApiUnreachableError`` without an answer.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, retry, data = await self._send(verb, path, params, body, content_type)
            except asyncio.CancelledError:
                self._is_interrupted = True
                raise
            except (aiohttp.ClientError, TimeoutError, OSError) as problem:
                raise self._unreachable(f"{verb} {path}: {_described(problem)}") from problem
            metrics.one(metrics.REQUESTS, verb, resource, status).inc()
            metrics.LAST_CONTACT.set_to_current_time()
            if status < 400:
                return _decoded(data) if data else None
            if status not in (429, 503) or retry is None or attempt == ATTEMPTS:
                raise _error(status, data)
            await asyncio.sleep(retry * random.uniform(1, 1.3))
        raise AssertionError("the last attempt returns or raises")

    def _unreachable(self, what: str) -> errors.ApiUnreachableError:
        return errors.ApiUnreachableError(f"no answer from the API server {self.config.server}: {what}")

    async def _send(
        self, verb: str, path: str, params: Mapping[str, str] | None, body: object, content_type: str
    ) -> tuple[int, float | None, bytes | bytearray]:
        """Status, seconds of Retry-After, and body of one answer."""
        assert self._session is not None, "the client is used outside its context"
        headers = self._headers()
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = encode(body)
        async with self._slots, asyncio.timeout(REQUEST_SECONDS):
            answer = await self._pool.request(verb, path, params, headers, data)
        retry = None
        for name, value in answer.headers:
            if name == "warning":
                self._note(value)
            elif name == "retry-after":
                retry = _retry_after(value)
        return answer.status, retry, answer.body

    def _note(self, header: str) -> None:
        """Keeps the text of a warning header: 299 - "text" (RFC 7234, section 5.5)."""
        found = _WARNING.match(header)
        text = re.sub(r"\\(.)", r"\1", found[1]) if found else header
        if text not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        answer: Object = await self.request("GET", resource.path(namespace, name), resource=resource.plural)
        return answer

    async def create(self, resource: Resource, body: Object) -> Object:
        answer: Object = await self.request(
            "POST",
            resource.path(body["metadata"].get("namespace")),
            body=_typed(resource, body),
            resource=resource.plural,
        )
        return answer

    async def replace(self, resource: Resource, body: Object) -> Object:
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        answer: Object = await self.request("PUT", path, body=_typed(resource, body), resource=resource.plural)
        return answer

    async def apply(
        self, resource: Resource, body: Object, *, subresource: str | None = None, manager: str | None = None
    ) -> Object:
        """Server-side apply. Conflicts are taken over (``force``): what we set is ours."""
        metadata = body["metadata"]
        answer: Object = await self.request(
            "PATCH",
            resource.path(metadata.get("namespace"), metadata["name"], subresource),
            params={"fieldManager": manager or self.manager, "force": "true"},
            body=_typed(resource, body),
            content_type="application/apply-patch+yaml",
            resource=resource.plural,
        )
        return answer

    async def merge(self, resource: Resource, name: str, namespace: str | None, patch: Object) -> Object:
        """JSON merge patch, for the few places where server-side apply cannot say it (removing a key)."""
        answer: Object = await self.request(
            "PATCH",
            resource.path(namespace, name),
            params={"fieldManager": self.manager},
            body=patch,
            content_type="application/merge-patch+json",
            resource=resource.plural,
        )
        return answer

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        """Deletes in the background; an object that is gone already is fine."""
        body: Object = {"propagationPolicy": "Background"} | ({"preconditions": {"uid": uid}} if uid else {})
        try:
            await self.request("DELETE", resource.path(namespace, name), body=body, resource=resource.plural)
        except errors.ApiError as problem:
            if problem.status not in (404, 409):
                raise

    async def list_pages(
        self, resource: Resource, namespace: str | None, selectors: Mapping[str, str]
    ) -> AsyncIterator[Object]:
        """The pages of a LIST, each a decoded List object; the last one's resourceVersion starts a watch."""
        proceed: dict[str, str] = {}
        while True:
            page = await self.request(
                "GET",
                resource.path(namespace),
                params={"limit": str(PAGE), **selectors, **proceed},
                resource=resource.plural,
            )
            yield page
            following = page["metadata"].get("continue")
            if not following:
                return
            proceed = {"continue": following}

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Mapping[str, str],
        resource_version: str,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[Object, None]:
        """Watch events after ``resource_version`` until the server ends the stream. Close the generator.

        ``opened`` is called when the server has agreed to be watched: the first event may come much later.

        Raises ``errors.ApiError`` (410 when the version is too old), ``errors.ApiUnreachableError``, and when the open
        stream goes silent ``errors.WatchSilentError``. Lines are split in ``_lines`` because aiohttp's own reader
        limits their length.
        """
        assert self._session is not None, "the client is used outside its context"
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            # Not all at the same moment: each end is a new request.
            "timeoutSeconds": str(round(WATCH_SECONDS * random.uniform(0.8, 1.2))),
            "resourceVersion": resource_version,
            **selectors,
        }
        path = resource.path(namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=self._silence)
        try:
            async with self._session.get(
                self.config.server + path, params=params, headers=self._headers(), timeout=timeout
            ) as response:
                metrics.REQUESTS.labels("WATCH", resource.plural, response.status).inc()
                if response.status >= 400:
                    raise _error(response.status, await response.read())
                opened()
                try:
                    async for line in _lines(response.content):
                        event = _decoded(line)
                        metrics.LAST_CONTACT.set_to_current_time()
                        if event["type"] == "ERROR":
                            raise _error(event["object"].get("code", 500), line)
                        yield event
                except aiohttp.SocketTimeoutError as problem:
                    raise errors.WatchSilentError(f"WATCH {path}: silent for {self._silence:g} s") from problem
                finally:
                    # Left early, the connection is of no use; a farewell by TLS would outlive a program that ends.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
        except asyncio.CancelledError:
            self._is_interrupted = True
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise self._unreachable(f"WATCH {path}: {_described(problem)}") from problem

    async def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: bytes = b""
    ) -> Ended:
        """Runs a command in a container, as `kubectl exec` does, and waits for its end: only for what ends soon.

        ``stdin`` is sent and not closed, which an older server cannot do: the command has to know how much it is.
        Raises ``errors.ApiError`` where that is refused, ``errors.ApiUnreachableError`` without an answer.
        """
        assert self._session is not None, "the client is used outside its context"
        path = POD.path(namespace, pod, "exec")
        query = [
            ("container", container),
            *([("stdin", "true")] if stdin else []),
            ("stdout", "true"),
            ("stderr", "true"),
            *(("command", one) for one in command),
        ]
        url = yarl.URL(self.config.server + path).with_query(query)
        channels: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _OUTCOME: bytearray()}
        try:
            async with (
                self._slots,
                asyncio.timeout(REQUEST_SECONDS),
                self._session.ws_connect(
                    url,
                    protocols=_CHANNELS,
                    # It is no JSON that comes.
                    headers=self._headers() | {"Accept": "*/*"},
                    max_msg_size=0,
                ) as socket,
            ):
                for start in range(0, len(stdin), STDIN_CHUNK):
                    await socket.send_bytes(bytes((_STDIN,)) + stdin[start : start + STDIN_CHUNK])
                async for message in socket:
                    if message.type == aiohttp.WSMsgType.BINARY and message.data:
                        channels.setdefault(message.data[0], bytearray()).extend(message.data[1:])
        except aiohttp.WSServerHandshakeError as problem:
            raise errors.ApiError(problem.status, "ExecRefused", f"{path}: {problem.message}") from problem
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise self._unreachable(f"EXEC {path}: {_described(problem)}") from problem
        if not channels[_OUTCOME]:
            raise errors.ApiUnreachableError(f"EXEC {path}: the connection ended before the command")
        return Ended(
            bytes(channels[_STDOUT]), bytes(channels[_STDERR]), _exit_code(_decoded(bytes(channels[_OUTCOME])))
        )


def _exit_code(outcome: Object) -> int:
    """The exit code in the status with which the API server ends an exec; 126 for a command that could not start."""
    if outcome.get("status") == "Success":
        return 0
    for cause in outcome.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    return 126


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Complete lines that hold something; what comes after the last line break was cut off."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        for line in filter(None, lines):
            yield line


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    found = socket.socket(family, kind, protocol)
    http.ask_for_life(found)
    return found


def _described(problem: Exception) -> str:
    # A plain TimeoutError has no text.
    return f"{type(problem).__name__} {problem}".strip()


def _retry_after(header: str) -> float | None:
    # The header may also hold a date; the API server always sends seconds.
    return min(float(header), LONGEST_RETRY_AFTER_SECONDS) if header.isdigit() else None


def _decoded(data: bytes | bytearray) -> Any:
    """JSON; whatever else answers in the server's place (a proxy's page) is not the server."""
    try:
        return decode(data)
    except msgspec.DecodeError as problem:
        raise errors.ApiUnreachableError(f"answer is not JSON: {bytes(data[:100])!r}") from problem


def _typed(resource: Resource, body: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _error(status: int, data: bytes | bytearray) -> errors.ApiError:
    try:
        answer = decode(data)
        if answer.get("type") == "ERROR":
            answer = answer["object"]
        return errors.ApiError(status, answer.get("reason") or "Unknown", answer.get("message") or "")
    except (msgspec.DecodeError, AttributeError):
        return errors.ApiError(status, "Unknown", data[:300].decode(errors="replace"))
