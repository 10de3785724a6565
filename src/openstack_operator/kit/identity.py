"""Keystone: what services need to know of it, and their registration in it through its own API.

``observe`` gives the URLs that go into configuration files, long before Keystone serves. ``register`` makes service,
endpoints, user and role, reading before it writes; a password is set only when logging in with it fails, because
setting even the same password revokes the user's tokens. No Job and no client library is involved.
"""

from __future__ import annotations

import dataclasses
import ssl
import types
import urllib.parse
from collections.abc import Mapping
from typing import Any, ClassVar

import aiohttp

from openstack_operator.kit import credentials, kinds, names, requests, sessions, verified
from openstack_operator.kit.types import SecretKeyRef
from openstack_operator.runtime import conditions, drift, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Scope

PROJECT = "service"
DOMAIN_ID = "default"
LONGEST_PASSWORD = 72
"""Bytes of a password that bcrypt looks at. Keystone cuts longer ones without a word to whoever sets them, and lets
everybody in who knows the beginning."""
ROLES = ("admin", "service")
"""Roles of every service user on the service project."""
TIMEOUT_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A service in the catalogue. URLs may hold Keystone's own placeholders."""

    name: str
    type: str
    description: str
    internal: str
    public: str


async def observe(scope: Scope[Any], keystone: str) -> None:
    """Sets ``identity.url`` (internal) and ``identity.public_url``.

    Raises ``errors.Waiting`` until the Keystone object has published them; Keystone need not serve yet.
    """
    item = requests.server(scope, kinds.KEYSTONE, keystone)
    status = item.get("status", {})
    if not status.get("internalUrl") or not status.get("publicUrl"):
        message = f"Keystone {scope.namespace}/{keystone} has not published its URLs yet"
        raise errors.Waiting("NoURL", message, on=kinds.KEYSTONE.kind)
    scope.facts["identity.url"] = status["internalUrl"]
    scope.facts["identity.public_url"] = status["publicUrl"]


async def ensure_user_secret(scope: Scope[Any], service: str, supplied: SecretKeyRef | None) -> str:
    """The Secret of the service's own Keystone user; sets ``service_user.user`` and ``service_user.password``."""
    secret = names.service_user_secret(scope.name)
    password = await credentials.password(scope, secret, supplied, "spec.credentials.serviceUser", LONGEST_PASSWORD)
    await credentials.ensure(scope, secret, service, {"user": scope.name, "password": password})
    scope.facts["service_user.user"] = scope.name
    scope.facts["service_user.password"] = password
    return secret


def serving(scope: Scope[Any], keystone: str) -> tuple[str, dict[str, str]]:
    """Internal URL and admin credentials of a Keystone that serves. Raises ``errors.Waiting`` until it does."""
    item = requests.server(scope, kinds.KEYSTONE, keystone)
    if not conditions.is_ready(item):
        problem = conditions.find(item, conditions.READY)
        raise errors.Waiting(
            "KeystoneNotReady",
            f"Keystone {scope.namespace}/{keystone} is not Ready: {problem['message'] if problem else 'no status yet'}",
            on=kinds.KEYSTONE.kind,
        )
    secret = scope.get(built_in.SECRET, names.admin_secret(keystone))
    if secret is None:
        message = f"Secret {scope.namespace}/{names.admin_secret(keystone)} does not exist"
        raise errors.Waiting("NotFound", message, on=kinds.KEYSTONE.kind)
    return item["status"]["internalUrl"], credentials.decode(secret)


async def register(scope: Scope[Any], keystone: str, endpoints: tuple[Endpoint, ...], region: str) -> None:
    """Brings catalogue and service user to what is wanted; asks nobody when that was seen not long ago."""
    url, admin = serving(scope, keystone)
    user = {key: scope.facts[f"service_user.{key}"] for key in ("user", "password")}
    fingerprint = drift.digest([url, user, region, [dataclasses.asdict(one) for one in endpoints]])
    if verified.is_current(scope, "identity", fingerprint):
        return
    async with Client(url, admin) as client:
        await client.ensure_user(user["user"], user["password"])
        for endpoint in endpoints:
            await client.ensure_endpoint(endpoint, region)
    verified.note(scope, "identity", fingerprint)


