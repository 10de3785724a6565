"""Access rules (RBAC) that controllers need, derived from what they declare. Called by `cli.generate`.

Nothing is granted that no controller declares: a verb that is missing shows as a 403 in a controller test, because
those run with these rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from openstack_operator.runtime import kinds
from openstack_operator.runtime.kinds import Kind, Resource

PolicyRule = dict[str, list[str]]

READ = ("get", "list", "watch")

# Server-side apply creates and changes with PATCH; the apiserver asks for `create` too when the object is new.
_OWNED = (*READ, "create", "patch", "delete")
_OWN = (*READ, "patch")


class Watched(Protocol):
    @property
    def resource(self) -> Resource: ...


class Declared(Protocol):
    """What rules follow from; `controller.Controller` is one."""

    @property
    def kind(self) -> Kind: ...
    @property
    def owns(self) -> Sequence[Resource]: ...
    @property
    def watches(self) -> Sequence[Watched]: ...
    @property
    def reads(self) -> Sequence[Resource]: ...
    @property
    def rules(self) -> Sequence[PolicyRule]: ...


def rules(controllers: Iterable[Declared]) -> list[PolicyRule]:
    """Returns the rules of a ClusterRole for these controllers, merged and in a stable order."""
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    special: list[PolicyRule] = []
    for controller in controllers:
        own = controller.kind.resource
        verbs[own.group, own.plural].update(_OWN)
        verbs[own.group, f"{own.plural}/status"].add("patch")
        # A child with blockOwnerDeletion needs this where OwnerReferencesPermissionEnforcement is on.
        verbs[own.group, f"{own.plural}/finalizers"].add("update")
        for resource in controller.owns:
            verbs[resource.group, resource.plural].update(_OWNED)
        for resource in (*(watch.resource for watch in controller.watches), *controller.reads):
            verbs[resource.group, resource.plural].update(READ)
        for rule in controller.rules:
            if rule.keys() == {"apiGroups", "resources", "verbs"}:
                for group in rule["apiGroups"]:
                    for plural in rule["resources"]:
                        verbs[group, plural].update(rule["verbs"])
            elif rule not in special:
                # Rules for single names or for URLs cannot be merged.
                special.append(rule)
    if verbs:
        verbs[kinds.EVENT.group, kinds.EVENT.plural].update(("create", "patch"))
    return [*_merged(verbs), *sorted(special, key=lambda rule: sorted(rule.items()))]


def election_rules() -> list[PolicyRule]:
    """Returns the rules of a Role in the operator's own namespace, for its Lease."""
    return [{"apiGroups": [kinds.LEASE.group], "resources": [kinds.LEASE.plural], "verbs": ["create", "get", "update"]}]


def webhook_rules(configuration: str) -> list[PolicyRule]:
    """Returns the rules of a ClusterRole for the admission webhook's own configuration and no other."""
    resource = kinds.VALIDATINGWEBHOOKCONFIGURATION
    return [
        {
            "apiGroups": [resource.group],
            "resources": [resource.plural],
            "resourceNames": [configuration],
            "verbs": [*READ, "patch"],
        }
    ]


def certificate_rules(secret: str) -> list[PolicyRule]:
    """Returns the rules of a Role in the operator's own namespace, for the Secret with the webhook's certificate."""
    common = {"apiGroups": [kinds.SECRET.group], "resources": [kinds.SECRET.plural]}
    # A name cannot be asked for what does not exist yet.
    return [{**common, "verbs": ["create"]}, {**common, "resourceNames": [secret], "verbs": [*READ, "update"]}]


def user_rules(resources: Iterable[Resource], verbs: Sequence[str]) -> list[PolicyRule]:
    """Returns rules for people who work with these resources."""
    wanted = set(verbs)
    return _merged({(resource.group, resource.plural): wanted for resource in resources})


def _merged(verbs: dict[tuple[str, str], set[str]]) -> list[PolicyRule]:
    """One rule for each group and set of verbs."""
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, plural), allowed in verbs.items():
        together[group, tuple(sorted(allowed))].append(plural)
    merged: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(allowed)}
        for (group, allowed), plurals in together.items()
    ]
    return sorted(merged, key=lambda rule: (rule["apiGroups"], rule["resources"]))
