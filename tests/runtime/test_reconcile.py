"""What a controller does to the objects of a real API server, counted in its audit log."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest
import toy

import watching
from openstack_operator.runtime import conditions, controller, drift, errors, kinds, runner

EVIL = {"name": "toy", "image": "evil", "imagePullPolicy": "IfNotPresent"}
CHILDREN = (kinds.CONFIGMAP, kinds.SECRET, kinds.DEPLOYMENT)
APPLIED = [("patch", "configmaps", "one"), ("patch", "deployments", "one"), ("patch", "secrets", "one")]


async def test_children_are_created_and_owned(world: Any) -> None:
    async with world.operator():
        item = await world.create(text="hi")
        await world.until_ready(status="False", reason="PodsNotReady")
    for resource in CHILDREN:
        child = await world.find(resource)
        assert child["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "toys.example.org/v1", "kind": "Toy", "name": "one", "uid": item["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }
        ]  # fmt: skip
    assert (await world.find(kinds.CONFIGMAP))["data"] == {"text": "hi"}


async def test_an_object_costs_one_apply_for_each_child_and_two_writes_of_status(world: Any) -> None:
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        await world.set_ready()
        await world.until_ready()
        await operator.settle()
    writes = sorted(request for request in operator.requests() if request[0] != "list")
    assert writes == sorted([*APPLIED, *[("patch", "toys/status", "one")] * 2])


async def test_messages_that_change_all_the_time_are_written_now_and_then_and_the_last_one_always(world: Any) -> None:
    pods, looks = 20, 0

    async def ensure_workload(scope: toy.Scope) -> str:
        nonlocal looks
        looks += 1
        return await toy.ensure_workload(scope)

    steps = (controller.Step("WorkloadReady", ensure_workload),)
    async with world.operator(toy.toys(steps=steps)) as operator:
        await world.create(replicas=pods)
        await world.until_ready(status="False", reason="PodsNotReady")
        before, since = world.control_plane.audit_size(), looks
        for ready in range(1, pods):
            last = looks
            await world.set_ready(replicas=ready)
            await watching.eventually(lambda last=last: looks > last, "a look")
        written = operator.requests(before).count(("patch", "toys/status", "one"))
        looked = looks - since
        text = f"Deployment one: {pods - 1} of {pods} pods are ready"
        await world.until(toy.RESOURCE, lambda item: text in str(conditions.find(item, "WorkloadReady")))
        # What is more than a message is not held back.
        await world.set_ready(replicas=pods)
        await world.until_ready()
    assert looked >= pods - 1
    assert written < looked / 2


async def test_ready_does_not_wait_for_advice(world: Any) -> None:
    advice: list[errors.StepError | conditions.Outcome] = [
        errors.Waiting("NotYet", "later"),
        errors.Unavailable("Away", "refused"),
        conditions.Outcome("False", "Failure", "a check failed"),
        conditions.Outcome("True", "Warning", "look at this"),
    ]

    async def observe(_: toy.Scope) -> conditions.Outcome:
        found = advice[0]
        if isinstance(found, conditions.Outcome):
            return found
        raise found

    steps = (controller.Step("ConfigReady", toy.ensure_config), controller.Step("Advice", observe, advises=True))
    told = []
    async with world.operator(toy.toys(steps=steps)):
        await world.create()
        await world.until_ready()
        while advice:
            reason = getattr(advice[0], "reason", "")
            item = await world.until(
                toy.RESOURCE,
                lambda item, reason=reason: (conditions.find(item, "Advice") or {}).get("reason") == reason,
            )
            told.append({one["type"]: one["status"] for one in item["status"]["conditions"]})
            advice.pop(0)
            if advice:
                await world.patch(toy.RESOURCE, "one", {"metadata": {"annotations": {"left": str(len(advice))}}})
    assert [found.pop("Advice") for found in told] == ["Unknown", "Unknown", "False", "True"]
    settled = {"Ready": "True", "ConfigReady": "True", "Reconciling": "False", "Stalled": "False"}
    assert told == [settled] * 4


async def test_a_pass_that_changes_nothing_makes_no_request(world: Any) -> None:
    """Regression r34, f30."""
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        await world.set_ready()
        await world.until_ready()
        await operator.settle()
        before = world.control_plane.audit_size()
        # A change of a child that is none for us, and a look at every object.
        await world.patch(kinds.DEPLOYMENT, "one", {"metadata": {"labels": {"by": "hand"}}})
        for item in operator.manager.informer(toy.RESOURCE).items():
            operator.manager.runners[0].enqueue((world.namespace, item["metadata"]["name"]))
        await operator.settle()
    assert operator.requests(before) == []


def without_times(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: one[key] for key in one if key != "lastTransitionTime"} for one in status["conditions"]]


async def test_a_status_that_somebody_else_wrote_is_written_again_and_our_own_writes_wake_nobody(world: Any) -> None:
    passes = 0

    async def look(_: toy.Scope) -> None:
        nonlocal passes
        passes += 1

    async with world.operator(toy.toys(steps=(controller.Step("Looked", look),))) as operator:
        await world.create()
        told = (await world.until_ready())["status"]
        await operator.settle()
        # One for the object, none for the status that it wrote.
        assert passes == 1
        for edit in ({"conditions": []}, {"conditions": None, "observedGeneration": 77}):
            await world.patch(toy.RESOURCE, "one", {"status": edit}, "status")
            found = await world.until(toy.RESOURCE, lambda item: len(item["status"].get("conditions", [])) > 1)
            assert without_times(found["status"]) == without_times(told)
            assert found["status"]["observedGeneration"] == told["observedGeneration"]
        await operator.settle()
        assert passes == 3


async def test_an_operator_that_starts_anew_lists_each_kind_once_and_writes_nothing(world: Any) -> None:
    async with world.operator() as operator:
        await world.create()
        await world.create("two", text="", replicas=0)
        await world.until_ready(status="False", reason="PodsNotReady")
        await world.set_ready()
        await world.until_ready()
        await world.until_ready("two")
    async with world.operator() as operator:
        await operator.settle()
    kinds_listed = [("list", f"{resource.plural}", "") for resource in (toy.RESOURCE, *CHILDREN)]
    assert sorted(operator.requests()) == sorted(kinds_listed)


@pytest.mark.parametrize(
    ("resource", "edit"),
    [
        (kinds.CONFIGMAP, {"data": {"text": "by hand"}}),
        (kinds.CONFIGMAP, {"metadata": {"ownerReferences": None}}),
        (kinds.SECRET, {"data": {"password": base64.b64encode(b"by hand").decode()}}),
        (kinds.SECRET, {"metadata": {"annotations": {"toys.example.org/applied": "0"}}}),
        (kinds.DEPLOYMENT, {"spec": {"replicas": 7}}),
        (kinds.DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [EVIL]}}}}),
    ],
)
async def test_a_child_edited_by_hand_is_repaired_with_one_request(world: Any, resource: Any, edit: Any) -> None:
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        original = await world.find(resource)
        # The log has a request a moment after its effect is seen.
        await operator.settle()
        before = world.control_plane.audit_size()
        await world.patch(resource, "one", edit)
        repaired = await world.until(resource, lambda item: not _difference(original, item))
        await operator.settle()
    assert operator.requests(before) == [("patch", resource.plural, "one")]
    assert repaired["metadata"]["ownerReferences"] == original["metadata"]["ownerReferences"]


def _difference(original: Any, item: Any) -> str | None:
    essence = {key: value for key, value in original.items() if key in ("spec", "data", "type")}
    marks = {key: original["metadata"][key] for key in ("annotations", "ownerReferences")}
    return drift.difference({**essence, "metadata": marks}, item)


@pytest.mark.parametrize("resource", CHILDREN)
async def test_a_child_deleted_by_hand_is_made_anew_with_one_request(world: Any, resource: Any) -> None:
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        uid = (await world.find(resource))["metadata"]["uid"]
        await operator.settle()
        before = world.control_plane.audit_size()
        await world.delete(resource)
        await world.until(resource, lambda item: item is not None and item["metadata"]["uid"] != uid)
        await operator.settle()
    assert operator.requests(before) == [("patch", resource.plural, "one")]


async def test_a_field_that_we_stop_setting_goes_away(world: Any) -> None:
    async def ensure(scope: toy.Scope) -> None:
        data = {"kept": "1"} | ({"withdrawn": "1"} if scope.spec.text == "both" else {})
        await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": "one"}, "data": data})

    async with world.operator(toy.toys(steps=(controller.Step("ConfigReady", ensure),))):
        await world.create(text="both")
        await world.until_ready()
        await world.patch(toy.RESOURCE, "one", {"spec": {"text": "one"}})
        await world.until(kinds.CONFIGMAP, lambda item: item["data"] == {"kept": "1"})


async def test_conditions_stand_in_the_order_of_the_table_and_say_what_is_unmet(world: Any) -> None:
    async with world.operator():
        await world.create(text="stalled")
        item = await world.until_ready(status="False", reason="Nonsense")
    generation = item["metadata"]["generation"]
    found = [(c["type"], c["status"], c["reason"], c["message"]) for c in item["status"]["conditions"]]
    unmet = "ConfigReady: spec.text: choose another"
    assert found == [
        ("Ready", "False", "Nonsense", unmet),
        ("ConfigReady", "False", "Nonsense", "spec.text: choose another"),
        ("SecretReady", "True", "Ready", ""),
        ("WorkloadReady", "Unknown", "Blocked", "waits for ConfigReady"),
        ("Reconciling", "False", "Nonsense", ""),
        ("Stalled", "True", "Nonsense", unmet),
    ]
    assert {c["observedGeneration"] for c in item["status"]["conditions"]} == {generation}
    assert item["status"]["observedGeneration"] == generation


async def test_a_condition_keeps_its_transition_time_until_its_status_changes(world: Any) -> None:
    async with world.operator():
        await world.create()
        item = await world.until_ready(status="False", reason="PodsNotReady")
        # Times have seconds: an older one shows that it was kept.
        old = [{**c, "lastTransitionTime": "2001-01-01T00:00:00Z"} for c in item["status"]["conditions"]]
        await world.patch(toy.RESOURCE, "one", {"status": {"conditions": old}}, "status")
        await world.set_ready()
        item = await world.until_ready()
    kept = {c["type"]: c["lastTransitionTime"].startswith("2001") for c in item["status"]["conditions"]}
    assert kept == {
        "Ready": False, "ConfigReady": True, "SecretReady": True, "WorkloadReady": False,
        "Reconciling": False, "Stalled": True,
    }  # fmt: skip


async def test_a_status_field_that_somebody_else_set_does_not_make_us_write_for_ever(world: Any) -> None:
    async with world.operator() as operator:
        await world.create()
        item = await world.until_ready(status="False", reason="PodsNotReady")
        foreign = {
            "type": "Foreign", "status": "True", "reason": "Other", "message": "",
            "lastTransitionTime": "2001-01-01T00:00:00Z",
        }  # fmt: skip
        listed = [*item["status"]["conditions"], foreign]
        await world.patch(toy.RESOURCE, "one", {"status": {"conditions": listed}}, "status")
        await operator.settle()
        operator.manager.runners[0].enqueue((world.namespace, "one"))
        await operator.settle()
        before = world.control_plane.audit_size()
        operator.manager.runners[0].enqueue((world.namespace, "one"))
        await operator.settle()
    assert operator.requests(before) == []


async def test_a_message_of_a_step_that_succeeds_stands_in_its_condition(world: Any) -> None:
    async with world.operator():
        await world.create(replicas=0)
        item = await world.until_ready()
    assert conditions.find(item, "WorkloadReady")["message"] == "0 pods are ready"


async def test_events_are_written_on_transitions_only(world: Any) -> None:
    """Regression h14."""
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        await world.set_ready()
        await world.until_ready()
        await world.set_ready(replicas=0)
        await world.until_ready(status="False")
        await operator.settle()
        operator.manager.runners[0].enqueue((world.namespace, "one"))
        await operator.settle()
    events = (await world.api.request("GET", world.path(kinds.EVENT)))["items"]
    found = sorted((e["type"], e["reason"], e["message"]) for e in events if e["involvedObject"]["kind"] == "Toy")
    zero = "Deployment one: 0 of 1 pods are ready"
    assert found == [
        ("Normal", "ConfigReady", "ConfigReady is True"),
        ("Normal", "Ready", "Ready is True"),
        ("Normal", "SecretReady", "SecretReady is True"),
        ("Normal", "WorkloadReady", "1 pods are ready"),
        ("Warning", "PodsNotReady", f"Ready is False: WorkloadReady: {zero}"),
        ("Warning", "PodsNotReady", f"WorkloadReady is False: {zero}"),
    ]


async def test_what_waits_is_woken_by_a_watch(world: Any) -> None:
    async def ensure(scope: toy.Scope) -> None:
        if scope.get(kinds.SERVICE, "wanted") is None:
            raise errors.Waiting("NoService", "Service wanted does not exist")

    def keys(item: Any, manager: Any) -> list[Any]:
        return [(item["metadata"]["namespace"], "one")]

    watches = (controller.Watch(kinds.SERVICE, keys),)
    watching = toy.toys(steps=(controller.Step("ServiceReady", ensure),), watches=watches)
    async with world.operator(watching):
        await world.create()
        await world.until_ready(status="False", reason="NoService")
        service = {"metadata": {"name": "wanted", "namespace": world.namespace}, "spec": {"ports": [{"port": 1}]}}
        await world.api.create(kinds.SERVICE, service)
        await world.until_ready()


async def test_a_watch_that_says_what_is_relevant_is_woken_by_nothing_else(world: Any) -> None:
    asked: list[str] = []

    async def ensure(scope: toy.Scope) -> None:
        service = scope.get(kinds.SERVICE, "beats")
        if service is None or service["spec"]["ports"][0]["port"] != 2:
            raise errors.Waiting("NoPort", "Service beats does not listen at 2")

    def keys(item: Any, manager: Any) -> list[Any]:
        asked.append(item["metadata"].get("annotations", {}).get("beat", ""))
        return [(item["metadata"]["namespace"], "one")]

    watch = controller.Watch(kinds.SERVICE, keys, relevant=lambda item: item["spec"]["ports"][0]["port"])
    async with world.operator(toy.toys(steps=(controller.Step("ServiceReady", ensure),), watches=(watch,))):
        await world.create()
        metadata = {"name": "beats", "namespace": world.namespace, "annotations": {"beat": "0"}}
        await world.api.create(kinds.SERVICE, {"metadata": metadata, "spec": {"ports": [{"port": 1}]}})
        await world.until_ready(status="False", reason="NoPort")
        for number in range(1, 4):
            await world.patch(kinds.SERVICE, "beats", {"metadata": {"annotations": {"beat": str(number)}}})
        await world.patch(kinds.SERVICE, "beats", {"spec": {"ports": [{"port": 2}]}})
        await world.until_ready()
    # Of the last change both sides; of the heartbeats nothing.
    assert asked == ["0", "3", "3"]


async def test_what_waits_with_a_delay_is_looked_at_again_without_an_event(world: Any) -> None:
    looks = []

    async def ensure(scope: toy.Scope) -> None:
        looks.append(scope.name)
        if len(looks) < 3:
            raise errors.Waiting("Outside", "not yet", retry_after=0.05)

    async with world.operator(toy.toys(steps=(controller.Step("OutsideReady", ensure),))):
        await world.create()
        await world.until_ready()
    assert len(looks) == 3


async def test_what_is_stalled_is_not_tried_again_until_the_object_changes(world: Any) -> None:
    async with world.operator() as operator:
        await world.create(text="stalled")
        await world.until_ready(status="False", reason="Nonsense")
        await operator.settle()
        queue = operator.manager.runners[0].queue
        assert queue.soon(3600) == 0
        await world.patch(toy.RESOURCE, "one", {"spec": {"text": "sense"}})
        await world.until_ready(status="False", reason="PodsNotReady")


async def test_a_child_that_the_server_rejects_stalls_its_object(world: Any) -> None:
    async with world.operator() as operator:
        await world.create(text="rejected")
        item = await world.until_ready(status="False", reason="ApiError")
        await operator.settle()
        assert operator.manager.runners[0].queue.soon(3600) == 0
    stalled = conditions.find(item, "Stalled")
    assert stalled["status"] == "True"
    assert 'Invalid value: "No Such Name"' in stalled["message"]


async def test_an_unknown_field_in_a_child_stalls_its_object(world: Any) -> None:
    async def ensure(scope: toy.Scope) -> None:
        body = toy.deployment(scope)
        body["spec"]["template"]["spec"]["nodeSelektor"] = {"a": "b"}
        await scope.apply(kinds.DEPLOYMENT, body)

    async with world.operator(toy.toys(steps=(controller.Step("WorkloadReady", ensure),))):
        await world.create()
        item = await world.until_ready(status="False", reason="ApiError")
    assert "nodeSelektor" in conditions.find(item, "Stalled")["message"]


async def test_an_outage_outside_is_retried_with_a_growing_delay(world: Any) -> None:
    async with world.operator() as operator:
        await world.create(text="away")
        item = await world.until_ready(status="False", reason="DatabaseAway")
        queue = operator.manager.runners[0].queue
        assert queue.soon(1) or queue.busy or len(queue)
    assert conditions.find(item, "Reconciling")["status"] == "True"


async def test_a_bug_in_a_step_backs_off_tells_no_secret_and_leaves_other_objects_alone(world: Any) -> None:
    async with world.operator() as operator:
        await world.create("broken", text="bug")
        item = await world.until_ready("broken", status="False", reason="InternalError")
        await world.create("sound", replicas=0)
        await world.until_ready("sound")
        queue = operator.manager.runners[0].queue
        assert queue.soon(300) or queue.busy or len(queue)
    message = conditions.find(item, "ConfigReady")["message"]
    assert message == "ZeroDivisionError: see the operator's log"


async def test_a_bug_in_a_watch_does_not_end_the_cache(world: Any) -> None:
    def keys(item: Any, manager: Any) -> list[Any]:
        raise ZeroDivisionError

    async with world.operator(toy.toys(watches=(controller.Watch(kinds.CONFIGMAP, keys),))):
        await world.create(replicas=0)
        await world.until_ready()


async def test_a_child_that_belongs_to_another_object_is_not_touched_until_it_is_free(world: Any) -> None:
    async def ensure(scope: toy.Scope) -> None:
        await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": "shared"}, "data": {"by": scope.name}})

    async with world.operator(toy.toys(steps=(controller.Step("ConfigReady", ensure),))) as operator:
        await world.create("first")
        await world.until_ready("first")
        await world.create("second")
        item = await world.until_ready("second", status="False", reason="NameInUse")
        message = f"ConfigReady: ConfigMap {world.namespace}/shared belongs to Toy first: rename one of the two"
        assert conditions.find(item, "Stalled")["message"] == message
        await world.delete(toy.RESOURCE, "first")
        await operator.settle()
        # There is no garbage collector here.
        await world.delete(kinds.CONFIGMAP, "shared")
        await world.until_ready("second")
    assert (await world.find(kinds.CONFIGMAP, "shared"))["data"] == {"by": "second"}


async def test_children_that_are_not_wanted_any_more_are_pruned(world: Any) -> None:
    async def ensure(scope: toy.Scope) -> None:
        names = [f"part-{number}" for number in range(scope.spec.replicas)]
        for name in names:
            await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": name}})
        await scope.prune(kinds.CONFIGMAP, names)

    async with world.operator(toy.toys(steps=(controller.Step("ConfigReady", ensure),))):
        foreign = {"metadata": {"name": "part-9", "namespace": world.namespace}}
        await world.api.create(kinds.CONFIGMAP, foreign)
        await world.create(replicas=3)
        await world.until_ready()
        await world.patch(toy.RESOURCE, "one", {"spec": {"replicas": 1}})
        await world.until(kinds.CONFIGMAP, lambda item: item is None, "part-2")
        await world.until(kinds.CONFIGMAP, lambda item: item is None, "part-1")
    assert await world.find(kinds.CONFIGMAP, "part-0")
    assert await world.find(kinds.CONFIGMAP, "part-9")


async def test_a_thousand_objects_are_all_reconciled_and_none_by_two_workers_at_once(world: Any) -> None:
    """Case 117."""
    busy: set[str] = set()
    worst = 0

    async def ensure(scope: toy.Scope) -> None:
        nonlocal worst
        assert scope.name not in busy
        busy.add(scope.name)
        worst = max(worst, len(busy))
        await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": scope.name}})
        busy.discard(scope.name)

    steps = (controller.Step("ConfigReady", ensure),)
    count = 1000
    await asyncio.gather(*(world.create(f"toy-{number}") for number in range(count)))
    async with world.operator(toy.toys(steps=steps, workers=8)) as operator:
        await operator.settle(60)
        ready = [conditions.is_ready(item) for item in operator.manager.informer(toy.RESOURCE).items()]
        requests = [request for request in operator.requests() if request[0] == "patch"]
    assert ready == [True] * count
    assert worst >= 8
    assert len(requests) == 2 * count, "one apply and one write of status for each"


async def test_objects_whose_outside_hangs_hold_up_no_other(world: Any) -> None:
    """Case 117: sixty passes wait for an answer that does not come, and each worker had one of them."""
    hanging, away = set(), asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        if scope.name.startswith("hangs"):
            hanging.add(scope.name)
            await away.wait()
            raise errors.Unavailable("NoAnswer", "nothing was answered")

    async with world.operator(toy.toys(steps=(controller.Step("ThingReady", ensure),))) as operator:
        await asyncio.gather(*(world.create(f"hangs-{number}") for number in range(60)))
        await watching.eventually(
            lambda: len(list(operator.manager.informer(toy.RESOURCE).items())) == 60, "all are seen"
        )
        started = time.monotonic()
        await world.create("other")
        await world.until_ready("other")
        assert time.monotonic() - started < 5
        assert len(hanging) == 60
        away.set()
        await world.until_ready("hangs-0", status="False", reason="NoAnswer")


async def test_no_more_passes_than_that_are_made_at_once_however_many_hang(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds a connection. Those that reach the limit at the same moment do not see each other."""
    monkeypatch.setattr(runner, "MOST_AT_ONCE", 10)
    seen, hanging, worst, away = set(), 0, 0, asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        nonlocal hanging, worst
        seen.add(scope.name)
        hanging += 1
        worst = max(worst, hanging)
        await away.wait()
        hanging -= 1

    async with world.operator(toy.toys(steps=(controller.Step("ThingReady", ensure),))) as operator:
        await asyncio.gather(*(world.create(f"toy-{number}") for number in range(20)))
        await watching.eventually(lambda: hanging >= 10, "as many as may")
        asyncio.get_running_loop().call_later(runner.PATIENCE_SECONDS * 3, away.set)
        await operator.settle()
    assert len(seen) == 20
    assert 10 <= worst < 10 + 4
