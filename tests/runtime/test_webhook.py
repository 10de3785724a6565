"""The admission webhook against a real API server: what it is asked, what people read, and what goes on without it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
import toy
from toyland import Operator, World

from openstack_operator.embedded.apiserver import free_ports
from openstack_operator.runtime import admission, certificates, client, errors, kinds, manager, webhook
from watching import eventually

SECRET = "toy-webhook"
NAME = "admission.toys.example.org"
CONFIGURATION = kinds.VALIDATINGWEBHOOKCONFIGURATION
LONG = "a warning that is far longer than what a person reads in one line of a terminal: " + "and on " * 40


def admit(new: admission.Subject, old: admission.Subject | None, objects: admission.Objects) -> admission.Verdict:
    """Refuses two words, warns of a third, and names a Secret."""
    errors = tuple(
        admission.Problem("spec.text", f"must not say {word}") for word in ("bad", "worse") if word in new.spec.text
    )
    others = [item["metadata"]["name"] for item in objects.items(toy.RESOURCE)]
    if "alone" in new.spec.text and others:
        errors += (admission.Problem("metadata.namespace", f"has {', '.join(sorted(others))} already"),)
    if "kept" in new.spec.text and old is not None and old.spec.text != new.spec.text:
        errors += (admission.Problem("spec.text", f"was {old.spec.text}"),)
    if "crash" in new.spec.text:
        raise ZeroDivisionError
    secret = new.spec.secret
    return admission.Verdict(
        errors,
        ("spec.text: odd", LONG) if "odd" in new.spec.text else (),
        (admission.Reference("spec.secret", kinds.SECRET, secret, "password"),) if secret else (),
    )


KIND = dataclasses.replace(toy.KIND, admit=admit)


@dataclasses.dataclass
class Clock:
    now: datetime.datetime = dataclasses.field(default_factory=webhook.utc_now)

    def __call__(self) -> datetime.datetime:
        return self.now


@dataclasses.dataclass
class Site:
    """A webhook's configuration for one namespace, and settings of operators that serve it."""

    world: World
    port: int
    clock: Clock = dataclasses.field(default_factory=Clock)

    @property
    def name(self) -> str:
        return self.world.namespace

    def settings(self, port: int | None = None) -> webhook.Settings:
        return webhook.Settings(
            self.name, NAME, self.world.namespace, SECRET, ("IP:127.0.0.1",), port or self.port, "127.0.0.1", self.clock
        )

    def configure(self) -> None:
        where = {"url": f"https://127.0.0.1:{self.port}{webhook.PATH}"}
        body = webhook.configuration(self.name, NAME, [toy.RESOURCE], where, "nobody")
        # The API server is shared with other tests.
        body["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.name}}
        self.world.control_plane.apply(body)

    async def bundle(self) -> str:
        item = await self.world.api.get(CONFIGURATION, self.name)
        return base64.b64decode(item["webhooks"][0]["clientConfig"].get("caBundle", "")).decode()

    def operator(self, *, port: int | None = None, **rest: Any) -> contextlib.AbstractAsyncContextManager[Operator]:
        return self.world.operator(toy.toys(kind=KIND), admission=self.settings(port), **rest)

    async def in_force(self) -> None:
        """Waits until the API server asks: it learns of a configuration by a watch."""
        await until(lambda: is_refused(self.world), bool)


async def until(ask: Callable[[], Any], is_met: Callable[[Any], bool]) -> Any:
    """Asks until the answer is the wanted one: nothing else tells what an API server has learnt by its own watch."""
    async with asyncio.timeout(20):
        while True:
            value = await ask()
            if is_met(value):
                return value
            await asyncio.sleep(0.02)


async def is_refused(world: World) -> bool:
    """Whether the API server refuses an object that the webhook refuses; nothing is stored."""
    body = {
        "apiVersion": toy.RESOURCE.api_version,
        "kind": toy.RESOURCE.kind,
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {"text": "bad"},
    }
    try:
        await world.api.request("POST", f"{toy.RESOURCE.path(world.namespace)}?dryRun=All", body=body)
    except errors.ApiError as problem:
        return "must not say bad" in problem.message
    return False


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    site = Site(world, free_ports(1)[0])
    site.configure()
    yield site
    await world.api.delete(CONFIGURATION, site.name)


def kubectl(world: World, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """What a person sees, warnings included."""
    program = world.control_plane.cluster.programs / "kubectl"
    return subprocess.run(
        [str(program), f"--kubeconfig={world.control_plane.kubeconfig}", "-n", world.namespace, *arguments],
        input=text, check=False, capture_output=True, text=True,
    )  # fmt: skip


def toy_text(name: str, **spec: Any) -> str:
    return client.encode(
        {"apiVersion": toy.RESOURCE.api_version, "kind": "Toy", "metadata": {"name": name}, "spec": spec}
    ).decode()


async def test_a_person_reads_everything_that_is_wrong_at_once(site: Site) -> None:
    async with site.operator():
        await site.in_force()
        said = await asyncio.to_thread(
            kubectl, site.world, "apply", "-f", "-", text=toy_text("one", text="bad and worse")
        )
        assert said.returncode == 1
        assert said.stderr.splitlines() == [
            'The Toy "one" is invalid: ',
            "* spec.text: must not say bad",
            "* spec.text: must not say worse",
        ]
        assert await site.world.find(toy.RESOURCE) is None
        with pytest.raises(errors.ApiError) as raised:
            await site.world.create(text="bad and worse")
        assert (raised.value.status, raised.value.reason) == (422, "Invalid")
        expected = "denied the request: spec.text: must not say bad; spec.text: must not say worse"
        assert raised.value.message.endswith(expected)


async def test_warnings_are_shown_and_the_object_is_stored(site: Site) -> None:
    async with site.operator():
        await site.in_force()
        said = await asyncio.to_thread(
            kubectl, site.world, "apply", "-f", "-", text=toy_text("one", text="odd", secret="mine")
        )
        assert said.returncode == 0, said.stderr
        assert said.stderr.splitlines() == [
            "Warning: spec.text: odd",
            f"Warning: {LONG[:255]}…",
            "Warning: spec.secret: Secret mine does not exist",
        ]
        await site.world.secret("mine", other="eA==")
        said = await asyncio.to_thread(kubectl, site.world, "apply", "-f", "-", text=toy_text("two", secret="mine"))
        assert said.stderr.splitlines() == ["Warning: spec.secret: Secret mine has no key password"]
        await site.world.secret("whole", password="eA==")
        said = await asyncio.to_thread(kubectl, site.world, "apply", "-f", "-", text=toy_text("three", secret="whole"))
        assert (said.returncode, said.stderr) == (0, "")


async def test_other_objects_and_the_old_self_count(site: Site) -> None:
    async with site.operator() as operator:
        await site.in_force()
        await site.world.create(text="alone")
        await eventually(lambda: len(operator.manager.informer(toy.RESOURCE)), "it is cached")
        with pytest.raises(errors.ApiError, match=r"metadata\.namespace: has one already"):
            await site.world.create("two", text="alone")
        with pytest.raises(errors.ApiError, match=r"spec\.text: was alone"):
            await site.world.patch(toy.RESOURCE, "one", {"spec": {"text": "kept"}})


async def test_without_the_webhook_everything_goes_on_and_the_condition_says_what_is_wrong(site: Site) -> None:
    """Case 105: outage, deletes, finalizers, status. Regression r56, f74, h18."""
    world = site.world
    async with site.operator():
        await site.in_force()
    # Nobody answers any more: the API server goes on at once, because nothing listens.
    await world.create(text="bad")
    await world.patch(toy.RESOURCE, "one", {"spec": {"text": "stalled"}, "metadata": {"finalizers": ["example.org/a"]}})
    await world.patch(toy.RESOURCE, "one", {"status": {"size": 4}}, "status")
    async with world.operator(toy.toys()):
        await world.until_ready(status="False", reason="Nonsense")
    await world.delete(toy.RESOURCE)
    await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": []}})
    await world.until(toy.RESOURCE, lambda item: item is None)


async def test_what_does_not_concern_the_spec_is_never_asked(site: Site) -> None:
    """Case 105: the webhook answers nothing at all, and would hold up what is asked for as long as it may."""
    world = site.world
    async with site.operator() as operator:
        await site.in_force()
        bundle = await site.bundle()
        held = operator.manager.webhook
        assert held is not None
        await world.create(text="fine")
    asked: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1))
        writer.transport.abort()

    secret = await world.api.get(kinds.SECRET, SECRET, world.namespace)
    found = certificates.from_data(secret)
    assert found is not None
    assert found.bundle == bundle
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificates.load(tls, found.served)
    async with await asyncio.start_server(listen, "127.0.0.1", site.port, ssl=tls):
        await world.patch(toy.RESOURCE, "one", {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.org/a"]}})
        await world.patch(toy.RESOURCE, "one", {"status": {"size": 4}}, "status")
        await world.delete(toy.RESOURCE)
        await world.patch(toy.RESOURCE, "one", {"spec": {"text": "on its way out"}})
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": []}})
        assert asked == []
        await world.create("two", text="fine")
        assert asked != [], "a new object is asked about"


async def test_a_fault_of_ours_lets_the_object_pass(site: Site) -> None:
    async with site.operator():
        await site.in_force()
        item = await site.world.create(text="crash")
        assert item["spec"]["text"] == "crash"


async def test_an_authority_that_somebody_takes_away_is_put_back(site: Site) -> None:
    async with site.operator():
        await site.in_force()
        bundle = await site.bundle()
        for somebodys in (None, base64.b64encode(bundle.encode()[:27]).decode()):
            item = await site.world.api.get(CONFIGURATION, site.name)
            item["webhooks"][0]["clientConfig"]["caBundle"] = (
                somebodys
                or base64.b64encode((await certificates.make(("IP:127.0.0.1",), site.clock()))[0].encode()).decode()
            )
            if somebodys is None:
                del item["webhooks"][0]["clientConfig"]["caBundle"]
            item["webhooks"][0]["timeoutSeconds"] = 7
            await site.world.api.replace(CONFIGURATION, item)
            await until(site.bundle, lambda found: found == bundle)
            await site.in_force()
        found = await site.world.api.get(CONFIGURATION, site.name)
        assert found["webhooks"][0]["timeoutSeconds"] == 7, "what else somebody chose stays"


async def test_a_secret_that_somebody_spoils_or_deletes_is_made_anew(site: Site) -> None:
    async with site.operator():
        await site.in_force()
        before = await site.bundle()
        await site.world.patch(kinds.SECRET, SECRET, {"data": {"tls.key": "eA=="}})
        between = await until(site.bundle, lambda found: found != before)
        await site.in_force()
        await site.world.delete(kinds.SECRET, SECRET)
        await until(site.bundle, lambda found: found not in (before, between))
        await site.in_force()


async def test_an_operator_that_cannot_make_a_certificate_works_and_says_that_it_is_not_ready(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (health,) = free_ports(1)
    monkeypatch.setenv("PATH", os.devnull)
    async with site.operator(health_port=health) as operator, aiohttp.ClientSession() as session:
        await site.world.create()
        await site.world.until(kinds.DEPLOYMENT, bool)
        async with session.get(f"http://127.0.0.1:{health}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "the webhook has no certificate yet")
        monkeypatch.undo()
        assert operator.manager.webhook is not None
        operator.manager.webhook.wake()
        await site.in_force()
        async with session.get(f"http://127.0.0.1:{health}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")


async def test_a_certificate_is_replaced_without_a_refused_call(site: Site) -> None:
    """Two replicas; a client that trusts what the configuration says is answered by both at every moment."""
    world = site.world
    leader, follower = (
        manager.LeaseSettings(world.namespace, "lease", identity, 5, 1) for identity in ("leader", "follower")
    )
    port = free_ports(1)[0]
    failed: list[str] = []
    rounds = 0
    is_over = asyncio.Event()

    async def steady() -> None:
        nonlocal rounds
        while not is_over.is_set():
            trusting = ssl.create_default_context(cadata=await site.bundle())
            for where in (site.port, port):
                try:
                    await ask(where, trusting)
                except aiohttp.ClientError as problem:
                    failed.append(repr(problem))
            if not await is_refused(world):
                failed.append("the API server did without an answer")
            rounds += 1

    async with site.operator(election=leader) as first, site.operator(port=port, election=follower) as second:
        leading, following = first.manager.webhook, second.manager.webhook
        assert leading is not None
        assert following is not None
        await eventually(lambda: leading.serving.is_set() and following.serving.is_set(), "both serve")
        await site.in_force()
        task = asyncio.ensure_future(steady())
        old = await site.bundle()

        async def pass_time(delta: datetime.timedelta) -> None:
            """SETTLE is the time in which all have learnt of a change; here it is ten calls."""
            since = rounds
            await eventually(lambda: rounds > since + 10, "ten calls")
            site.clock.now += delta
            leading.wake()

        await pass_time(certificates.RENEW)
        both = await until(site.bundle, lambda found: found != old)
        assert both.startswith(old)
        new = both.removeprefix(old)
        await pass_time(certificates.SETTLE)
        for where in (site.port, port):
            # Trusting the new authority alone works once the replica has the new certificate.
            await until(lambda where=where: is_trusted(where, new), bool)
        await pass_time(certificates.SETTLE)
        assert await until(site.bundle, lambda found: found != both) == new
        await pass_time(datetime.timedelta())
        is_over.set()
        await task
    assert failed == []


async def test_another_replica_answers_when_the_leader_is_gone(site: Site) -> None:
    world = site.world
    leases = [manager.LeaseSettings(world.namespace, "lease", identity, 5, 0.5) for identity in ("one", "two")]
    port = free_ports(1)[0]
    async with site.operator(election=leases[1], port=port) as second:
        async with site.operator(election=leases[0]):
            assert second.manager.webhook is not None
            await eventually(second.manager.webhook.serving.is_set, "the second serves")
            trusting = ssl.create_default_context(cadata=await until(site.bundle, bool))
            await ask(port, trusting)
        await ask(port, trusting)
        await world.api.delete(CONFIGURATION, site.name)
        site.port = port
        site.configure()
        await site.in_force()


async def is_trusted(port: int, bundle: str) -> bool:
    try:
        await ask(port, ssl.create_default_context(cadata=bundle))
    except aiohttp.ClientError:
        return False
    return True


async def ask(port: int, trusting: ssl.SSLContext) -> dict[str, Any]:
    """One question over a connection of its own, as an API server asks that has none open."""
    review = {
        "request": {
            "uid": "u",
            "namespace": "nowhere",
            "resource": {"group": toy.DOMAIN, "version": "v1", "resource": "toys"},
            "object": {"metadata": {"name": "one"}, "spec": {"text": "bad"}},
        }
    }
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, force_close=True)) as session:
        async with session.post(f"https://127.0.0.1:{port}{webhook.PATH}", data=client.encode(review)) as response:
            answer: dict[str, Any] = client.decode(await response.read())["response"]
    assert answer["allowed"] is False
    return answer
