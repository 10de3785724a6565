#!/bin/sh
# Starts ovn-controller. Environment: OVN_SB (all members), ENCAP_IP, BRIDGE_MAPPINGS, GATEWAY (true or false).
set -eu
socket=/run/openvswitch/db.sock

vsctl() {
  ovs-vsctl --db="unix:$socket" --timeout=30 --no-wait "$@"
}

tries=0
until [ -n "$(vsctl --if-exists get Open_vSwitch . external-ids:system-id 2> /dev/null | tr -d '[]')" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 300 ] || { echo "the node's Open vSwitch does not answer at $socket" >&2; exit 1; }
  sleep 0.2
done

set -- set Open_vSwitch . "external-ids:ovn-remote=\"$OVN_SB\"" external-ids:ovn-remote-probe-interval=60000 \
  external-ids:ovn-bridge=br-int \
  external-ids:ovn-encap-type=geneve "external-ids:ovn-encap-ip=\"$ENCAP_IP\"" external-ids:ovn-monitor-all=true
if [ -n "$BRIDGE_MAPPINGS" ]; then
  set -- "$@" "external-ids:ovn-bridge-mappings=\"$BRIDGE_MAPPINGS\""
  type=$(vsctl get Open_vSwitch . external-ids:ovn-bridge-datapath-type)
  for mapping in $(echo "$BRIDGE_MAPPINGS" | tr , ' '); do
    bridge=${mapping#*:}
    set -- "$@" -- --may-exist add-br "$bridge" -- set Bridge "$bridge" "datapath_type=$type"
  done
else
  set -- "$@" -- remove Open_vSwitch . external-ids ovn-bridge-mappings
fi
if [ "$GATEWAY" = true ]; then
  set -- "$@" -- set Open_vSwitch . external-ids:ovn-cms-options=enable-chassis-as-gw
else
  set -- "$@" -- remove Open_vSwitch . external-ids ovn-cms-options
fi
vsctl "$@"

# Over TCP, for its probes: a connection on which nothing was heard after its first moment counts as one that failed, and
# each such doubles the wait before the next, up to 8 s. Until then no flow reaches a switch that has started again.
exec ovn-controller tcp:127.0.0.1:6640 --unixctl=/run/ovn/controller.ctl -vconsole:info -vsyslog:off
