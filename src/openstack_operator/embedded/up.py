"""`up`: from a machine, or from a cluster that the user brought, to a cloud with a VM that answers.

Called by `cli.machine`. Each stage is skipped by what it finds done, so that `up` after ^C, after a crash or after a
change goes on where things stand. Two chains run side by side, because one downloads while the other compiles:

    packages -+- programs - cluster - add-ons -+- images into the cluster - operator - control plane - VM
              `- images ----------------------'
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from openstack_operator.embedded import (
    addresses,
    cloud,
    existing,
    host,
    images,
    node,
    paths,
    processes,
    programs,
    progress,
    tools,
)
from openstack_operator.embedded.cloud import FirstVM
from openstack_operator.runtime import errors

A = TypeVar("A")
B = TypeVar("B")

# The last stage of `up --until`.
STAGES = ("packages", "programs", "images", "cluster", "operator", "cloud", "vm")

# The tools that a person has on this machine for the cloud's network.
CLIENT_PACKAGES = ("openssh-client",)


class UpError(errors.OperatorError):
    """A stage failed; the message is the stage's own."""


@dataclass
class Options:
    """What the command line says."""

    source: Path
    until: str = "vm"
    release: str = "2026.1"
    name: str = "openstack"
    namespace: str = "openstack"
    kubeconfig: Path | None = None
    kubernetes_bin: Path | None = None
    operator_image: str | None = None
    image_registry: str | None = None
    image_prefix: str | None = None
    where: paths.Paths = field(default_factory=paths.default)

    def reaches(self, stage: str) -> bool:
        """Whether `up` goes as far as this stage."""
        return STAGES.index(stage) <= STAGES.index(self.until)


@dataclass
class Result:
    """What `up` leaves for the user: the cloud, its public endpoints, and the VM once there is one."""

    cloud: cloud.Cloud
    endpoints: dict[str, str] = field(default_factory=dict)
    vm: FirstVM | None = None


def run(options: Options, observe: Callable[[progress.Stage], None] | None = None) -> Result:
    """All stages; ``observe`` is told of each one's begin and end. Raises OperatorError with a message for the user; ^C
    ends what was started for building."""
    with progress.Progress(observe=observe) as shown:
        try:
            if options.kubeconfig is not None:
                return on_given_cluster(options, shown)
            return on_this_machine(options, shown)
        except (cloud.CloudError, images.ImageError) as problem:
            raise UpError(str(problem)) from problem
        except KeyboardInterrupt:
            # Builders run in threads and would go on; daemons are in sessions of their own and stay.
            processes.kill_descendants()
            raise


def on_this_machine(options: Options, shown: progress.Progress) -> Result:
    where = options.where
    host.require_root()
    in_the_way = host.conflicts(where)
    if in_the_way:
        raise host.HostError("something is in the way:\n" + "\n".join(f"  - {one}" for one in in_the_way))
    with shown.stage("host packages") as stage:
        host.install((*host.NODE_PACKAGES, *images.HOST_PACKAGES, *CLIENT_PACKAGES), stage.log)
    built, cluster = side_by_side(options, shown)
    if cluster is None or not options.reaches("operator"):
        return Result(embedded_cloud(options, cluster))
    assert built is not None
    with shown.stage("images into the cluster") as stage:
        images.load(cluster.ctr(), built, stage.log)
    return cloud_on(embedded_cloud(options, cluster), options, shown, built.guest, built.operator_content)


def side_by_side(options: Options, shown: progress.Progress) -> tuple[images.Images | None, node.Node | None]:
    """The two chains: images, and the cluster. The first failure ends both."""

    def build_images() -> images.Images | None:
        if not options.reaches("images") or options.until == "cluster":
            return None
        with shown.stage("images") as stage:
            return images.build_all(options.where.cache, options.release, options.source, stage.log)

    def start_cluster() -> node.Node | None:
        if not options.reaches("programs"):
            return None
        with shown.stage("Kubernetes programs") as stage:
            directory = (
                programs.given(options.kubernetes_bin)
                if options.kubernetes_bin
                else programs.ensure(options.where.cache, log=stage.log)
            )
        if not options.reaches("cluster"):
            return None
        return start(options, shown, directory)

    return both(build_images, start_cluster)


