"""Cases from the field (tests/field_cases.md): pure ones use `paper`, the others the cluster of tests/controllers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
CONTROLLERS = HERE.parent / "controllers"
for folder in (HERE, CONTROLLERS):
    sys.path.insert(0, str(folder))


def _fixtures() -> ModuleType:
    # conftest files of other folders are seen by nobody else, and all have the same name.
    specification = importlib.util.spec_from_file_location("controllers_conftest", CONTROLLERS / "conftest.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


_module = _fixtures()
cluster, world, cluster_dns, logging_configured, registered = (
    _module.cluster,
    _module.world,
    _module.cluster_dns,
    _module.logging_configured,
    _module.registered,
)
