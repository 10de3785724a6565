"""Commands that answer questions: ``explain``, ``graph``, ``trace``, ``plan``. Here are their options; the answers are
in the modules of their names.

Registered by ``main``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from openstack_operator.cli import cloud

Kubeconfig = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
    typer.Option(exists=True, dir_okay=False, help="Cluster to look at; default: KUBECONFIG, else the one of `up`."),
]
Namespace = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option("--namespace", "-n", help="Only this namespace; default: every one."),
]
Release = Annotated[
    Optional[str],  # noqa: UP045 - as above
    typer.Option(help="OpenStack release; by default that of the objects in the cluster."),
]
Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="text, or json for programs.")]


def known(release: str | None) -> str | None:
    """The release asked for, if the catalogues have it."""
    from openstack_operator.kit import catalogues

    if release is not None and release not in catalogues.releases():
        raise typer.BadParameter(f"no release {release}; there are {', '.join(catalogues.releases())}")
    return release


def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="nova.libvirt.cpu_mode, keystone.debug, nova.spec.replicas, …")
    ],
    release: Release = None,
    namespace: Namespace = None,
    output: Output = "text",
    offline: Annotated[bool, typer.Option("--offline", help="Do not look into a cluster.")] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Tell which field, fact or text sets an option and in which file, or what a field sets.

    \b
    SERVICE.SECTION.OPTION   an option; DEFAULT may be left out
    SERVICE.spec.FIELD       a field of the service's object, and what it reaches
    KIND.spec.FIELD          a field of another kind, such as novacompute.spec.driver

    Without a cluster the answer has what the operator's own rows and the release's catalogue say; with one also the
    values in the files of each object. Secrets are hidden.
    """
    cloud.answer_soon()
    from openstack_operator.cli import explain as answer

    text = answer.run(
        name,
        cloud.cluster(kubeconfig),
        namespace,
        known(release),
        is_offline=offline,
        as_json=output == "json",
    )
    sys.stdout.write(text)


def graph(
    namespace: Namespace = None,
    output: Annotated[
        Literal["text", "dot", "svg", "json"], typer.Option("--output", "-o", help="text, dot, svg or json.")
    ] = "text",
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show pods and Jobs that are well, too.")] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Draw which object depends on which: its state, since when, and the way to what everything waits for.

    Exit codes as of status: 0 everything is Ready, 3 something is not.
    """
    cloud.answer_soon()
    from openstack_operator.cli import graph as answer

    text, code = answer.run(cloud.cluster(kubeconfig), namespace, output, everything=everything)
    sys.stdout.write(text)
    raise typer.Exit(code)


def trace(
    service: Annotated[str, typer.Argument(help="The service, such as nova.")],
    option: Annotated[str, typer.Argument(metavar="SECTION.OPTION", help="libvirt.cpu_mode; DEFAULT may be left out.")],
    node: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(help="Only pods of this node."),
    ] = None,
    release: Release = None,
    namespace: Namespace = None,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Follow one option from the fields of objects to the processes that use it.

    Every hop has its value and origin: fields and users' text, ConfigMap or Secret, the files in each pod, the process.
    A hop that does not agree with those before it is marked. Secrets are hidden.

    \b
    Exit codes:
      0  all hops agree
      3  some do not
    """
    cloud.answer_soon()
    from openstack_operator.cli import trace as answer

    text, code = answer.run(
        service,
        option,
        cloud.cluster(kubeconfig),
        namespace,
        known(release),
        node,
        as_json=output == "json",
    )
    sys.stdout.write(text)
    raise typer.Exit(code)


def plan(
    file: Annotated[str, typer.Option("--filename", "-f", metavar="FILE|-", help="Changed objects in YAML.")],
    namespace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option("--namespace", "-n", help="For objects that name none; default: that of the kubeconfig."),
    ] = None,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Tell what `kubectl apply -f FILE` would do, without doing it.

    The operator's own controllers run on a copy of the namespace, and the API server is asked in dry runs. The answer
    has every object that would be created, changed or deleted with its differences, the pods that would be replaced,
    in which order, the Jobs that would run, the downtime to expect, and what the check of configuration says. Secrets
    are hidden. It needs the right to read Secrets and to patch what the operator writes.
    """
    cloud.answer_soon()
    from openstack_operator.cli import plan as answer

    if file != "-" and not Path(file).is_file():
        raise typer.BadParameter(f"{file} does not exist", param_hint="--filename")
    sys.stdout.write(answer.run(file, cloud.cluster(kubeconfig), namespace, as_json=output == "json"))
