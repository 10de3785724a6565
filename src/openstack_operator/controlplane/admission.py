"""What a control plane says at admission beyond what every kind does: it is alone, and its services have what they
need. Pure; the controller holds the same where the webhook was away (conditions Accepted and those of the services).
"""

from __future__ import annotations

from openstack_operator.controlplane import resources
from openstack_operator.kit import admission, kinds
from openstack_operator.runtime.admission import Objects, Problem, Subject, Verdict
from openstack_operator.services import SERVICES


def admit(new: Subject, old: Subject | None, objects: Objects) -> Verdict:
    """``runtime.admission.Admit`` of OpenStackControlPlane."""
    verdict = admission.admit(new, old, objects)
    if old is None:
        verdict += _alone(new, objects)
    return verdict + _needs(new, old)


def _alone(new: Subject, objects: Objects) -> Verdict:
    """Of two control planes in a namespace none would know whose services are whose."""
    verdict = Verdict()
    for item in objects.items(kinds.CONTROL_PLANE):
        metadata = item["metadata"]
        if metadata["name"] == new.name:
            continue
        where = f"{kinds.CONTROL_PLANE.kind} {new.namespace}/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            verdict += Verdict(warnings=(f"waits until {where}, which is being deleted, is gone",))
        else:
            message = f"{where} is in this namespace already; delete one of the two or use another namespace"
            verdict += Verdict(errors=(Problem("metadata.namespace", message),))
    return verdict


def _needs(new: Subject, old: Subject | None) -> Verdict:
    """A service that is enabled needs others to be so. What was stored without them stays changeable."""
    before = () if old is None else _unmet(old)
    found = _unmet(new)
    return Verdict(
        errors=tuple(one for one in found if one not in before),
        warnings=tuple(str(one) for one in found if one in before),
    )


def _unmet(subject: Subject) -> tuple[Problem, ...]:
    disabled = {
        service.kinds[0].resource: service.name
        for service in SERVICES
        if not resources.is_enabled(service, subject.spec)
    }
    problems = []
    for service in SERVICES:
        if resources.is_enabled(service, subject.spec):
            missing = [disabled[need] for need in service.needs if need in disabled]
            if missing:
                verb = "is" if len(missing) == 1 else "are"
                message = f"{service.name} needs {' and '.join(missing)}, which {verb} disabled"
                problems.append(Problem(f"spec.{service.name}.enabled", message))
    return tuple(problems)
