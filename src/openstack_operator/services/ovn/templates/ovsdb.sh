#!/bin/sh
# Starts the node's Open vSwitch database. Its file and the node's identity outlive the pod.
set -eu
. "${0%/*}/serve.sh"
directory=/var/lib/openvswitch
file=$directory/conf.db
socket=/run/openvswitch/db.sock
definition=/usr/share/openvswitch/vswitch.ovsschema

# A server of the machine's own would lose its socket to ours, and its guests their network.
if [ -S "$socket" ] && ovsdb-client --timeout=5 list-dbs "unix:$socket" > /dev/null 2>&1; then
  echo "another Open vSwitch serves $socket on this node: stop and disable it first" >&2
  exit 1
fi

# An empty file is no database. What is in it comes from the other scripts of the node and from ovn-controller.
if [ ! -s "$file" ]; then
  [ ! -e "$file" ] || echo "$file is empty: a new database is made" >&2
  rm -f "$file.new"
  ovsdb-tool create "$file.new" "$definition"
  mv "$file.new" "$file"
elif [ "$(ovsdb-tool needs-conversion "$file" "$definition")" = yes ]; then
  cp "$file" "$file.backup"
  ovsdb-tool convert "$file" "$definition"
fi
if [ ! -s "$directory/system-id" ]; then
  cat /proc/sys/kernel/random/uuid > "$directory/system-id.new"
  mv "$directory/system-id.new" "$directory/system-id"
fi

# Asked to end along with the switch, it ends after it: without its database, a switch tells nobody its flows.
before_end() {
  tries=0
  while [ -S /run/openvswitch/ovs-vswitchd.ctl ] && [ "$tries" -lt 160 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
}

serve ovsdb-server "$file" --remote="punix:$socket" --remote=ptcp:6640:127.0.0.1 \
  --remote=db:Open_vSwitch,Open_vSwitch,manager_options \
  --unixctl=/run/openvswitch/ovsdb-server.ctl -vconsole:info -vsyslog:off
serve_until_end
