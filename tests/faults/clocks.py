"""The operator with a clock of its own: a library before the C library moves what the kernel says of the time of day.
`./up` needs a C compiler itself, so there is one.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import operators
from clusters import OPERATOR_NAMESPACE, Cluster

# Only the time of day: what measures intervals goes on evenly on a machine whose clock was set.
SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved(void) {
  const char *text = getenv("MOVED_SECONDS");
  return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
  long failed = syscall(SYS_clock_gettime, clock, found);
  if (!failed && clock == CLOCK_REALTIME) found->tv_sec += moved();
  return (int)failed;
}

int gettimeofday(struct timeval *found, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  found->tv_sec = now.tv_sec;
  found->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}
"""
LIBRARY = "clock.so"
MOUNT = "/clock"
LEVEL = "pod-security.kubernetes.io/enforce"


@contextlib.contextmanager
def moved(cluster: Cluster, directory: Path, seconds: int) -> Iterator[None]:
    """The operator's clock is so far ahead as long as the block lasts; negative for behind."""
    source = directory / "clock.c"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-w", "-shared", "-fPIC", "-o", str(directory / LIBRARY), str(source)], check=True)
    for place in (directory, *directory.parents):
        # The operator is not root, and the directories of tests are nobody else's.
        if place != Path("/") and not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o055)
    environment = {"LD_PRELOAD": f"{MOUNT}/{LIBRARY}", "MOVED_SECONDS": str(seconds)}
    container = {
        "name": "operator",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [{"name": "clock", "mountPath": MOUNT, "readOnly": True}],
    }
    volumes = [{"name": "clock", "hostPath": {"path": str(directory)}}]
    level = cluster.get("namespaces", OPERATOR_NAMESPACE, "")["metadata"]["labels"][LEVEL]
    cluster.kubectl("label", "--overwrite", "namespace", OPERATOR_NAMESPACE, f"{LEVEL}=privileged")
    try:
        with operators.changed(cluster, {"containers": [container], "volumes": volumes}):
            yield
    finally:
        cluster.kubectl("label", "--overwrite", "namespace", OPERATOR_NAMESPACE, f"{LEVEL}={level}")
