"""What the operator asks the compute API: on which hosts can servers boot, and is something still there?

The API lists a compute host only when the host is mapped to its cell, which is what the scheduler needs.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from typing import Any

import aiohttp

from openstack_operator.runtime import errors

DOMAIN = {"id": "default"}
TIMEOUT_SECONDS = 15


async def mapped_hosts(auth_url: str, user: str, password: str, compute_url: str) -> set[str]:
    """Names of hosts that are mapped to a cell and up. Raises ``errors.Unavailable``, never with a password in it."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        token = await _token(session, auth_url, user, password)
        answer, _ = await _call(session, "GET", f"{compute_url}/os-hypervisors/detail", token=token)
    return {
        one["service"]["host"] for one in answer["hypervisors"] if one["state"] == "up" and one["status"] == "enabled"
    }


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
    session: aiohttp.ClientSession, verb: str, url: str, body: dict[str, Any] | None = None, token: str = ""
) -> tuple[Any, str]:
    headers = {"X-Auth-Token": token} if token else {}
    try:
        async with session.request(verb, url, json=body, headers=headers) as response:
            if response.status >= 400:
                raise errors.Unavailable("ComputeAPI", f"{verb} {url} answers {response.status}")
            return await response.json(), response.headers.get("X-Subject-Token", "")
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        raise errors.Unavailable("ComputeAPI", f"{verb} {url}: {type(problem).__name__}: {problem}") from None
