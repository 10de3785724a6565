"""What Nova itself says about the next upgrade: the verdicts of `nova-status upgrade check`, as a condition.

The check asks databases, Keystone and Placement, so it can run only once hosts are ready; its Job waits a while longer
and takes the processor last, because the first servers matter more. It runs once for each set of inputs: image,
configuration, cells. Its verdicts come in the termination message of its pod.

Ready does not depend on them. Each is about what comes next, while the cloud of now serves: a cloud that turned not
Ready for it would alarm people, and hold up what waits for it, at a time when nothing is broken. A failure is a
condition that is False, and an Event of its transition.
"""

from __future__ import annotations

import datetime
import json

from openstack_operator.kit import config, jobs, labels, levels, names, verified
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.conditions import Outcome
from openstack_operator.runtime.controller import Scope
from openstack_operator.services.nova import config as files
from openstack_operator.services.nova import resources
from openstack_operator.services.nova.types import NovaSpec

HOSTS_READY = "HostsReady"
DELAY_SECONDS = 30
"""After hosts are ready: longer than a first server takes to answer."""
VERDICTS = ("Success", "Warning", "Failure")
"""From good to bad."""


async def observe(scope: Scope[NovaSpec]) -> Outcome | None:
    """Nova's own upgrade check finds nothing that must be mended before an upgrade. Ready does not wait for it."""
    has_run = any(
        job["metadata"]["labels"].get(labels.COMPONENT) == resources.UPGRADE_CHECK
        for job in scope.children(built_in.JOB)
    )
    if not has_run:
        _require_time(scope)
    sources = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("nova.conf", files.SERVICE_ROWS, config.Custom(levels.texts(scope)))],
        scripts={files.UPGRADE_CHECK_NAME: files.UPGRADE_CHECK_SCRIPT},
        instance=names.join(scope.name, resources.UPGRADE_CHECK),
    )
    pod = resources.upgrade_check_pod(scope.name, scope.spec, sources, scope.facts["registered"])
    name = jobs.job_name(scope, pod, resources.UPGRADE_CHECK)
    if scope.get(built_in.JOB, name) is None:
        _require_time(scope)
    await jobs.ensure(scope, pod, resources.UPGRADE_CHECK)
    if verified.is_assumed(scope):
        return None
    if not (said := await jobs.said(scope, name)):
        await scope.delete(built_in.JOB, name)
        raise errors.Waiting("JobRunning", f"Job {scope.namespace}/{name} runs again: its pod is gone")
    found = json.loads(said)
    scope.status["upgradeChecks"] = [
        {key: value for key, value in zip(("name", "verdict", "details"), one, strict=True) if value} for one in found
    ]
    return outcome(found)


def outcome(found: list[list[str]]) -> Outcome:
    """The condition, from name, verdict and details of each check: the worst verdict is its reason."""
    worst = max((verdict for _, verdict, _ in found), key=VERDICTS.index)
    parts = [
        f"{name}: {' '.join(details.split())}"
        for wanted in reversed(VERDICTS[1:])
        for name, verdict, details in found
        if verdict == wanted
    ]
    passed = [name for name, verdict, _ in found if verdict == VERDICTS[0]]
    if passed:
        parts.append(f"passed: {', '.join(passed)}")
    return Outcome("False" if worst == VERDICTS[-1] else "True", worst, "; ".join(parts))


def _require_time(scope: Scope[NovaSpec]) -> None:
    """Raises ``errors.Waiting`` until hosts have been ready for a while, in this pass too."""
    if verified.is_assumed(scope):
        return
    if not scope.facts.get("hosts.are_ready"):
        raise errors.Waiting("NotRun", f"waits for {HOSTS_READY}")
    left = float(DELAY_SECONDS)
    ready = conditions.find(scope.object, HOSTS_READY)
    # Before this pass they may have not been: its own status is not written yet.
    if ready is not None and ready["status"] == "True":
        since = datetime.datetime.fromisoformat(ready["lastTransitionTime"])
        left -= (datetime.datetime.now(datetime.UTC) - since).total_seconds()
    if left > 0:
        raise errors.Waiting("NotRun", f"runs {DELAY_SECONDS} s after {HOSTS_READY}", retry_after=left)
