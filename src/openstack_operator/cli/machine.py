"""Commands about this machine: ``up`` and ``down``. What they do is in ``embedded``; here are the options.

Registered by ``main``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional, get_args

import typer

Source = Annotated[
    Path,
    typer.Option(help="Top of the source tree: images and manifests are made from it.", hidden=True),
]
DEFAULT_SOURCE = Path(__file__).resolve().parents[3]


def up(
    vm: Annotated[bool, typer.Option(help="Start a first VM at the end.")] = True,
    release: Annotated[str, typer.Option(help="OpenStack release: 2025.1, 2025.2, 2026.1 or 2026.2.")] = "2026.1",
    name: Annotated[str, typer.Option(help="Name of the control plane object.")] = "openstack",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the cloud.")] = "openstack",
    kubeconfig: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(exists=True, dir_okay=False, help="Use this cluster; nothing is started on this machine."),
    ] = None,
    kubernetes_bin: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(exists=True, file_okay=False, help="Take the cluster's programs from here; build none."),
    ] = None,
    operator_image: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(help="The operator's image where the nodes of a given cluster can pull it."),
    ] = None,
    image_registry: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(help="Registry of OpenStack's images: spec.images.registry of the control plane."),
    ] = None,
    image_prefix: Annotated[
        Optional[str],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(help="What stands before their names: spec.images.prefix of the control plane."),
    ] = None,
    until: Annotated[
        str, typer.Option(help="Stop after: packages, programs, images, cluster, operator, cloud or vm.")
    ] = "vm",
    source: Source = DEFAULT_SOURCE,
) -> None:
    """Bring up a cloud: on this machine with a Kubernetes of its own, or on a given cluster.

    Needs root on Debian 12 or 13, or Ubuntu 24.04. The first run builds everything, about 11 minutes on two cores;
    later runs take what is built. May be interrupted and run again at any time. `openstack-operator down` undoes it.
    """
    from openstack_operator.embedded import up as embedded
    from openstack_operator.kit import types

    if until not in embedded.STAGES:
        raise typer.BadParameter(f"one of {', '.join(embedded.STAGES)}", param_hint="--until")
    if release not in (known := get_args(types.ReleaseName)):
        raise typer.BadParameter(f"{release}: one of {', '.join(known)}", param_hint="--release")
    if not vm and until == "vm":
        until = "cloud"
    result = embedded.run(
        embedded.Options(
            source=source,
            until=until,
            release=release,
            name=name,
            namespace=namespace,
            kubeconfig=kubeconfig,
            kubernetes_bin=kubernetes_bin,
            operator_image=operator_image,
            image_registry=image_registry,
            image_prefix=image_prefix,
        )
    )
    print(embedded.last_words(result))


def down(
    keep_data: Annotated[bool, typer.Option(help="Keep volumes, objects and images for the next `up`.")] = False,
) -> None:
    """Remove what `up` made on this machine: cluster, guests, network, data. Built things stay in the cache."""
    from openstack_operator.embedded import down as embedded

    if said := embedded.run(keep_data=keep_data):
        print(said)
