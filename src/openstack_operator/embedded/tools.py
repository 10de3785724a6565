"""Commands for a person's PATH, and the variables that go with them.

`up` writes them; `openstack-operator env` prints the variables for a shell. The commands are scripts that name the
interpreter and the tree which `up` ran with, so that they work from any directory and in any environment.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import openstack_operator
from openstack_operator.embedded import paths
from openstack_operator.runtime import errors

# Which cluster and cloud `up` was about: its own, or one that the user gave.
RECORD = "environment.json"

# kubectl finds plugins by their names, and asks kubectl_complete-NAME for the completion of one. The last line of an
# answer is a number in cobra's terms: 4 keeps file names out.
PLUGIN = """\
#!/bin/sh
exec "$(dirname "$0")/openstack-operator" "$@"
"""
PLUGIN_COMPLETION = """\
#!/bin/sh
_OPENSTACK_OPERATOR_COMPLETE=complete_bash COMP_WORDS="openstack-operator $*" COMP_CWORD=$# \\
    "$(dirname "$0")/openstack-operator"
echo :4
"""


def write(where: paths.Paths, kubectl: Path, kubeconfig: Path) -> None:
    """Writes the commands and what `env` prints; what stands there already is replaced."""
    python, package = Path(sys.executable), Path(openstack_operator.__file__).parents[1]
    operator = f'#!/bin/sh\nPYTHONPATH={quote(package)} exec {quote(python)} -m openstack_operator "$@"\n'
    client = f'#!/bin/sh\nexec {quote(python)} -m openstackclient.shell "$@"\n'
    scripts = {
        "kubectl": f'#!/bin/sh\nexec {quote(kubectl)} "$@"\n',
        "openstack-operator": operator,
        "kubectl-openstack": PLUGIN,
        "kubectl_complete-openstack": PLUGIN_COMPLETION,
        "openstack": client,
    }
    where.tools.mkdir(parents=True, exist_ok=True)
    if kubectl.parent == where.tools:
        # Found on the PATH, where we put it: it would call itself for ever.
        del scripts["kubectl"]
    for name, text in scripts.items():
        _replace(where.tools / name, text, 0o755)
    variables = {
        "KUBECONFIG": str(kubeconfig.absolute()),
        "OS_CLIENT_CONFIG_FILE": str(where.state / "clouds.yaml"),
        "OS_CLOUD": "openstack",
    }
    _replace(where.state / RECORD, json.dumps(variables, indent=1) + "\n", 0o644)


def variables(where: paths.Paths) -> dict[str, str]:
    """What `write` recorded. Raises OperatorError where `up` never ran."""
    try:
        recorded: dict[str, str] = json.loads((where.state / RECORD).read_text())
    except FileNotFoundError:
        raise errors.OperatorError(f"nothing was brought up from this machine ({where.state}): run ./up") from None
    return recorded


def shell(values: Mapping[str, str], tools: Path) -> str:
    """Lines for `eval` in a POSIX shell. Doing it twice puts nothing on the PATH twice."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    directory = quote(tools)
    lines.append(f'case ":$PATH:" in *:{directory}:*) ;; *) export PATH={directory}:"$PATH" ;; esac')
    return "\n".join(lines)


def quote(path: Path) -> str:
    return shlex.quote(str(path))


def _replace(file: Path, text: str, mode: int) -> None:
    """Never a half-written command, and never through a link into something else."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.chmod(mode)
    new.rename(file)
