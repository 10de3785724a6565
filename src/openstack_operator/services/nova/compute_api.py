"""What the operator asks the compute API: on which hosts can servers boot, and is something still there?

The API lists a compute host only when the host is mapped to its cell, which is what the scheduler needs. It needs the
host's inventory in Placement as well, which nova-compute writes a moment after it says that it is up.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp

from openstack_operator.runtime import errors

DOMAIN = {"id": "default"}
TIMEOUT_SECONDS = 15

# The first in which a hypervisor's id is the uuid of its resource provider.
HYPERVISORS_VERSION = {"OpenStack-API-Version": "compute 2.53"}


async def mapped_hosts(auth_url: str, user: str, password: str, compute_url: str, placement_url: str = "") -> set[str]:
    """Names of hosts that are mapped to a cell and up, and whose inventory Placement has, if its URL is given. Raises
    ``errors.Unavailable``, never with a password in it."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        token = await _token(session, auth_url, user, password)
        url = f"{compute_url}/os-hypervisors/detail"
        answer, _ = await _call(session, "GET", url, token=token, headers=HYPERVISORS_VERSION)
        found = [one for one in answer["hypervisors"] if one["state"] == "up" and one["status"] == "enabled"]
        if placement_url:
            answer, _ = await _call(session, "GET", f"{placement_url}/resource_providers", token=token)
            # A provider is made empty, with generation 0; the inventory is the first thing that it gets.
            filled = {one["uuid"] for one in answer["resource_providers"] if one["generation"] > 0}
            found = [one for one in found if one["id"] in filled]
    return {one["service"]["host"] for one in found}


async def are_present(
    auth_url: str, user: str, password: str, compute_url: str, servers: Iterable[str], hosts: Iterable[str]
) -> bool:
    """Whether all of these servers (by uuid) exist, and all of these hosts are up."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        token = await _token(session, auth_url, user, password)
        for uuid in servers:
            # As a list, because a server that is gone is an empty one and no error.
            answer, _ = await _call(session, "GET", f"{compute_url}/servers?all_tenants=1&uuid={uuid}", token=token)
            if not answer["servers"]:
                return False
        for host in hosts:
            query = urllib.parse.urlencode({"binary": "nova-compute", "host": host})
            answer, _ = await _call(session, "GET", f"{compute_url}/os-services?{query}", token=token)
            if not any(one["state"] == "up" for one in answer["services"]):
                return False
    return True


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
                raise errors.Unavailable("ComputeAPI", f"{verb} {url} answers {response.status}")
            return await response.json(), response.headers.get("X-Subject-Token", "")
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        raise errors.Unavailable("ComputeAPI", f"{verb} {url}: {type(problem).__name__}: {problem}") from None
