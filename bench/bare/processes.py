"""The containers of a pod as plain processes: the same command, environment, user and root file system, and the same
question that says it is ready.

What differs from a container: one network namespace for all of them, the machine's; no process namespace, no seccomp
filter, no limits; processes that run as root keep all capabilities. Each pod is a control group, for its CPU time and
its end. Probes that look at the connections of a container's network look at the pod's processes instead, since all
share one network.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from bare.roots import Roots
from bare.snapshot import Pod
from openstack_operator.embedded import addresses, cgroups
from openstack_operator.embedded import processes as daemons

GROUP = "openstack-bench"
PROBE_SECONDS = 0.2
READY_SECONDS = 180
AMQP_PORT = 5672

# Into the pod's control group, then the host name of a pod (in a namespace of its own), then the root file system.
ENTER = """\
echo $$ > "$1/cgroup.procs" || exit 1
[ -z "$2" ] || echo "$2" > /proc/sys/kernel/hostname
ulimit -n "$3" 2> /dev/null || ulimit -n "$(ulimit -Hn)"
shift 3
exec chroot "$@"
"""


class BareError(Exception):
    """A process did not start, ended, or does not answer; the message ends in its last words."""


def accounting() -> Path:
    """The tree of control groups that counts CPU time."""
    return cgroups.ROOT if cgroups.is_unified() else cgroups.ROOT / "cpuacct"


def cpu_seconds(group: str | Path) -> float:
    """CPU time of a control group and all below it since it was made; 0 where it is gone."""
    directory = accounting() / group
    try:
        if cgroups.is_unified():
            return int((directory / "cpu.stat").read_text().split()[1]) / 1e6
        return int((directory / "cpuacct.usage").read_text()) / 1e9
    except OSError:
        return 0.0


class Machine:
    """Everything that runs bare."""

    def __init__(self, roots: Roots, logs: Path) -> None:
        self._roots, self._logs = roots, logs
        self._main: dict[str, list[tuple[str, subprocess.Popen[bytes]]]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    async def start(self, pod: Pod) -> None:
        """Runs a pod until it is ready, a Job until it is done. Raises ``BareError``."""
        for one in pod.spec.get("initContainers", []):
            await self._run(pod, one)
        if pod.is_job:
            for one in pod.spec["containers"]:
                await self._run(pod, one)
            return
        self._main[pod.name] = [(one["name"], self._spawn(pod, one)) for one in pod.spec["containers"]]
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
            for one in pod.spec["containers"]:
                probe = one.get("readinessProbe")
                while probe and not await self._is_ready(pod, one, probe, session):
                    self._check(pod)
                    await asyncio.sleep(PROBE_SECONDS)
        self._check(pod)

    def stop(self) -> None:
        """Ends everything, guests too."""
        cgroups.kill(GROUP)
        cgroups.kill(addresses.GUEST_CGROUP)
        for started in self._main.values():
            for _, process in started:
                process.wait()
        self._main.clear()
        cgroups.remove(GROUP)

    def _log(self, pod: Pod, container: str) -> Path:
        return self._logs / f"{pod.name}.{container}.log"

    def _check(self, pod: Pod) -> None:
        for container, process in self._main[pod.name]:
            if process.poll() is not None:
                raise BareError(self._last_words(pod, container, process.returncode))

    def _last_words(self, pod: Pod, container: str, code: int) -> str:
        said = self._log(pod, container).read_text(errors="replace").strip().splitlines()[-15:]
        return f"{pod.name}/{container} ended with {code}:\n" + "\n".join(said)

    async def _run(self, pod: Pod, container: Mapping[str, Any]) -> None:
        process = self._spawn(pod, container)
        code = await asyncio.to_thread(process.wait)
        if code != 0:
            raise BareError(self._last_words(pod, container["name"], code))

    def _spawn(
        self, pod: Pod, container: Mapping[str, Any], command: list[str] | None = None
    ) -> subprocess.Popen[bytes]:
        """The container's own command, or another one beside it, whose words nobody wants."""
        group = accounting() / GROUP / pod.name
        group.mkdir(parents=True, exist_ok=True)
        hostname = "" if pod.host_network else pod.name
        arguments = [*(["unshare", "--uts"] if hostname else []), "sh", "-c", ENTER, pod.name]
        arguments += [str(group), hostname, str(daemons.OPEN_FILES), *user(pod, container), str(self._roots.root(pod))]
        with (Path(os.devnull) if command else self._log(pod, container["name"])).open("ab") as output:
            return subprocess.Popen(
                [*arguments, *(command or container["command"])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(pod, container),
                start_new_session=True,
            )

    def _environment(self, pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
        found = {**self._roots.environment(container["image"]), "HOSTNAME": pod.name}
        fields = {
            "metadata.name": pod.name,
            "spec.nodeName": addresses.NODE_NAME,
            "status.hostIP": addresses.NODE_ADDRESS,
            "status.podIP": addresses.NODE_ADDRESS,
        }
        for one in container.get("env", []):
            if source := one.get("valueFrom"):
                found[one["name"]] = fields[source["fieldRef"]["fieldPath"]]
            else:
                found[one["name"]] = re.sub(
                    r"\$\(([A-Za-z_]\w*)\)", lambda m: found.get(m[1], m[0]), one.get("value", "")
                )
        return found

    async def _is_ready(
        self, pod: Pod, container: Mapping[str, Any], probe: Mapping[str, Any], session: aiohttp.ClientSession
    ) -> bool:
        if get := probe.get("httpGet"):
            try:
                async with session.get(f"http://{addresses.NODE_ADDRESS}:{get['port']}{get['path']}") as answer:
                    return answer.status < 400
            except aiohttp.ClientError:
                return False
        if tcp := probe.get("tcpSocket"):
            try:
                _, writer = await asyncio.open_connection(tcp.get("host", addresses.NODE_ADDRESS), tcp["port"])
            except OSError:
                return False
            writer.close()
            return True
        command = probe["exec"]["command"]
        if "/proc/net/tcp" in command or command[-1].endswith("/ready.sh"):
            return holds_connection(accounting() / GROUP / pod.name, AMQP_PORT)
        process = self._spawn(pod, container, command)
        return await asyncio.to_thread(process.wait) == 0


def user(pod: Pod, container: Mapping[str, Any]) -> list[str]:
    """Options of chroot: the user, and no other groups than the pod's."""
    whole, own = pod.spec.get("securityContext", {}), container.get("securityContext", {})
    uid = own.get("runAsUser", whole.get("runAsUser", 0))
    gid = own.get("runAsGroup", whole.get("runAsGroup", 0))
    return [f"--userspec=+{uid}:+{gid}", f"--groups={whole.get('fsGroup', gid)}"]


def holds_connection(group: Path, port: int) -> bool:
    """Whether a process of a control group has an established connection to a port."""
    wanted = set()
    for table in ("tcp", "tcp6"):
        for row in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[2].endswith(f":{port:04X}") and fields[3] == "01":
                wanted.add(f"socket:[{fields[9]}]")
    for pid in (group / "cgroup.procs").read_text().split():
        try:
            descriptors = list(Path("/proc", pid, "fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                if os.readlink(descriptor) in wanted:
                    return True
            except OSError:
                continue
    return False
