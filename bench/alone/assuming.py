"""The operator as its pod runs it, but for what is outside of the cluster's API: that counts as being as it should.

Here are no databases, message buses and Keystones to talk to; `kit/verified.py` says so to the controllers, as it does
for `plan`. Started by `clouds` as a program, with the options of `openstack-operator run`.
"""

from __future__ import annotations

from typing import Any

from openstack_operator.cli import run
from openstack_operator.kit import verified
from openstack_operator.runtime import manager


class Assuming(manager.Manager):
    """A manager whose controllers ask nobody outside."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        verified.assume(self, lambda scope, what, fingerprint: None)


if __name__ == "__main__":
    manager.Manager = Assuming  # type: ignore[misc]
    run.main()
