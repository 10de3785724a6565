"""my.cnf, the root user's SQL, and the start script."""

from __future__ import annotations

from openstack_operator.kit import config, open_files
from openstack_operator.services.mariadb.types import MariaDBSpec

PORT = 3306
DATA = "/var/lib/mysql"
RUN = "/run/mysqld"

LEAST_MEBIBYTES = 32
"""Free on the volume: with less, InnoDB cannot make a table of any size larger, and waits with whoever writes."""
LAST_WORDS = "/dev/termination-log"
"""What stands here when a container ends is what its pod says of it. The kubelet makes it, for everyone to write."""

# A server may crash of a full volume, and the report of that crash does not say so: whoever looks before it leaves the
# word for then.
ROOM = (
    f'free=$(($(stat --file-system --format="%a * %S" {DATA}) >> 20)); '
    f"if [ $free -ge {LEAST_MEBIBYTES} ]; then [ ! -s {LAST_WORDS} ] || true > {LAST_WORDS} || true; "
    'else echo "the volume of the database is full: $free MiB are free; it takes no data until there is more" | '
    f"tee {LAST_WORDS}; false; fi"
)

# Collations are pinned: the defaults of MariaDB 11 differ from what the migrations of the services were written for.
CHARACTER_SET, COLLATION = "utf8mb3", "utf8mb3_general_ci"


def my_cnf(spec: MariaDBSpec) -> str:
    """The server's configuration."""
    return f"""\
[mariadbd]
datadir = {DATA}/data
socket = {RUN}/mysqld.sock
pid-file = {RUN}/mysqld.pid
tmpdir = /tmp
init-file = {config.MERGED}/init.sql
bind-address = *
port = {PORT}
# Clients come from pods whose addresses have no names; it also switches off the blocking of hosts by error count.
skip-name-resolve
character-set-server = {CHARACTER_SET}
collation-server = {COLLATION}
max_connections = {spec.max_connections}
innodb_buffer_pool_size = {spec.buffer_pool_mebibytes}M
innodb_log_file_size = 128M
# The migrations expect what MariaDB did before 11.6: a locking read sees rows committed meanwhile.
innodb_snapshot_isolation = OFF
skip-log-bin
performance_schema = OFF
"""


def init_sql(password: str) -> str:
    """Run at each start, before the port opens: root's password is always the Secret's."""
    quoted = "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return (
        f"CREATE USER IF NOT EXISTS 'root'@'%' IDENTIFIED BY {quoted};\n"
        f"ALTER USER 'root'@'%' IDENTIFIED BY {quoted};\n"
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;\n"
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY {quoted};\n"
        # mariadb-install-db makes further roots (127.0.0.1, ::1, the host's name), and these have no password.
        "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host NOT IN ('%', 'localhost'));\n"
        "FLUSH PRIVILEGES;\n"
    )


START = f"""\
#!/bin/sh
# Makes the data directory once (under another name first: a start that is cut off leaves nothing half-made),
# then serves. On a full volume too: only a server that runs can give room back. It may crash of it, or wait in its
# start, and who starts next says first, once, why: as the last words of its own end.
set -eu
if ({ROOM}); then
  rm -f {RUN}/said-full
elif [ ! -e {RUN}/said-full ]; then
  touch {RUN}/said-full
  exit 1
fi
if [ ! -d {DATA}/data/mysql ]; then
  rm -rf {DATA}/data.new
  mariadb-install-db --no-defaults --datadir={DATA}/data.new --skip-test-db \\
    --auth-root-authentication-method=normal --tmpdir=/tmp > /dev/null
  mv {DATA}/data.new {DATA}/data
fi
{open_files.limit()}exec mariadbd --defaults-file={config.MERGED}/my.cnf
"""
