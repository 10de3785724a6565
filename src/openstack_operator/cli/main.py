"""Commands of openstack-operator. Each imports what it needs when it runs: ``--help`` is fast, ``run`` stays small."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from openstack_operator import __version__
from openstack_operator.cli import cloud, machine, questions

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
NO_COLOR is respected. OPENSTACK_OPERATOR_CACHE, _STATE and _RUN move the
directories below /var/cache, /var/lib and /run.
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

app.command(short_help="Bring up Kubernetes, a cloud and a VM on this machine.")(machine.up)
app.command(short_help="Remove what `up` made on this machine.")(machine.down)
app.command(short_help="Show the cloud, and what everything waits for.")(cloud.status)
app.command(short_help="Tell what sets an option, and what a field sets.")(questions.explain)
app.command(short_help="Draw which object depends on which.")(questions.graph)
app.command(short_help="Follow one option from objects to processes.")(questions.trace)
app.command(short_help="Tell what a changed object would do.")(questions.plan)
app.command(short_help="Print variables for your shell.")(cloud.env)
app.command("tempest-conf", short_help="Print a configuration of Tempest for the cloud.")(cloud.tempest_conf)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def run(context: typer.Context) -> None:
    """Run the operator until SIGTERM."""
    from openstack_operator.cli import run as process

    process.main(context.args)


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


@app.command(short_help="Check configuration text against OpenStack's options, without a cluster.")
def lint(
    files: Annotated[list[str], typer.Argument(metavar="FILE|DIR|-", help="Objects in YAML, or configuration files.")],
    service: Annotated[
        str | None, typer.Option(help="The service that reads a configuration file; by default by the file's name.")
    ] = None,
    release: Annotated[str | None, typer.Option(help="OpenStack release; by default the object's own.")] = None,
    output: Annotated[Literal["text", "json", "sarif"], typer.Option(help="Form of the report.")] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail as well.")] = False,
) -> None:
    """Check customServiceConfig of objects, or configuration files, against the options of an OpenStack release.

    Exit code 0: nothing but warnings; 1: text that a service would refuse, or any finding with --strict.
    """
    from openstack_operator.cli import lint as command
    from openstack_operator.kit import catalogues

    if release is not None and release not in catalogues.releases():
        raise typer.BadParameter(f"no release {release}; there are {', '.join(catalogues.releases())}")
    known = catalogues.services(release or catalogues.index().default_release)
    if service is not None and service not in known:
        raise typer.BadParameter(f"no service {service}; there are {', '.join(known)}")
    text, code = command.run(files, service, release, output, strict)
    sys.stdout.write(text)
    raise typer.Exit(code)


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
