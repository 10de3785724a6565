"""What the operator makes of the answers of a compute API."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from openstack_operator.runtime import errors
from openstack_operator.services.nova import compute_api

HOSTS = ("good", "empty", "silent", "down", "off", "broken", "unmapped", "starting", "dark")


def hypervisor(host: str, state: str = "up", status: str = "enabled") -> dict[str, Any]:
    return {"id": f"uuid-{host}", "state": state, "status": status, "service": {"host": host}}


def service(state: str = "up", status: str = "enabled", reason: str | None = None) -> dict[str, Any]:
    return {"state": state, "status": status, "disabled_reason": reason}


@dataclasses.dataclass
class Nova:
    """Keystone, compute API and Placement on one port."""

    url: str
    asked: list[str]
    deleted: list[str]
    enabled: list[str]


@pytest.fixture
async def nova() -> AsyncIterator[Nova]:
    asked: list[str] = []
    deleted: list[str] = []
    enabled: list[str] = []
    services = {
        "down": service(state="down"),
        "off": service(status="disabled", reason="new memory on Monday"),
        "broken": service(status="disabled", reason="AUTO: Connection to libvirt lost: 1"),
        "unmapped": service(),
        "starting": service(),
        "used": service(state="down"),
        "moving": service(state="down"),
        "running": service(),
    }
    for name, one in services.items():
        one["id"] = f"id-{name}"
    # What Nova says of a host whose cell has no database at the moment.
    services["dark"] = {"host": "dark", "binary": "nova-compute", "status": "UNKNOWN"}

    async def tokens(_: web.Request) -> web.Response:
        return web.json_response({}, status=201, headers={"X-Subject-Token": "t"})

    async def hypervisors(_: web.Request) -> web.Response:
        listed = [hypervisor("good"), hypervisor("empty"), hypervisor("down", state="down")]
        return web.json_response({"hypervisors": [*listed, hypervisor("off", status="disabled")]})

    async def find(request: web.Request) -> web.Response:
        assert request.headers["OpenStack-API-Version"] == "compute 2.69"
        found = services.get(request.query["host"])
        return web.json_response({"services": [found] if found else []})

    async def show(request: web.Request) -> web.Response:
        host = request.match_info["host"]
        said = f"Host '{host}' is not mapped to any cell" if host == "unmapped" else f"Compute host {host} not found."
        return web.json_response({"itemNotFound": {"code": 404, "message": said}}, status=404)

    async def providers(_: web.Request) -> web.Response:
        found = [{"uuid": "uuid-good", "generation": 2}, {"uuid": "uuid-empty", "generation": 0}]
        return web.json_response({"resource_providers": found})

    async def servers(request: web.Request) -> web.Response:
        names = ["a", "b", "c", "d"] if request.query["host"] == "used" else []
        return web.json_response({"servers": [{"name": name} for name in names]})

    async def delete(request: web.Request) -> web.Response:
        assert request.headers["OpenStack-API-Version"] == "compute 2.69"
        if request.match_info["id"] == "id-moving":
            said = "Unable to delete compute service that has in-progress migrations."
            return web.json_response({"conflictingRequest": {"code": 409, "message": said}}, status=409)
        deleted.append(request.match_info["id"])
        return web.Response(status=204)

    async def update(request: web.Request) -> web.Response:
        assert request.headers["OpenStack-API-Version"] == "compute 2.69"
        assert await request.json() == {"status": "enabled"}
        enabled.append(request.match_info["id"])
        return web.json_response({"service": {"status": "enabled"}})

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        asked.append(request.path)
        answer: web.StreamResponse = await handler(request)
        return answer

    app = web.Application(middlewares=[note])
    app.router.add_post("/v3/auth/tokens", tokens)
    app.router.add_get("/v2.1/os-hypervisors/detail", hypervisors)
    app.router.add_get("/v2.1/os-services", find)
    app.router.add_put("/v2.1/os-services/{id}", update)
    app.router.add_delete("/v2.1/os-services/{id}", delete)
    app.router.add_get("/v2.1/servers", servers)
    app.router.add_get("/v2.1/os-hosts/{host}", show)
    app.router.add_get("/placement/resource_providers", providers)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield Nova(f"http://{host}:{port}", asked, deleted, enabled)
    await runner.cleanup()


async def missing(nova: Nova, *hosts: str, placement: str = "/placement") -> dict[str, str]:
    where = f"{nova.url}{placement}" if placement else ""
    return await compute_api.missing_hosts(f"{nova.url}/v3", "nova", "pw", f"{nova.url}/v2.1", where, hosts)


async def test_what_a_host_lacks_is_said(nova: Nova) -> None:
    assert await missing(nova, *HOSTS) == {
        "empty": "Placement has no inventory of it",
        "silent": "nova-compute has not registered",
        "down": "nova-compute is down",
        "broken": "enabled a moment ago; nova-compute had disabled it: AUTO: Connection to libvirt lost: 1",
        "unmapped": compute_api.UNMAPPED,
        "starting": "nova-compute has not reported its resources",
        "dark": compute_api.DARK,
    }


async def test_of_disabled_hosts_only_those_are_enabled_that_nova_compute_took_out_itself(nova: Nova) -> None:
    await missing(nova, *HOSTS)
    assert nova.enabled == ["id-broken"]


async def test_a_host_that_serves_takes_three_requests(nova: Nova) -> None:
    assert await missing(nova, "good") == {}
    assert nova.asked == ["/v3/auth/tokens", "/v2.1/os-hypervisors/detail", "/placement/resource_providers"]


async def test_without_placement_its_inventories_are_not_looked_at(nova: Nova) -> None:
    assert await missing(nova, "good", "empty", placement="") == {}


async def test_an_answer_that_is_an_error_is_told(nova: Nova) -> None:
    with pytest.raises(errors.Unavailable, match=r"GET http://\S+/v2.1/os-hypervisors/detail answers 404"):
        await compute_api.missing_hosts(f"{nova.url}/v3", "nova", "pw", f"{nova.url}/elsewhere/v2.1", "", ["good"])


async def test_only_the_service_of_a_host_that_is_down_and_empty_is_deleted(nova: Nova) -> None:
    hosts = ["down", "used", "moving", "running", "dark", "unknown"]
    kept = await compute_api.remove_hosts(f"{nova.url}/v3", "nova", "pw", f"{nova.url}/v2.1", hosts)
    assert nova.deleted == ["id-down"]
    assert kept.pop("moving").endswith('"Unable to delete compute service that has in-progress migrations."}}')
    assert kept == {
        "used": "4 servers are on it (a, b, c, …)",
        "running": compute_api.RUNS,
        "dark": compute_api.DARK,
    }