async def unregister(scope: Scope[Any], keystone: str, services: tuple[tuple[str, str], ...], region: str) -> None:
    """For finalizers: removes the service's user and the region's catalogue entries (name, type); nothing to do when
    Keystone goes or is gone."""
    if verified.is_assumed(scope):
        return
    verified.forget(scope, "identity")
    item = scope.get(kinds.KEYSTONE, keystone)
    secret = scope.get(built_in.SECRET, names.admin_secret(keystone))
    if item is None or "deletionTimestamp" in item["metadata"] or secret is None:
        return
    if not item.get("status", {}).get("internalUrl") or not _has_served(item):
        return
    async with Client(item["status"]["internalUrl"], credentials.decode(secret)) as client:
        await client.remove_user(scope.name)
        for name, kind in services:
            await client.remove_service(name, kind, region)


def _has_served(item: dict[str, Any]) -> bool:
    # Before the bootstrap there is nothing to remove, and nobody to ask.
    return conditions.is_true(item, "DeploymentReady")


class Client:
    """The few calls of Keystone's v3 API that registration needs, as the cloud's admin."""

    _tokens: ClassVar[dict[str, tuple[str, str]]] = {}
    """By URL: the admin's last token, and of which login it is. Services register at the same moment, and to check a
    password takes Keystone a quarter of a CPU second."""

    def __init__(self, url: str, admin: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        self._url, self._admin = url.rstrip("/"), admin
        self._tls = tls
        self._login = drift.digest(dict(admin))
        login, token = self._tokens.get(self._url, ("", ""))
        self._token = token if login == self._login else ""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        self._session = sessions.to_service(TIMEOUT_SECONDS, tls=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def ensure_project(self, name: str) -> str:
        """The project's id."""
        found = await self._find("projects", {"name": name, "domain_id": DOMAIN_ID})
        if found is None:
            found = await self._create(
                "project", {"name": name, "domain_id": DOMAIN_ID, "description": "Service users"}
            )
        return str(found["id"])

    async def ensure_user(self, name: str, password: str, roles: tuple[str, ...] = ROLES) -> None:
        """A user with this password and these roles on the service project."""
        project = await self.ensure_project(PROJECT)
        user = await self._find("users", {"name": name, "domain_id": DOMAIN_ID})
        assigned: set[str] = set()
        if user is None:
            user = await self._create(
                "user",
                {"name": name, "domain_id": DOMAIN_ID, "password": password, "default_project_id": project},
            )
        else:
            if not await self.can_log_in(user["id"], password):
                await self._call("PATCH", f"/users/{user['id']}", {"user": {"password": password, "enabled": True}})
            held = await self._call(
                "GET", f"/role_assignments?user.id={user['id']}&scope.project.id={project}&include_names"
            )
            assigned = {entry["role"]["name"] for entry in held["role_assignments"]}
        missing = [role for role in roles if role not in assigned]
        known = {one["name"]: one for one in (await self._call("GET", "/roles"))["roles"]} if missing else {}
        for role in missing:
            found = known.get(role) or await self._create("role", {"name": role})
            await self._call("PUT", f"/projects/{project}/users/{user['id']}/roles/{found['id']}")

    async def can_log_in(self, user_id: str, password: str) -> bool:
        """Whether the password is the user's current one."""
        identity = {"methods": ["password"], "password": {"user": {"id": user_id, "password": password}}}
        status, _, _ = await self._send("POST", "/auth/tokens", {"auth": {"identity": identity}}, token="")
        if status not in (201, 401):
            raise errors.Unavailable("KeystoneError", f"Keystone {self._url} answers {status} to a login")
        return status == 201

    async def ensure_endpoint(self, endpoint: Endpoint, region: str) -> None:
        """The service and its internal and public endpoints; a URL that differs is corrected."""
        service = await self._find("services", {"name": endpoint.name, "type": endpoint.type})
        present: dict[str, Any] = {}
        if service is None:
            service = await self._create(
                "service", {"name": endpoint.name, "type": endpoint.type, "description": endpoint.description}
            )
        else:
            present = {entry["interface"]: entry for entry in await self._endpoints(service["id"], region)}
        for interface, url in (("internal", endpoint.internal), ("public", endpoint.public)):
            entry = present.get(interface)
            if entry is None:
                await self.ensure_region(region)
                await self._create(
                    "endpoint",
                    {"service_id": service["id"], "interface": interface, "region_id": region, "url": url},
                )
            elif entry["url"] != url:
                await self._call("PATCH", f"/endpoints/{entry['id']}", {"endpoint": {"url": url}})

    async def ensure_region(self, region: str) -> None:
        """The region is known. Keystone's bootstrap makes its own one alone, and takes no endpoint of another."""
        if all(one["id"] != region for one in (await self._call("GET", "/regions"))["regions"]):
            await self._create("region", {"id": region})

    async def remove_user(self, name: str) -> None:
        user = await self._find("users", {"name": name, "domain_id": DOMAIN_ID})
        if user is not None:
            await self._call("DELETE", f"/users/{user['id']}")

    async def remove_service(self, name: str, kind: str, region: str) -> None:
        """The service's endpoints in the region; the service too, unless another region still has some of it."""
        service = await self._find("services", {"name": name, "type": kind})
        if service is None:
            return
        for entry in await self._endpoints(service["id"], region):
            await self._call("DELETE", f"/endpoints/{entry['id']}")
        # Asked anew: of two regions that go at the same moment, the last one finds nothing.
        if not await self._endpoints(service["id"]):
            await self._call("DELETE", f"/services/{service['id']}")

    async def _endpoints(self, service: str, region: str = "") -> list[dict[str, Any]]:
        """Endpoints of a service (its id), in one region or in all."""
        only = f"&region_id={urllib.parse.quote(region, safe='')}" if region else ""
        found: list[dict[str, Any]] = (await self._call("GET", f"/endpoints?service_id={service}{only}"))["endpoints"]
        return found

    async def _find(self, collection: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        filters = "&".join(f"{key}={value}" for key, value in query.items())
        answer = await self._call("GET", f"/{collection}?{filters}")
        return next(iter(answer[collection]), None)

    async def _create(self, thing: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._call("POST", f"/{thing}s", {thing: dict(body)}))[thing]
        return answer

    async def _call(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call as admin; logs in when needed. Raises ``errors.Unavailable``, never with a password in it."""
        for attempt in (1, 2):
            if not self._token:
                await self._log_in()
            status, answer, _ = await self._send(verb, path, body, self._token)
            if status == 401 and attempt == 1:
                self._token = ""
                continue
            # 409: another replica or an earlier, cut off pass was faster; the next pass finds the result.
            if status >= 400 and not (verb == "DELETE" and status == 404):
                reason = answer.get("error", {}).get("message", "") if isinstance(answer, dict) else ""
                where = path.partition("?")[0]
                raise errors.Unavailable("KeystoneError", f"Keystone: {verb} {where} answers {status}: {reason}")
            return answer
        raise AssertionError("the second attempt returns or raises")

    async def _log_in(self) -> None:
        user = {"name": self._admin["user"], "domain": {"id": DOMAIN_ID}, "password": self._admin["password"]}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": self._admin["project"], "domain": {"id": DOMAIN_ID}}},
        }
        status, _, headers = await self._send("POST", "/auth/tokens", {"auth": auth}, token="")
        if status != 201:
            raise errors.Unavailable("KeystoneLogin", f"Keystone {self._url} refuses the admin's login ({status})")
        self._token = headers["X-Subject-Token"]
        self._tokens[self._url] = self._login, self._token

    async def _send(
        self, verb: str, path: str, body: Mapping[str, Any] | None, token: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        assert self._session is not None, "the client is used outside its context"
        headers = {"X-Auth-Token": token} if token else {}
        try:
            async with self._session.request(verb, self._url + path, json=body, headers=headers) as response:
                is_json = response.content_type == "application/json"
                return response.status, await response.json() if is_json else None, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise errors.Unavailable(
                "KeystoneUnreachable", f"Keystone {self._url}: {type(problem).__name__}: {problem}"
            ) from None
