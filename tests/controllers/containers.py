"""Runs pods of chosen components for real, without a node: their containers, as their templates say, in the root file
systems that the images are made of.

One network namespace stands for the whole cluster network: every Service name leads into it, and nothing leads out of
it. From outside, `Door` lets this process in at an address of loopback.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import ctypes
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubelet

from openstack_operator.embedded import paths
from openstack_operator.embedded.images import catalogue, chroot
from openstack_operator.runtime import kinds

Object = dict[str, Any]
CLONE_NEWNET = 0x40000000
PROBE_SECONDS = 120
DOOR = "127.77.0.1"
PORTS = (3306, 5672, 15672, 5000)


def newest(name: str) -> Path | None:
    """The root file system of this name that was built last."""
    found = sorted((paths.default().cache / "rootfs").glob(f"{name}-*/root"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


INFRASTRUCTURE = newest("infrastructure")
OPENSTACK = newest("openstack-2026.1")


class Network:
    """The namespace, held by a process that waits."""

    def __enter__(self) -> Network:
        script = "ip link set lo up && echo up && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self._dialler = concurrent.futures.ThreadPoolExecutor(1, initializer=self._enter)
        return self

    def __exit__(self, *exception: object) -> None:
        self._dialler.shutdown()
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()

    @property
    def path(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"

    def pids(self, program: str) -> list[int]:
        """The processes inside that run a program."""
        inside = os.readlink(self.path)
        found = []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                is_program = process.name.isdigit() and (process / "comm").read_text().strip() == program
                if is_program and os.readlink(process / "ns/net") == inside:
                    found.append(int(process.name))
        return found

    async def probe(self, command: list[str]) -> tuple[int, str]:
        """Exit code and output of a probe's command, run inside."""
        process = await asyncio.create_subprocess_exec(
            "nsenter", f"--net={self.path}", *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode().strip()

    def _enter(self) -> None:
        # Of this thread alone; the sockets that it makes stay in the namespace wherever they are used.
        with open(self.path) as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    async def connect(self, port: int) -> socket.socket:
        """A connection to a port inside."""

        def dial() -> socket.socket:
            found = socket.create_connection(("127.0.0.1", port), timeout=5)
            found.setblocking(False)
            return found

        return await asyncio.get_running_loop().run_in_executor(self._dialler, dial)


class Door:
    """Ports of a loopback address of this machine that lead into the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Door:
        for port in PORTS:
            serve = self._serve(port)
            self._servers.append(await asyncio.start_server(serve, DOOR, port))
        return self

    async def __aexit__(self, *exception: object) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _serve(self, port: int) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection(sock=await self._network.connect(port))
            except OSError:
                writer.transport.abort()
                return
            for source, target in ((reader, far_writer), (far_reader, writer)):
                task = asyncio.ensure_future(self._pump(source, target))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        return serve

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
        finally:
            target.close()


class Node(kubelet.Kubelet):
    """A kubelet that runs the pods of some components for real, and says of all others that they are well."""

    def __init__(self, base: kubelet.Kubelet, network: Network, directory: Path, *components: str) -> None:
        super().__init__(base._api, base._namespace)
        self._network, self._directory, self._real = network, directory, components
        self._running: dict[str, asyncio.Task[None]] = {}
        self._processes: set[asyncio.subprocess.Process] = set()

    async def stop(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _act(self, pod: Object) -> None:
        if kubelet.component(pod) not in self._real:
            await super()._act(pod)
            return
        uid = pod["metadata"]["uid"]
        if uid not in self._running:
            self._running[uid] = asyncio.ensure_future(self._live(pod))

    async def _live(self, pod: Object) -> None:
        directory = self._directory / pod["metadata"]["name"]
        volumes = {volume["name"]: await self._volume(pod, volume, directory) for volume in pod["spec"]["volumes"]}
        is_job = any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", []))
        for container in pod["spec"].get("initContainers", []):
            process = await self._start(pod, container, volumes, directory)
            code = await process.wait()
            assert code == 0, self._log(directory, container)
        (container,) = pod["spec"]["containers"]
        process = await self._start(pod, container, volumes, directory)
        if is_job:
            code = await process.wait()
            end = kubelet.succeeded if code == 0 else kubelet.failed(self._log(directory, container)[-1000:])
            self.statuses[pod["metadata"]["uid"]] = end
            await self._report(pod, end(pod))
            return
        await self._until_open(process, container, directory)
        await self._report(pod, kubelet.running(pod))

    async def _until_open(self, process: asyncio.subprocess.Process, container: Object, directory: Path) -> None:
        probe = container["startupProbe"]
        port = (probe.get("tcpSocket") or probe["httpGet"])["port"]
        async with asyncio.timeout(PROBE_SECONDS):
            while True:
                assert process.returncode is None, self._log(directory, container)
                try:
                    (await self._network.connect(port)).close()
                    return
                except OSError:
                    await asyncio.sleep(0.1)

    def _log(self, directory: Path, container: Object) -> str:
        return (directory / f"{container['name']}.log").read_text(errors="replace")[-3000:]

    async def _report(self, pod: Object, status: Object) -> None:
        path = kinds.POD.path(self._namespace, pod["metadata"]["name"], "status")
        body = {"status": status}
        await self._api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    # --- volumes and processes ------------------------------------------------------------------------------------

    async def _volume(self, pod: Object, volume: Object, directory: Path) -> Path:
        user = pod["spec"]["securityContext"]["runAsUser"]
        path = directory / "volumes" / volume["name"]
        if "persistentVolumeClaim" in volume:
            # Outlives the pod.
            path = self._directory / "claims" / volume["persistentVolumeClaim"]["claimName"]
        path.mkdir(parents=True, exist_ok=True)
        for source in volume.get("projected", {}).get("sources", [volume]):
            for name, data in (await self._content(source)).items():
                (path / name).write_bytes(data)
                os.chmod(path / name, 0o555)
        if "emptyDir" in volume or "persistentVolumeClaim" in volume:
            os.chown(path, user, user)
        return path

    async def _content(self, source: Object) -> dict[str, bytes]:
        if "configMap" in source:
            item = await self._api.get(kinds.CONFIGMAP, source["configMap"]["name"], self._namespace)
            return {name: text.encode() for name, text in item["data"].items()}
        if "secret" in source:
            name = source["secret"].get("secretName") or source["secret"]["name"]
            item = await self._api.get(kinds.SECRET, name, self._namespace)
            return {key: base64.b64decode(value) for key, value in item.get("data", {}).items()}
        return {}

    async def _start(
        self, pod: Object, container: Object, volumes: dict[str, Path], directory: Path
    ) -> asyncio.subprocess.Process:
        """Starts one container: its own mounts and processes, its user, no further rights."""
        image = container["image"].rpartition("/")[2].partition(":")[0]
        is_openstack = catalogue.IMAGES[image] == catalogue.OPENSTACK
        lower = [str(root) for root in ((OPENSTACK, INFRASTRUCTURE) if is_openstack else (INFRASTRUCTURE,))]
        overlay, target = directory / f"{container['name']}-overlay", directory / f"{container['name']}-root"
        for path in (overlay, target):
            path.mkdir(exist_ok=True)
        mounts = {
            one["mountPath"]: (volumes[one["name"]], one.get("readOnly", False)) for one in container["volumeMounts"]
        }
        hosts = directory / "hosts"
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in await self._host_names(pod)))
        root = chroot.Root(
            overlay / "merged", directory,
            inputs={"/etc/hosts": hosts} | {path: source for path, (source, read_only) in mounts.items() if read_only},
            outputs={path: source for path, (source, read_only) in mounts.items() if not read_only},
        )  # fmt: skip
        user = pod["spec"]["securityContext"]["runAsUser"]
        env = {"PATH": catalogue.OPENSTACK_PATH if is_openstack else catalogue.SYSTEM_PATH, "LANG": "C.UTF-8"}
        for one in container.get("env", []):
            value = one.get("value", pod["metadata"]["name"] if "valueFrom" in one else "")
            env[one["name"]] = value.replace("$(POD_NAME)", pod["metadata"]["name"])
        script = [
            f"mount -t tmpfs tmpfs {overlay}",
            f"mkdir {overlay}/upper {overlay}/work {overlay}/merged",
            f"mount -t overlay overlay -o lowerdir={':'.join(lower)},upperdir={overlay}/upper,workdir={overlay}/work "
            f"{overlay}/merged",
            chroot.mount_script(root, target),
            shlex.join([
                "exec", "chroot", str(target), "env", "-i", *(f"{name}={value}" for name, value in env.items()),
                # The end with whoever started it is asked for again: the kernel forgets it when the user changes.
                "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
                "--pdeathsig=KILL", *container["command"],
            ]),
        ]  # fmt: skip
        isolate = ("nsenter", f"--net={self._network.path}", *chroot.ISOLATE)
        with (directory / f"{container['name']}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *isolate, "sh", "-euc", "\n".join(script), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._processes.add(process)
        return process

    async def _host_names(self, pod: Object) -> Iterator[str]:
        page = await self._api.request("GET", kinds.SERVICE.path(self._namespace))
        services = [item["metadata"]["name"] for item in page["items"]]
        name = pod["metadata"]["name"]
        return iter(
            ["localhost", *(f"{one}.{self._namespace}.svc" for one in services)]
            + [f"{name}.{one}.{self._namespace}.svc" for one in services]
        )
