#!/bin/sh
# Starts one member of a clustered OVN database. Member 0 founds the cluster, every other one joins it.
# Environment: DATABASE (nb or sb), POD_IP. The file is made once and stays on the member's volume.
set -eu
umask 027
case $DATABASE in
  nb) schema=OVN_Northbound clients=6641 raft=6643 ;;
  sb) schema=OVN_Southbound clients=6642 raft=6644 ;;
  *) echo "DATABASE must be nb or sb" >&2; exit 2 ;;
esac
case $POD_IP in
  *:*) any='[::]' ;;
  *) any=0.0.0.0 ;;
esac
file=/var/lib/ovn/$DATABASE.db
run=/run/ovn
definition=/usr/share/ovn/ovn-$DATABASE.ovsschema

# The full name, because OVS resolves names without the search list of resolv.conf. kubelet has it in /etc/hosts.
self=$(hostname -f)
member=${self%%.*}
domain=${self#*.}
founder=${member%-*}-0

# An empty file is no database, and no server starts with one. Nothing is lost with it: there is no other member today
# (`replicas` is 1 at most) that would know more.
if [ ! -s "$file" ]; then
  [ ! -e "$file" ] || echo "$file is empty: a new database is made" >&2
  rm -f "$file.new"
  if [ "$member" = "$founder" ]; then
    ovsdb-tool create-cluster "$file.new" "$definition" "tcp:$self:$raft"
  else
    ovsdb-tool join-cluster "$file.new" "$schema" "tcp:$self:$raft" "tcp:$founder.$domain:$raft"
  fi
  mv "$file.new" "$file"
fi

# Written twice: until the database holds its first row, nobody but this script can reach it, because ovn-controller
# crashes on an empty Southbound database.
configure() {
  cat > "$run/$DATABASE.json.new" <<END
{"remotes": {"punix:$run/$DATABASE.sock": {}$1}, "databases": {"$file": {}}}
END
  mv "$run/$DATABASE.json.new" "$run/$DATABASE.json"
}
configure ""

socket=unix:$run/$DATABASE.sock
rm -f "$run/$DATABASE.sock"
(
  until [ -S "$run/$DATABASE.sock" ]; do sleep 0.1; done
  until ovsdb-client --timeout=60 wait "$socket" "$schema" connected; do sleep 1; done
  # A newer image brings a newer schema; only the leader can convert, so errors of the others mean nothing.
  if [ "$(ovsdb-client --timeout=30 needs-conversion "$socket" "$definition")" = yes ]; then
    ovsdb-client --timeout=120 convert "$socket" "$definition" && echo "schema converted"
  fi
  until "ovn-${DATABASE}ctl" --db="$socket" --no-leader-only --timeout=60 init; do sleep 1; done
  # Clients that are busy for a while must not be cut off: the server's default is five seconds.
  configure ", \"ptcp:$clients:$any\": {\"inactivity-probe\": 60000}"
  ovs-appctl -t "$run/$DATABASE.ctl" ovsdb-server/reload
) &

exec ovsdb-server --config-file="$run/$DATABASE.json" --unixctl="$run/$DATABASE.ctl" -vconsole:info -vsyslog:off
