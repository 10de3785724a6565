"""Commands about a cloud: ``status``, ``env`` and ``tempest-conf``. Here are their options; what they do is in
the modules beside this one.

Registered by ``main``.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Optional

import typer

AUTHORITIES = "SSL_CERT_FILE"
"""Where OpenSSL finds the authorities that it trusts by default."""


def status(
    namespace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option("--namespace", "-n", help="Only this namespace; default: every namespace with a cloud."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="tree, or json for programs.")] = "tree",
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show pods and Jobs that are well, too.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow all changes until ^C.")] = False,
    kubeconfig: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(
            exists=True, dir_okay=False, help="Cluster to look at; default: KUBECONFIG, else the one of `up`."
        ),
    ] = None,
) -> None:
    """Show the cloud as a tree, and the one object that everything waits for.

    The first line is the answer: Ready and since when, or which object holds up everything else, why, and for how
    long. "Needs you" and a cross mark what does not go on by itself.

    \b
    Exit codes:
      0  everything is Ready
      3  something is not, or there is no cloud or no operator
      1  it could not be found out: no cluster, no answer, no permission
    """
    if not watch:
        answer_soon()
    from openstack_operator.cli import status as picture

    if output not in ("tree", "json"):
        raise typer.BadParameter("tree or json", param_hint="--output")
    if watch:
        if output == "json":
            raise typer.BadParameter("a watched tree is for people", param_hint="--output")
        picture.follow(cluster(kubeconfig), namespace, everything=everything)
    raise typer.Exit(
        picture.run(cluster(kubeconfig), namespace, as_json=output == "json", everything=everything),
    )


def answer_soon() -> None:
    """Leaves out what an answer does not need. To be called before anything is loaded."""
    # The process ends with its answer: looking for garbage would take an eighth of its time and find little.
    gc.disable()
    # aiohttp loads the system's authorities when it is imported, for connections that name none: 40 ms. Ours do.
    named = os.environ.get(AUTHORITIES)
    os.environ[AUTHORITIES] = os.devnull
    try:
        import aiohttp  # noqa: F401
    finally:
        del os.environ[AUTHORITIES]
        if named is not None:
            os.environ[AUTHORITIES] = named


def cluster(given: Path | None) -> str | None:
    """The kubeconfig to use: the given one, else KUBECONFIG or the pod's own account (None), else the one of `up`."""
    from openstack_operator.embedded import paths, tools
    from openstack_operator.runtime import errors

    if given is not None or os.environ.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" in os.environ:
        return str(given) if given else None
    try:
        return tools.variables(paths.default())["KUBECONFIG"]
    except errors.OperatorError:
        return None


def env() -> None:
    """Print shell lines with which kubectl, openstack and openstack-operator find the cloud that `up` made.

    \b
    Use them with:   eval "$(openstack-operator env)"
    They set:        KUBECONFIG, OS_CLIENT_CONFIG_FILE, OS_CLOUD, and add to PATH
    PATH then has:   kubectl, kubectl-openstack (kubectl openstack status),
                     openstack, openstack-operator
    """
    from openstack_operator.embedded import paths, tools

    where = paths.default()
    print(tools.shell(tools.variables(where), where.tools))


def tempest_conf(
    workspace: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
        typer.Argument(
            exists=True, file_okay=False, help="Directory made by `tempest init`: its etc/tempest.conf is written."
        ),
    ] = None,
    image: Annotated[str, typer.Option(help="Image of the guests.")] = "tiny",
) -> None:
    """Print a tempest.conf for the cloud, or put it into a workspace of Tempest.

    The cloud is asked for its services, versions, extensions and networks. Flavors 42 and 84 and a second image are
    made where they are missing. `make tempest` does all of it and runs the smoke set.
    """
    from openstack_operator.cli import tempest

    text = tempest.prepare(image, workspace)
    if workspace is None:
        print(text, end="")
        return
    file = workspace / "etc" / "tempest.conf"
    file.parent.mkdir(exist_ok=True)
    # It holds the admin's password.
    file.touch(mode=0o600)
    file.write_text(text)
