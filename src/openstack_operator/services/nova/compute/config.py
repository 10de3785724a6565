"""nova.conf of nova-compute as rows, libvirt's files, and the scripts of both pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, first_process, ini
from openstack_operator.services.nova import rows
from openstack_operator.services.nova.compute.types import NovaComputeSpec

CONF = f"{config.MERGED}/nova.conf"
NODE_DIRECTORY = "/var/lib/node-config"
NODE_FILE = "node.conf"
NODE_CONF = f"{NODE_DIRECTORY}/{NODE_FILE}"
"""What differs from node to node; read before nova.conf, so that users' text wins over it."""
OVSDB = "tcp:127.0.0.1:6640"
GUESTS = "openstack-guests"
CGROUPS = "/hostcg"

# Every context in which nova or one of its libraries needs root; the pod has no sudo, and is root.
PRIVSEP = ("nova_sys_admin", "vif_plug_ovs_privileged", "vif_plug_linux_bridge_privileged", "privsep_osbrick")

IDENTITY = "compute_id"
"""File with the UUID of the compute node, beside nova.conf or in Nova's state directory. nova-compute refuses to start
where Nova knows the host and there is none (LP#2051011)."""

DRIVERS = {"Libvirt": "libvirt.LibvirtDriver", "Fake": "fake.FakeDriverWithoutFakeNodes"}

# No [database] and no [api_database]: with one, nova-compute would try to use it.
COMMON = (
    *rows.BASE,
    *rows.SHUTDOWN,
    *ini.messaging(),
    *rows.CLIENTS,
    *rows.NO_UPCALLS,
    ini.computed("DEFAULT", "compute_driver", lambda spec, facts: DRIVERS[spec.driver], "spec.driver"),
    ini.computed("vnc", "enabled", lambda spec, facts: spec.novncproxy_url is not None, "spec.novncproxyUrl"),
    ini.spec("vnc", "novncproxy_base_url", "novncproxyUrl"),
)

FAKE_ROWS = (*COMMON, *rows.HOST, *rows.LOCKS)

ROWS = (
    *COMMON,
    ini.fixed("DEFAULT", "resume_guests_state_on_host_boot", True, "guests that ran when their node stopped run again"),
    ini.fixed("oslo_concurrency", "lock_path", f"{rows.STATE}/lock", "a successor's locks are the predecessor's"),
    ini.fixed("libvirt", "connection_uri", "qemu:///system", "the libvirt of the same node"),
    ini.fixed("libvirt", "images_type", "qcow2", "disks share their image"),
    ini.fixed("os_vif_ovs", "ovsdb_connection", OVSDB, "the Open vSwitch of the same node"),
    *(
        ini.fixed(context, "helper_command", f"privsep-helper --config-file {CONF}", "no sudo in the pod")
        for context in PRIVSEP
    ),
    # Nova reads the log of a pseudo terminal only where it sees the terminal itself, which is in the pod of libvirt.
    ini.fixed("serial_console", "enabled", True, "the console's log is a file that both pods see"),
    ini.fixed("serial_console", "proxyclient_address", "127.0.0.1", "consoles are reached on the node itself only"),
)

TUN = "/dev/net/tun"

_VIRT_TYPES = {"QEMU": "qemu", "KVM": "kvm"}


def choose(spec: NovaComputeSpec) -> tuple[ini.Row, ...]:
    return FAKE_ROWS if spec.driver == "Fake" else ROWS


def virt_type(spec: NovaComputeSpec, facts: Mapping[str, Any]) -> str:
    found: str = _VIRT_TYPES.get(spec.virt_type) or facts["node.virt_type"]
    return found


def cpu_mode(spec: NovaComputeSpec, facts: Mapping[str, Any]) -> str | None:
    """None at all for emulation; else it is Nova's to choose, or the user's."""
    return "none" if virt_type(spec, facts) == "qemu" else None


NODE_ROWS = (
    ini.fact("DEFAULT", "host", "node.name"),
    ini.fact("DEFAULT", "my_ip", "node.address"),
    ini.fact("vnc", "server_listen", "node.address"),
    ini.fact("vnc", "server_proxyclient_address", "node.address"),
    ini.computed("libvirt", "virt_type", virt_type, "spec.virtType, and with Auto whether KVM works on the node"),
    ini.computed("libvirt", "cpu_mode", cpu_mode, "spec.virtType: none for emulation"),
)
"""What the script ``NODE`` writes on each node."""

