"""rabbitmq.conf, the admin's definitions, and the start script."""

from __future__ import annotations

import json

from openstack_operator.kit import config, open_files, quantities
from openstack_operator.services.rabbitmq.types import RabbitMQSpec

AMQP_PORT, MANAGEMENT_PORT = 5672, 15672
EPMD_PORT, DISTRIBUTION_PORT = 4369, 25672
"""Erlang's own: members find each other at the first and talk at the second."""
DATA = "/var/lib/rabbitmq"
RUN = "/run/rabbitmq"

CONF = f"""\
listeners.tcp.default = {AMQP_PORT}
management.tcp.port = {MANAGEMENT_PORT}
load_definitions = {config.MERGED}/definitions.json
default_queue_type = quorum
log.console = true
log.console.level = info
log.file = false
# A volume that is nearly full stops publishers instead of the server.
disk_free_limit.absolute = 200MB
# Statistics nobody looks at cost CPU.
management_agent.disable_metrics_collector = true
"""


def conf(spec: RabbitMQSpec) -> str:
    """The server's configuration. Where the container's memory is limited, publishers are stopped by that limit: the
    server measures itself against the memory of the node, and would be killed long before."""
    limit = spec.resources.limits.memory
    if not limit:
        return CONF
    return f"{CONF}total_memory_available_override_value = {int(quantities.value(limit))}\n"


PLUGINS = "[rabbitmq_management].\n"


def definitions(user: str, password: str) -> str:
    """Imported at each start: the admin's password is always the Secret's."""
    return json.dumps(
        {
            "users": [{"name": user, "password": password, "tags": ["administrator"]}],
            "vhosts": [{"name": "/"}],
            "permissions": [{"user": user, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        }
    )


START = f"""\
#!/bin/sh
# The cookie must belong to the server's user and be readable by nobody else; a mounted Secret cannot be that.
set -eu
umask 077
export HOME={DATA}
cat {config.MERGED}/erlang.cookie > {DATA}/.erlang.cookie.new
chmod 400 {DATA}/.erlang.cookie.new
mv -f {DATA}/.erlang.cookie.new {DATA}/.erlang.cookie
{open_files.limit()}exec /usr/lib/rabbitmq/bin/rabbitmq-server
"""


def environment(instance: str, members: str, namespace: str) -> dict[str, str]:
    """Environment of the server: long names, because members find each other by their Services' names."""
    return {
        "HOME": DATA,
        "RABBITMQ_USE_LONGNAME": "true",
        "RABBITMQ_NODENAME": f"rabbit@$(POD_NAME).{members}.{namespace}.svc",
        "RABBITMQ_CONFIG_FILE": f"{config.MERGED}/rabbitmq",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{config.MERGED}/enabled_plugins",
        "RABBITMQ_MNESIA_BASE": f"{DATA}/mnesia",
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": f"{RUN}/pid",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{RUN}/config",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{RUN}/advanced.config",
        # Two schedulers that sleep when idle: by default each core's scheduler spins while it waits.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
    }
