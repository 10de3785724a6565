"""How a program in a container finds the container's first process.

It is not process 1: the containers of a pod share a PID namespace (`workloads.template`), whose first process is that
which holds the pod's namespaces. It is the oldest process with a parent outside of the pod that sees the container's
files; probes and `kubectl exec` start others.

Both texts are pasted into scripts that run in containers, where nothing of ours can be imported.
"""

from __future__ import annotations

PYTHON = """\
import os


def is_of_this_container(pid):
    return os.path.samefile(f"/proc/{pid}/ns/mnt", "/proc/self/ns/mnt")


def first_process():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if fields[1] == "0" and int(pid) != os.getpid() and is_of_this_container(pid):
                found.append((int(fields[19]), int(pid)))
        except OSError:
            continue  # it has ended, or belongs to another user
    return min(found)
"""
"""Defines ``first_process()``, which returns when it started, in ticks since the node did, and its pid; and
``is_of_this_container(pid)``, which raises OSError where nobody may know."""

SHELL = """\
first='' since=''
for process in /proc/[0-9]*; do
  { read -r stat < "$process/stat"; } 2> /dev/null || continue
  set -- ${stat##*) }
  [ "$2" = 0 ] && [ "$process" != "/proc/$$" ] && [ "$process/ns/mnt" -ef /proc/self/ns/mnt ] || continue
  if [ -z "$first" ] || [ "${20}" -lt "$since" ]; then first=$process since=${20}; fi
done
"""
"""Sets ``first`` to its directory in /proc, and ``since`` to when it started, without starting a process. The
positional parameters are lost."""