START = f"""import os
import socket
import subprocess
import time
import uuid

import libvirt

# nova-compute ends, and its container backs off for minutes, when either is not there.
URI, OVSDB = "qemu:///system", ("127.0.0.1", 6640)


def problem():
    try:
        connection = libvirt.openReadOnly(URI)
        try:
            if "<arch name=" not in connection.getCapabilities():
                return "libvirt finds no emulator yet"
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        return f"libvirt: {{error}}"
    try:
        socket.create_connection(OVSDB, timeout=2).close()
    except OSError as error:
        return f"OVSDB {{OVSDB[0]}}:{{OVSDB[1]}}: {{error}}"
    return ""


libvirt.registerErrorHandler(lambda context, error: None, None)
said = ""
while text := problem():
    if text != said:
        print(f"waiting: {{text}}", flush=True)
        said = text
    time.sleep(0.3)
os.makedirs("{rows.STATE}/lock", exist_ok=True)
# From the node's name, so that a node that was made anew is the host that Nova knows, and so is one that was cleaned
# when its Nova went, and whose Nova came back with the data of before. Whoever has another one keeps it.
identity = "{rows.STATE}/{IDENTITY}"
if not os.path.exists(identity):
    with open(f"{{identity}}.new", "w") as file:
        file.write(str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{{os.environ['NODE_NAME']}}.compute.openstack.k8s.io")))
    os.rename(f"{{identity}}.new", identity)
# Where os-vif makes the taps it also turns IPv6 off in each, and a container sees /proc/sys as a read-only mount.
if os.path.exists("{TUN}") and os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
    subprocess.run(["mount", "-o", "remount,bind,rw", "/proc/sys"], check=True)
os.execvp("nova-compute", ["nova-compute", "--config-file", "{NODE_CONF}", "--config-file", "{CONF}"])
"""

NODE = f"""#!/bin/sh
# Writes what differs from node to node, and says in the container's termination message how servers run here.
set -eu
kvm() {{
  [ -c /dev/kvm ] || {{ echo "there is no /dev/kvm"; return 1; }}
  # A boot sector that ends QEMU with exit code 33: mov dx,0x501; mov al,0x10; out dx,al; hlt. Not every /dev/kvm can
  # run a guest (nested and paravirtual ones).
  printf '\\272\\001\\005\\260\\020\\356\\364' > /tmp/kvm.img
  dd if=/dev/zero of=/tmp/kvm.img bs=1 seek=7 count=503 conv=notrunc 2> /dev/null
  printf '\\125\\252' >> /tmp/kvm.img
  code=0
  timeout 10 /usr/bin/qemu-system-x86_64 -accel kvm -cpu host -m 16 -nodefaults -display none -no-reboot \\
    -device isa-debug-exit,iobase=0x501,iosize=2 -drive file=/tmp/kvm.img,format=raw,if=ide 2> /tmp/kvm.log || code=$?
  [ "$code" = 33 ] && return 0
  echo "/dev/kvm cannot run a guest (exit code $code)"
  return 1
}}
case $VIRT_TYPE in
  QEMU) virt=qemu why="asked for" ;;
  KVM) virt=kvm why="asked for" ;;
  *) if why=$(kvm); then virt=kvm why="works"; else virt=qemu; fi ;;
esac
{{
  printf '[DEFAULT]\\nhost = %s\\nmy_ip = %s\\n' "$NODE_NAME" "$HOST_IP"
  printf '[vnc]\\nserver_listen = %s\\nserver_proxyclient_address = %s\\n' "$HOST_IP" "$HOST_IP"
  printf '[libvirt]\\nvirt_type = %s\\n' "$virt"
  # Emulation has no use for the model of the real processor.
  [ "$virt" = kvm ] || echo 'cpu_mode = none'
}} > {NODE_CONF}
echo "$virt: $why" | tee /dev/termination-log
"""

READY = f"""\
#!/bin/sh
# Whether nova-compute takes requests, by the connections to RabbitMQ of the container's own first process (the node's
# network is everybody's). While it starts they are two, one to send and one for replies. It listens on further ones
# when it is registered, with its resources in Placement.
{first_process.SHELL}\
mine=" $(ls -l "$first/fd" 2> /dev/null | sed -n 's/.*socket:.\\([0-9]*\\).$/\\1/p' | tr '\\n' ' ') "
count=0
while read -r _ _ _ _ _ _ _ _ _ socket _; do
  case $mine in *" $socket "*) count=$((count + 1)) ;; esac
done << END
$(grep -hE ' [0-9A-F]+:1628 01 ' /proc/net/tcp /proc/net/tcp6)
END
[ "$count" -gt 2 ]
"""

