"""Commands of openstack-operator. Each imports what it needs when it runs: ``--help`` is fast, ``run`` stays small."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from openstack_operator import __version__
from openstack_operator.cli import cloud, machine

NAME = "openstack-operator"
HELP = """Installs, configures, heals, scales and upgrades OpenStack on any conformant Kubernetes.

\b
From an empty machine to a cloud with a VM, and into it:
  openstack-operator up
  eval "$(openstack-operator env)"
  openstack-operator status
  openstack server list

COMMAND --help tells more about each one. The same commands are there as a plugin of kubectl: kubectl openstack status.
"""
EPILOG = """\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not Ready (status), 130 ^C.
NO_COLOR is respected. Settings: OPENSTACK_OPERATOR_CACHE, _STATE and _RUN move
the directories below /var/cache, /var/lib and /run.
"""

app = typer.Typer(
    name=NAME,
    help=HELP,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Kubeconfig = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
    typer.Option(help="Cluster to use; default: KUBECONFIG, then the pod's own service account."),
]

app.command(short_help="Bring up Kubernetes, a cloud and a VM on this machine.")(machine.up)
app.command(short_help="Remove what `up` made on this machine.")(machine.down)
app.command(short_help="Show the cloud, and what everything waits for.")(cloud.status)
app.command(short_help="Print variables for your shell.")(cloud.env)


@app.command()
def run(
    controllers: Annotated[str, typer.Option(help="Comma-separated services to run; default: all.")] = "",
    namespace: Annotated[str, typer.Option(help="Only objects of this namespace; default: all.")] = "",
    kubeconfig: Kubeconfig = None,
    leader_election: Annotated[bool, typer.Option(help="Work only while holding a Lease.")] = True,
    health_port: Annotated[int, typer.Option(help="Port of /healthz and /readyz; 0: none.")] = 8081,
    metrics_port: Annotated[int, typer.Option(help="Port of /metrics; 0: none.")] = 8080,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="json or human.")] = "json",
) -> None:
    """Run the operator until SIGTERM."""
    from openstack_operator.cli import run as process
    from openstack_operator.runtime import logs

    form: Literal["json", "human"] = "human" if log_format == "human" else "json"
    logs.configure(log_level, form)
    process.start(
        controllers=[name for name in controllers.split(",") if name],
        namespace=namespace or None,
        kubeconfig=str(kubeconfig) if kubeconfig else None,
        leader_election=leader_election,
        health_port=health_port,
        metrics_port=metrics_port,
    )


@app.command()
def crds() -> None:
    """Print the CustomResourceDefinitions as YAML, for kubectl apply."""
    import yaml

    from openstack_operator import controlplane
    from openstack_operator.runtime import kinds

    for service in controlplane.EVERYTHING:
        for kind in service.kinds:
            print("---")
            yaml.safe_dump(kinds.crd(kind), sys.stdout, sort_keys=False, width=120)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point. Errors that users can act on are one line; exit code 1 is a failure, 2 wrong usage, 130 ^C."""
    from openstack_operator.runtime import errors

    try:
        # Completion goes by this name, whichever way the program was started.
        app(prog_name=NAME)
    except errors.OperatorError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