def start(options: Options, shown: progress.Progress, directory: Path) -> node.Node:
    with shown.stage("cluster") as stage:
        cluster = node.Node(options.where, directory, stage.log)
        cluster.start()
    with shown.stage("cluster add-ons") as stage:
        images.load(cluster.ctr(), images.build_cluster_images(options.where.cache, directory, stage.log), stage.log)
        cluster.addons()
    tools.write(options.where, directory / "kubectl", options.where.kubeconfig)
    return cluster


def both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Runs two functions in threads. The first exception ends the other's programs and is raised."""
    pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="up")
    one, two = pool.submit(first), pool.submit(second)
    try:
        chains: list[Future[Any]] = [one, two]
        wait(chains, return_when=FIRST_EXCEPTION)
        failed = [problem for chain in chains if chain.done() and (problem := chain.exception()) is not None]
        if failed:
            processes.kill_descendants()
            raise failed[0]
        return one.result(), two.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def on_given_cluster(options: Options, shown: progress.Progress) -> Result:
    """The user's cluster: checked, then used. Its images come from where its nodes get theirs."""
    assert options.kubeconfig is not None
    with shown.stage("check of the cluster"):
        asyncio.run(existing.check(options.kubeconfig, guests=options.reaches("vm")))
    with shown.stage("kubectl") as stage:
        found = shutil.which("kubectl")
        kubectl = Path(found) if found else built_kubectl(options.where, stage.log)
    tools.write(options.where, kubectl, options.kubeconfig)
    target = cloud.Cloud(
        kubeconfig=options.kubeconfig, kubectl=kubectl, state=options.where.state, source=options.source,
        external=False, **_choices(options),
    )  # fmt: skip
    if not options.reaches("operator"):
        return Result(target)
    with shown.stage("guest image") as stage:
        guest = images.guest.build_guest(options.where.cache, stage.log) if options.reaches("vm") else Path()
    return cloud_on(target, options, shown, guest)


def built_kubectl(where: paths.Paths, log: programs.Log) -> Path:
    return programs.ensure(where.cache, needed=["kubectl"], log=log) / "kubectl"


def cloud_on(target: cloud.Cloud, options: Options, shown: progress.Progress, guest: Path, content: str = "") -> Result:
    """Operator, control plane, VM: the same on any cluster."""
    result = Result(target)
    with shown.stage("operator") as stage:
        cloud.install_operator(target, stage.log, content)
    if options.reaches("cloud"):
        with shown.stage("control plane") as stage:
            cloud.deploy(target, stage.log)
            result.endpoints = cloud.endpoints(target)
    if options.reaches("vm"):
        with shown.stage("first VM") as stage:
            result.vm = cloud.first_vm(target, guest, stage.log)
    return result


def embedded_cloud(options: Options, cluster: node.Node | None) -> cloud.Cloud:
    programs_directory = cluster.programs if cluster else Path()
    return cloud.Cloud(
        kubeconfig=options.where.kubeconfig, kubectl=programs_directory / "kubectl", state=options.where.state,
        source=options.source, public_host=addresses.NODE_ADDRESS, **_choices(options),
    )  # fmt: skip


def _choices(options: Options) -> dict[str, Any]:
    """What the user says of the cloud, on any cluster."""
    names = ("name", "namespace", "release", "operator_image", "image_registry", "image_prefix")
    return {name: getattr(options, name) for name in names}


def last_words(result: Result) -> str:
    """Where things are, and what a person does next."""
    command = tools.quote(result.cloud.state / "bin" / "openstack-operator")
    lines = []
    if result.endpoints:
        width = max(map(len, result.endpoints))
        lines += ["", "Endpoints:", *(f"  {name:{width}}  {url}" for name, url in result.endpoints.items())]
    if vm := result.vm:
        place = f"answers at {vm.address}" if vm.is_reachable else f"is up at {vm.address}, on its private network"
        lines += ["", f"VM vm1 {place}", "Its console ends in:", *(f"  {line}" for line in vm.console)]
    lines += ["", "Next:", f'  eval "$({command} env)"   # KUBECONFIG, OS_CLOUD, and a PATH with kubectl and openstack']
    if result.endpoints:
        lines += [f"  export OS_CLOUD=openstack   # login: {result.cloud.clouds_yaml}", "  openstack server list"]
    if vm and vm.is_reachable:
        lines += [f"  ssh -i {result.cloud.key} guest@{vm.address}"]
    return "\n".join([*lines, "  openstack-operator status"])