LIBVIRTD_CONF = """# The socket is on the node, in a directory that only root may enter.
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_rw_perms = "0700"
log_outputs = "1:stderr"
log_level = 3
"""

QEMU_CONF = """user = "root"
group = "root"
dynamic_ownership = 1
remember_owner = 0
security_driver = "none"
# No cgroups of libvirt's own: guests live outside the pod's, see the wrapper.
cgroup_controllers = [ ]
namespaces = [ ]
# Without virtlogd nothing of a guest ends with the pod.
stdio_handler = "file"
max_core = 0
"""

LIBVIRT_START = f"""#!/bin/sh
set -eu
mkdir -p /etc/libvirt/qemu /run/libvirt {rows.STATE}/instances
cp {config.MERGED}/qemu.conf /etc/libvirt/qemu.conf
cp {config.MERGED}/libvirtd.conf /etc/libvirt/libvirtd.conf
# The identity of the node as libvirt tells it: stable, and different even on nodes that are copies of one machine.
[ -s /var/lib/libvirt/host-uuid ] || cat /proc/sys/kernel/random/uuid > /var/lib/libvirt/host-uuid
printf 'host_uuid = "%s"\\n' "$(cat /var/lib/libvirt/host-uuid)" >> /etc/libvirt/libvirtd.conf
# Each guest, and each probe of QEMU by libvirt, leaves an empty group behind. rmdir refuses used ones.
find {CGROUPS}/{GUESTS} {CGROUPS}/*/{GUESTS} -mindepth 1 -depth -type d -exec rmdir {{}} + 2> /dev/null || true
# Before /usr/bin: libvirt takes the wrapper for the emulator.
export PATH="/usr/local/bin:$PATH"
exec libvirtd --config /etc/libvirt/libvirtd.conf --pid-file /run/libvirt/libvirtd.pid
"""

WRAPPER = f"""#!/bin/sh
# Starts QEMU outside the cgroups of libvirt's pod, so that guests outlive it.
leave() {{
  group=$1/{GUESTS}/$$
  mkdir -p "$group" || return 1
  for file in cpus mems; do
    [ ! -e "$1/cpuset.$file" ] || for child in "$1/{GUESTS}" "$group"; do
      cat "$1/cpuset.$file" > "$child/cpuset.$file" || return 1
    done
  done
  echo $$ > "$group/cgroup.procs" 2> /dev/null && return 0
  # cgroup v2: a process may not leave the cgroup namespace of its container, but init's is without a border.
  nsenter --cgroup=/proc/1/ns/cgroup sh -c 'echo "$1" > "$2"' sh $$ "$group/cgroup.procs"
}}
if [ -e {CGROUPS}/cgroup.controllers ]; then
  leave {CGROUPS} || exit 1
else
  for hierarchy in {CGROUPS}/*/; do
    [ ! -e "$hierarchy/cgroup.procs" ] || leave "${{hierarchy%/}}" || exit 1
  done
fi
# Root without any capability: it owns the files that libvirt gave it, and nothing else.
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /usr/bin/qemu-system-x86_64 "$@"
"""

CLEAN_MARK = "/tmp/clean"

CLEAN = f"""\
#!/bin/sh
# Ends all guests of the node and removes what libvirt and nova-compute keep there: their Nova is gone for good.
set -u
guests() {{
  find {CGROUPS}/{GUESTS} {CGROUPS}/*/{GUESTS} -name cgroup.procs -exec cat {{}} + 2> /dev/null | sort -u
}}
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  found=$(guests)
  [ -n "$found" ] || break
  kill -9 $found
  sleep 0.5
done
[ -z "$(guests)" ] || exit 1
find {CGROUPS}/{GUESTS} {CGROUPS}/*/{GUESTS} -depth -type d -exec rmdir {{}} + 2> /dev/null
set -e
for directory in "$@"; do
  find "$directory" -mindepth 1 -delete
done
touch {CLEAN_MARK}
exec sleep infinity
"""
