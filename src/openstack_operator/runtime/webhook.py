"""The admission webhook: an HTTPS server in every replica, and its certificate, which the leader looks after.

    replica   Secret --watch--> certificate served --> POST /validate: admission.prepare, look for references, answer
    leader    Secret <--replaced before it expires;  webhook configuration <--caBundle, again whenever it differs

The API server asks for every object of ours that is made or whose spec changes. What it does not ask for, and that it
goes on without an answer, is in ``configuration``, which ``cli.generate`` writes. Made by ``manager``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aiohttp import web

from openstack_operator.runtime import admission, certificates, client, errors, kinds, logs, metrics
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.informer import Informer
from openstack_operator.runtime.kinds import Kind, Resource

if TYPE_CHECKING:
    from openstack_operator.runtime.manager import Manager

log = logs.get("webhook")

PATH = "/validate"

# How long the API server waits for us before it goes on. A loaded replica answers in hundredths of a second.
TIMEOUT_SECONDS = 3

# Longer than the API server keeps an idle connection (90 s): it must be the one that closes, or a call is lost.
KEEP_ALIVE_SECONDS = 120

# An object with everything that etcd takes (1.5 MiB), and its old self.
LARGEST_REVIEW = 4 * 2**20

# References of one object that are looked for; the time for all of them is a part of TIMEOUT_SECONDS.
MOST_REFERENCES = 32
REFERENCES_SECONDS = 1

RETRY_SECONDS = 5
LONGEST_PAUSE_SECONDS = 3600

Clock = Callable[[], datetime.datetime]


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclasses.dataclass(frozen=True)
class Settings:
    """``name`` of the webhook configuration and of the webhook in it; ``secret`` in ``namespace``; ``names`` that the
    certificate is good for (``DNS:service.namespace.svc``)."""

    configuration: str
    webhook: str
    namespace: str
    secret: str
    names: tuple[str, ...]
    port: int
    host: str = "0.0.0.0"
    clock: Clock = utc_now


def configuration(
    name: str, webhook: str, resources: Iterable[Resource], client_config: Object, operator: str
) -> Object:
    """The ValidatingWebhookConfiguration without what the leader puts into it.

    ``operator`` is the user name with which the operator itself writes: what it writes is made of what was judged
    already, and must not wait for itself.
    """
    rules: dict[tuple[str, str], list[str]] = {}
    for resource in resources:
        rules.setdefault((resource.group, resource.version), []).append(resource.plural)
    return {
        "apiVersion": kinds.VALIDATINGWEBHOOKCONFIGURATION.api_version,
        "kind": kinds.VALIDATINGWEBHOOKCONFIGURATION.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": webhook,
                "clientConfig": client_config,
                # No subresource is named: a write of status or scale never comes here.
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": sorted(plurals),
                        "scope": "Namespaced",
                    }
                    for (group, version), plurals in sorted(rules.items())
                ],
                "matchConditions": [
                    {"name": "not-by-the-operator", "expression": f"request.userInfo.username != '{operator}'"},
                    {"name": "not-deleted", "expression": "!has(object.metadata.deletionTimestamp)"},
                    {
                        "name": "spec-changed",
                        "expression": "request.operation == 'CREATE' || !has(oldObject.spec) || "
                        "object.spec != oldObject.spec",
                    },
                ],
                # Without an answer the object is stored: what must never change is held by the schema's own rules, and
                # the controller judges the rest again.
                "failurePolicy": "Ignore",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


class Webhook:
    """The server of one replica; ``lead`` runs in the leader only."""

    def __init__(self, manager: Manager, judged: Sequence[Kind], settings: Settings) -> None:
        self._manager, self._settings = manager, settings
        self._kinds = {(kind.resource.group, kind.resource.plural): kind for kind in judged}
        self._secret = self._single(kinds.SECRET, settings.namespace, settings.secret)
        self._configuration = self._single(kinds.VALIDATINGWEBHOOKCONFIGURATION, None, settings.configuration)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._held: certificates.Held | None = None
        self._wake = asyncio.Event()
        self._loaded = asyncio.Event()
        self._runner: web.AppRunner | None = None
        # Said once, not whenever somebody looks.
        self._is_configured = True
        self.serving = asyncio.Event()
        """Set when questions are answered."""

    @property
    def port(self) -> int:
        """Where it listens; settings may leave the choice to the system."""
        assert self._runner is not None
        port: int = self._runner.addresses[0][1]
        return port

    def wake(self) -> None:
        """Looks at the certificate soon: it, its configuration, or the clock has changed."""
        self._wake.set()

    def _single(self, resource: Resource, namespace: str | None, name: str) -> Informer:
        informer = Informer(self._manager.client, resource, namespace, {"fieldSelector": f"metadata.name={name}"})
        informer.subscribe(self._on_change)
        return informer

    # --- every replica ----------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Follows the Secret until cancelled."""
        await self._secret.run()

    async def serve(self) -> None:
        """Serves from the moment on when there is a certificate and caches are filled, until cancelled."""
        await self._secret.synced.wait()
        if self._held is None:
            await self._insist(self._make_first)
        await self._loaded.wait()
        await self._manager.started.wait()
        application = web.Application(client_max_size=LARGEST_REVIEW)
        application.add_routes([web.post(PATH, self._validate)])
        runner = web.AppRunner(
            application, access_log=None, keepalive_timeout=KEEP_ALIVE_SECONDS, shutdown_timeout=TIMEOUT_SECONDS
        )
        await runner.setup()
        self._runner = runner
        try:
            await web.TCPSite(runner, self._settings.host, self._settings.port, ssl_context=self._tls).start()
            self.serving.set()
            log.info("serving", port=self.port, kinds=len(self._kinds))
            await asyncio.Event().wait()
        finally:
            self.serving.clear()
            await runner.cleanup()

    def _on_change(self, _: Object | None, __: Object | None) -> None:
        item = self._secret.get(self._settings.namespace, self._settings.secret)
        held = certificates.from_data(item)
        if held is not None and held != self._held:
            certificates.load(self._tls, held.served)
            metrics.CERTIFICATE_EXPIRY.set(held.expires.timestamp())
            self._loaded.set()
        self._held = held
        self._wake.set()

    async def _validate(self, request: web.Request) -> web.Response:
        began = time.perf_counter()
        review = client.decode(await request.read())["request"]
        resource = review["resource"]
        kind = self._kinds.get((resource["group"], resource["resource"]))
        if kind is None:
            # An operator with a part of the controllers is asked about the rest when they share a configuration.
            return _response({"uid": review["uid"], "allowed": True})
        finding = admission.prepare(kind, review, _Objects(self._manager, review.get("namespace")))
        missing = [] if finding.errors else await self._missing(finding)
        metrics.ADMISSIONS.labels(kind.resource.kind, "refused" if finding.errors else "allowed").inc()
        metrics.ADMISSION_SECONDS.observe(time.perf_counter() - began)
        return _response(admission.answer(finding, missing))

    async def _missing(self, finding: admission.Finding) -> list[str]:
        """A warning for each reference to nothing. What cannot be found out in time is no warning."""
        references = finding.references[:MOST_REFERENCES]
        found: list[str | None] = [None] * len(references)

        async def look(number: int) -> None:
            found[number] = await self._look_for(references[number], finding.namespace)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFERENCES_SECONDS):
                await asyncio.gather(*(look(number) for number in range(len(references))))
        return [text for text in found if text is not None]

    async def _look_for(self, reference: admission.Reference, namespace: str) -> str | None:
        resource, name = reference.resource, reference.name
        where = namespace if resource.namespaced else None
        item = self._manager.cached(resource, where, name)
        if item is None:
            try:
                item = await self._manager.client.get(resource, name, where)
            except errors.ApiUnreachableError:
                return None
            except errors.ApiError as problem:
                if problem.status != 404:
                    return None
                return f"{reference.field}: {resource.kind} {name} does not exist"
        if reference.key is not None and reference.key not in (item.get("data") or {}):
            return f"{reference.field}: {resource.kind} {name} has no key {reference.key}"
        return None

    # --- the leader -------------------------------------------------------------------------------------------------

    async def watch_configuration(self) -> None:
        """Follows the webhook's configuration until cancelled."""
        await self._configuration.run()

    async def lead(self) -> None:
        """Replaces the certificate in time and keeps the configuration's caBundle, until cancelled."""
        await self._secret.synced.wait()
        await self._configuration.synced.wait()
        if self._secret.get(self._settings.namespace, self._settings.secret) is None:
            # ``serve`` makes the first one.
            await self._loaded.wait()
        while True:
            self._wake.clear()
            await self._insist(self._tend)
            assert self._held is not None
            pause = (certificates.due(self._held) - self._settings.clock()).total_seconds()
            # What is due and was not done waits for the configuration, whose watch wakes us.
            await self._woken(min(pause, LONGEST_PAUSE_SECONDS) if pause > 0 else LONGEST_PAUSE_SECONDS)

    async def _insist(self, work: Callable[[], Any]) -> None:
        """Does something until it succeeds; without it the operator goes on as it does without a webhook."""
        while True:
            try:
                await work()
                return
            except (errors.ApiError, errors.ApiUnreachableError, certificates.CertificateError) as problem:
                log.warning("certificate not looked after", problem=str(problem), retry_seconds=RETRY_SECONDS)
            self._wake.clear()
            await self._woken(RETRY_SECONDS)

    async def _woken(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _make_first(self) -> None:
        """The first replica makes the Secret: no other may wait for a leader of an older version."""
        if self._held is not None or self._secret.get(self._settings.namespace, self._settings.secret) is not None:
            return
        now = self._settings.clock()
        authority, pair = await certificates.make(self._settings.names, now)
        body = self._body(certificates.begin(authority, pair))
        try:
            self._secret.observe(await self._manager.client.create(kinds.SECRET, body))
        except errors.ApiError as problem:
            # 409: another replica was faster, and the watch brings what it made.
            if problem.status != 409:
                raise

    async def _tend(self) -> None:
        while True:
            now, held = self._settings.clock(), self._held
            if held is None:
                log.info("certificate is made", why="none that can be used")
                await self._store(certificates.begin(*await certificates.make(self._settings.names, now)))
                continue
            is_published = await self._publish(held)
            fresh = None
            if certificates.needs_pair(held, now):
                fresh = await certificates.make(self._settings.names, now)
            following = certificates.advance(held, now, is_published=is_published, fresh=fresh)
            if following == held:
                return
            log.info("certificate moves on", trusted=len(following.trusted), is_staged=following.staged is not None)
            await self._store(following)

    async def _store(self, held: certificates.Held) -> None:
        """Replaces the Secret that was looked at, or makes it; raises ``errors.ApiError`` when it has changed since."""
        present = self._secret.get(self._settings.namespace, self._settings.secret)
        body = self._body(held)
        if present is None:
            written = await self._manager.client.create(kinds.SECRET, body)
        else:
            body["metadata"] |= {key: present["metadata"][key] for key in ("uid", "resourceVersion")}
            # The type of a Secret cannot be changed, whoever chose it.
            body["type"] = present.get("type", certificates.TYPE)
            written = await self._manager.client.replace(kinds.SECRET, body)
        self._secret.observe(written)

    def _body(self, held: certificates.Held) -> Object:
        return {
            "metadata": {
                "name": self._settings.secret,
                "namespace": self._settings.namespace,
                "labels": {"app.kubernetes.io/name": self._manager.client.manager},
            },
            "type": certificates.TYPE,
            "data": certificates.to_data(held),
        }

    async def _publish(self, held: certificates.Held) -> bool:
        """Puts what is trusted into the configuration, unless it is there; whether it is."""
        item = self._configuration.get(None, self._settings.configuration)
        ours = [one for one in (item or {}).get("webhooks", ()) if one["name"] == self._settings.webhook]
        if item is None or not ours:
            if self._is_configured:
                log.warning("webhook is not configured", configuration=self._settings.configuration)
            self._is_configured = False
            return False
        self._is_configured = True
        bundle = base64.b64encode(held.bundle.encode()).decode()
        if ours[0]["clientConfig"].get("caBundle") == bundle:
            return True
        # With the uid an apply cannot make a configuration that somebody has just deleted.
        metadata = {key: item["metadata"][key] for key in ("name", "uid")}
        entry = {"name": self._settings.webhook, "clientConfig": {"caBundle": bundle}}
        written = await self._manager.client.apply(
            kinds.VALIDATINGWEBHOOKCONFIGURATION, {"metadata": metadata, "webhooks": [entry]}
        )
        log.info("authorities are published", configuration=self._settings.configuration)
        self._configuration.observe(written)
        return True


def _response(answer: Object) -> web.Response:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
    return web.Response(body=client.encode(review), content_type="application/json")


@dataclasses.dataclass(frozen=True)
class _Objects:
    """``admission.Objects`` of one namespace."""

    manager: Manager
    namespace: str | None

    def items(self, resource: Resource) -> list[Object]:
        return self.manager.cached_items(resource, self.namespace)
