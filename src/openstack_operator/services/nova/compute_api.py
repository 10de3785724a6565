"""The one question that the operator asks the compute API: on which hosts can servers boot?

The API lists a compute host only when the host is mapped to its cell, which is what the scheduler needs.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from openstack_operator.runtime import errors

DOMAIN = {"id": "default"}
TIMEOUT_SECONDS = 15


async def mapped_hosts(auth_url: str, user: str, password: str, compute_url: str) -> set[str]:
    """Names of hosts that are mapped to a cell and up. Raises ``errors.Unavailable``, never with a password in it."""
    login = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "domain": DOMAIN, "password": password}},
            },
            "scope": {"project": {"name": "service", "domain": DOMAIN}},
        }
    }
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        _, token = await _call(session, "POST", f"{auth_url.rstrip('/')}/auth/tokens", body=login)
        answer, _ = await _call(session, "GET", f"{compute_url}/os-hypervisors/detail", token=token)
    return {
        one["service"]["host"] for one in answer["hypervisors"] if one["state"] == "up" and one["status"] == "enabled"
    }


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
