"""All that the operator makes of all samples without a cluster, in lines: pods and configuration files.

`test_builders.py` runs it in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pods

from openstack_operator.kit import ini, workloads
from openstack_operator.runtime import drift
from openstack_operator.services import SERVICES
from rendered import Facts, specs


def lines() -> Iterator[str]:
    """Name and hash of the template of each pod; name and text of each file."""
    for name, pod in pods.everything().items():
        yield f"{name}: {drift.digest(workloads.template(pod))}"
    for service in SERVICES:
        for file in service.files:
            for spec in specs(file):
                rendered = ini.render(file.rows(spec), spec, Facts())
                yield f"{file.kind.resource.kind} {file.name}: {rendered.public + rendered.secret!r}"
