"""keystone.conf as rows, and the scripts of the Jobs."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, ini
from openstack_operator.services.keystone.types import KeystoneSpec

PORT = 5000
FERNET_KEYS = "/etc/keystone/fernet-keys"
CREDENTIAL_KEYS = "/etc/keystone/credential-keys"


def max_active_keys(spec: KeystoneSpec, facts: Mapping[str, Any]) -> int:
    """As many keys as sign tokens that may still be shown, the next one, and the one being replaced."""
    life = spec.token.expiration_seconds + spec.token.allow_expired_window_seconds
    return most_rotations(spec.fernet.rotation_hours, life / 3600) + 2


def schedule(hours: int) -> str:
    """Cron schedule of about every ``hours`` hours: cron counts hours within a day and days within a month."""
    if hours < 24:
        return f"7 */{hours} * * *"
    return f"7 3 */{hours // 24} * *" if hours >= 48 else "7 3 * * *"


def most_rotations(hours: int, span: float) -> int:
    """The most runs of ``schedule(hours)`` within any ``span`` hours.

    More than span / hours where the schedule starts over: `*/23` runs at 0 and at 23 o'clock, an hour apart.
    """
    months = [(days * 24, hours // 24 * 24) for days in (28, 29, 30, 31)]
    periods = [(24, hours)] if hours < 24 else months
    most = 0
    for period, step in periods:
        ends = range(0, math.ceil(span) + 2 * period, period)
        runs = [start + offset for start in ends for offset in range(0, period, step)]
        first = len(range(0, period, step))
        most = max(most, *(bisect.bisect_left(runs, runs[i] + span) - i for i in range(first)))
    return most


CACHED_LONGER = ("domain_config", "identity", "receipt", "revoke")
"""Sections whose entries last longer than all others unless told otherwise: revocations an hour."""

ROWS = (
    *ini.logging(),
    # Keystone's migrations refuse every URL with a percent sign in it, which is what quoting a password makes.
    *ini.database("database", password_file=True),
    ini.fixed("token", "provider", "fernet", "tokens need no database"),
    ini.spec("token", "expiration", "token.expirationSeconds"),
    ini.spec("token", "allow_expired_window", "token.allowExpiredWindowSeconds"),
    ini.fixed("fernet_tokens", "key_repository", FERNET_KEYS, "where the keys' Secret is mounted"),
    ini.computed("fernet_tokens", "max_active_keys", max_active_keys, "spec.token, spec.fernet.rotationHours"),
    ini.fixed("credential", "key_repository", CREDENTIAL_KEYS, "where the keys' Secret is mounted"),
    *ini.cache(),
    *(
        ini.fixed(section, "cache_time", ini.CACHE_SECONDS, "as long as [cache] expiration_time")
        for section in CACHED_LONGER
    ),
    ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
)

SECONDS_APART = 120
"""Between two rotations, at least. kubelet brings a changed Secret into a pod at its next look, which is a minute to a
minute and a half away (its syncFrequency and jitter)."""

ROTATE = '''\
"""Rotates the fernet keys in their Secret: the staged key 0 becomes the primary, a new one is staged, the oldest go.

Pods see the new keys through their mounted Secret, without a restart. Runs in a CronJob that may read and change this
one Secret. usage: rotate.py SECRET MAX_ACTIVE_KEYS SECONDS_APART

A pod signs with what was staged before, so those that have not seen a rotation yet know the key: until the next one. So
there is none before SECONDS_APART are over, by the API server's clock.
"""
import base64
import datetime
import email.utils
import json
import os
import ssl
import sys
import time
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
ROTATED = "openstack.k8s.io/rotated-at"


def read(name):
    with open(f"{ACCOUNT}/{name}") as file:
        return file.read().strip()


def call(verb, body=None):
    """The Secret, and the time that the API server gives with it."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    url = (
        f"https://{host}:{os.environ['KUBERNETES_SERVICE_PORT']}"
        f"/api/v1/namespaces/{read('namespace')}/secrets/{sys.argv[1]}"
    )
    headers = {"Authorization": f"Bearer {read('token')}", "Content-Type": "application/json-patch+json"}
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers, method=verb)
    context = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return json.load(answer), email.utils.parsedate_to_datetime(answer.headers["Date"])


def too_early(secret, now):
    """Seconds until the keys may be rotated again: none where nobody knows of a rotation."""
    try:
        rotated = datetime.datetime.fromisoformat(secret["metadata"]["annotations"][ROTATED])
        past = (now - rotated).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0
    return min(max(apart - past, 0), apart)


apart = int(sys.argv[3])
secret, now = call("GET")
while (left := too_early(secret, now)) > 0:
    print(f"rotated less than {apart} s ago, which not every pod may have seen: waits {left:.0f} s", flush=True)
    time.sleep(left)
    secret, now = call("GET")
keys = {int(name): value for name, value in secret["data"].items()}
if 0 not in keys or len(keys) < 2:
    sys.exit("the Secret does not hold a staged and a primary key; nothing was changed")
keys[max(keys) + 1] = keys[0]
new = base64.urlsafe_b64encode(os.urandom(32))
keys[0] = base64.b64encode(new).decode()
numbers = sorted(keys)
keep = {0, *numbers[1:][-(int(sys.argv[2]) - 1):]}
data = {str(number): value for number, value in keys.items() if number in keep}
annotations = {**secret["metadata"].get("annotations", {}), ROTATED: now.isoformat()}
# The test makes a lost race visible: nobody's keys are overwritten with older ones.
call("PATCH", [
    {"op": "test", "path": "/metadata/resourceVersion", "value": secret["metadata"]["resourceVersion"]},
    {"op": "add", "path": "/metadata/annotations", "value": annotations},
    {"op": "replace", "path": "/data", "value": data},
])
print(f"primary key {max(keys)}, {len(data)} keys")
'''

FLUSH_NAME = "flush.py"
BOOTSTRAP_NAME = "bootstrap.sh"
BOOTSTRAP = f"""\
#!/bin/sh
# Runs the command given, then empties the cache: what an earlier database held is no longer true.
set -eu
"$@"
exec python3 {config.SCRIPTS}/{FLUSH_NAME} {config.MERGED}/keystone.conf
"""

FLUSH = '''\
"""Empties the Memcached servers that keystone.conf names. usage: flush.py FILE

One that does not answer is told about and skipped: it is empty when it comes back.
"""
import re
import socket
import sys

with open(sys.argv[1]) as file:
    servers = re.findall(r"(?m)^memcache_servers *= *(.*)$", file.read())[-1]
for server in servers.split(","):
    host, _, port = server.strip().rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as link:
            link.sendall(b"flush_all\\r\\n")
            print(server, link.recv(16).decode().strip())
    except OSError as problem:
        print(server, problem)
'''
