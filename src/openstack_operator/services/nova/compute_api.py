"""What the operator asks the compute API: on which hosts can servers boot, is something still there, that it enables
hosts whose libvirt is back, and that it forgets hosts which are empty.

The API lists a compute host only when the host is mapped to its cell, which is what the scheduler needs. It needs the
host's inventory in Placement as well, which nova-compute writes after it has said that it is up.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp

from openstack_operator.kit import sessions
from openstack_operator.runtime import errors

DOMAIN = {"id": "default"}
TIMEOUT_SECONDS = 15
LONGEST_ANSWER = 300
"""Characters of an error that a message repeats."""

# The first in which a hypervisor's id is the uuid of its resource provider.
HYPERVISORS_VERSION = {"OpenStack-API-Version": "compute 2.53"}


# The first in which the services of a cell that does not answer are listed too.
SERVICES_VERSION = {"OpenStack-API-Version": "compute 2.69"}
LISTED = 3
"""Servers that a message names."""

UNMAPPED = "not mapped to a cell"
TAKEN_OUT = "AUTO:"
"""What the reason begins with where nova-compute has disabled its own service, since libvirt did not answer it."""
ENABLED = "enabled a moment ago"
DARK = "the database of its cell does not answer"
RUNS = "nova-compute reported a moment ago"


async def missing_hosts(
    auth_url: str, user: str, password: str, compute_url: str, placement_url: str, wanted: Iterable[str]
) -> dict[str, str]:
    """What is missing at each of these hosts on which no server can boot, and is not switched off by a person.

    To be asked where libvirt answers on all of them. nova-compute takes its host out of use when it loses libvirt, and
    connects again with the next thing it does there, which on a host that gets no servers is its report of resources,
    once a minute: such a host is enabled here, and is missing until the next look (`ENABLED`).

    Three requests when nothing is. Without the URL of Placement its inventories are not looked at. Raises
    ``errors.Unavailable``, never with a password in it.
    """
    async with sessions.to_service(TIMEOUT_SECONDS) as session:
        token = await _token(session, auth_url, user, password)
        url = f"{compute_url}/os-hypervisors/detail"
        answer, _ = await _call(session, "GET", url, token=token, headers=HYPERVISORS_VERSION)
        found = {one["service"]["host"]: one for one in answer["hypervisors"]}
        filled = None
        if placement_url:
            answer, _ = await _call(session, "GET", f"{placement_url}/resource_providers", token=token)
            # A provider is made empty, with generation 0; the inventory is the first thing that it gets.
            filled = {one["uuid"] for one in answer["resource_providers"] if one["generation"] > 0}
        missing = {}
        for host in wanted:
            one = found.get(host)
            if one is None or one["state"] != "up" or one["status"] != "enabled":
                if why := await _problem(session, token, compute_url, host, is_listed=one is not None):
                    missing[host] = why
            elif filled is not None and one["id"] not in filled:
                missing[host] = "Placement has no inventory of it"
    return missing


async def _problem(session: aiohttp.ClientSession, token: str, compute_url: str, host: str, *, is_listed: bool) -> str:
    """Why a host is not listed as one that is up and enabled."""
    services = await _services(session, token, compute_url, host)
    if not services:
        return "nova-compute has not registered"
    service = services[0]
    if "id" not in service:
        return DARK
    if service["state"] != "up":
        return "nova-compute is down"
    if service["status"] != "enabled":
        reason = service.get("disabled_reason") or ""
        if not reason.startswith(TAKEN_OUT):
            return ""
        url = f"{compute_url}/os-services/{service['id']}"
        await _call(session, "PUT", url, {"status": "enabled"}, token, SERVICES_VERSION)
        return f"{ENABLED}; nova-compute had disabled it: {reason}"
    if is_listed:
        # It has come up between the two answers.
        return "up a moment ago"
    try:
        await _call(session, "GET", f"{compute_url}/os-hosts/{urllib.parse.quote(host)}", token=token)
    except errors.Unavailable as problem:
        # The one word of the API about mappings.
        if "is not mapped" in problem.message:
            return UNMAPPED
    return "nova-compute has not reported its resources"


async def are_present(
    auth_url: str, user: str, password: str, compute_url: str, servers: Iterable[str], hosts: Iterable[str]
) -> bool:
    """Whether all of these servers (by uuid) exist, and all of these hosts are up."""
    async with sessions.to_service(TIMEOUT_SECONDS) as session:
        token = await _token(session, auth_url, user, password)
        for uuid in servers:
            # As a list, because a server that is gone is an empty one and no error.
            answer, _ = await _call(session, "GET", f"{compute_url}/servers?all_tenants=1&uuid={uuid}", token=token)
            if not answer["servers"]:
                return False
        for host in hosts:
            services = await _services(session, token, compute_url, host)
            if not any(one.get("state") == "up" for one in services):
                return False
    return True


async def remove_hosts(
    auth_url: str, user: str, password: str, compute_url: str, hosts: Iterable[str]
) -> dict[str, str]:
    """Makes Nova forget those of these hosts that are empty; says of each other one why it is kept.

    With a compute service go the host's mapping, its providers in Placement and its places in aggregates. Nova itself
    refuses where a server is on the host or a migration of one is not over. A host without a service is none.
    """
    kept = {}
    async with sessions.to_service(TIMEOUT_SECONDS) as session:
        token = await _token(session, auth_url, user, password)
        for host in hosts:
            if why := await _remove_host(session, token, compute_url, host):
                kept[host] = why
    return kept


async def _remove_host(session: aiohttp.ClientSession, token: str, compute_url: str, host: str) -> str:
    services = await _services(session, token, compute_url, host)
    if any("id" not in one for one in services):
        return DARK
    if any(one["state"] == "up" for one in services):
        return RUNS
    for service in services:
        query = urllib.parse.urlencode({"all_tenants": 1, "host": host})
        answer, _ = await _call(session, "GET", f"{compute_url}/servers?{query}", token=token)
        if found := answer["servers"]:
            shown = ", ".join(one["name"] for one in found[:LISTED]) + (", …" if len(found) > LISTED else "")
            return f"{len(found)} server{'s are' if len(found) > 1 else ' is'} on it ({shown})"
        try:
            url = f"{compute_url}/os-services/{service['id']}"
            await _call(session, "DELETE", url, token=token, headers=SERVICES_VERSION)
        except errors.Unavailable as problem:
            _, is_conflict, said = problem.message.partition(" answers 409: ")
            if not is_conflict:
                raise
            return f"Nova keeps it: {said}"
    return ""


async def _services(session: aiohttp.ClientSession, token: str, compute_url: str, host: str) -> list[dict[str, Any]]:
    """The nova-compute services of a host. One whose cell does not answer has neither ``id`` nor ``state``."""
    query = urllib.parse.urlencode({"binary": "nova-compute", "host": host})
    url = f"{compute_url}/os-services?{query}"
    answer, _ = await _call(session, "GET", url, token=token, headers=SERVICES_VERSION)
    found: list[dict[str, Any]] = answer["services"]
    return found


async def _token(session: aiohttp.ClientSession, auth_url: str, user: str, password: str) -> str:
    login = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "domain": DOMAIN, "password": password}},
            },
            "scope": {"project": {"name": "service", "domain": DOMAIN}},
        }
    }
    _, token = await _call(session, "POST", f"{auth_url.rstrip('/')}/auth/tokens", body=login)
    return token


async def _call(
    session: aiohttp.ClientSession,
    verb: str,
    url: str,
    body: dict[str, Any] | None = None,
    token: str = "",
    headers: Mapping[str, str] | None = None,
) -> tuple[Any, str]:
    sent = {**(headers or {}), **({"X-Auth-Token": token} if token else {})}
    try:
        async with session.request(verb, url, json=body, headers=sent) as response:
            if response.status >= 400:
                said = " ".join((await response.text()).split())[:LONGEST_ANSWER]
                raise errors.Unavailable("ComputeAPI", f"{verb} {url} answers {response.status}: {said}")
            if response.status == 204:
                return None, ""
            return await response.json(), response.headers.get("X-Subject-Token", "")
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        raise errors.Unavailable("ComputeAPI", f"{verb} {url}: {type(problem).__name__}: {problem}") from None
