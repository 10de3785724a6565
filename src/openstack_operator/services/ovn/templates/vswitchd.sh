#!/bin/sh
# Starts the node's virtual switch. Environment: NODE_NAME, DATAPATH (Auto, Kernel or Userspace), EXTERNAL_BRIDGE and
# EXTERNAL_ADDRESS (both or none: the node's own address on that bridge). controller.sh makes the other bridges.
set -eu
socket=/run/openvswitch/db.sock

tries=0
until ovs-vsctl --db="unix:$socket" --timeout=5 --no-wait init 2> /dev/null; do
  tries=$((tries + 1))
  [ "$tries" -lt 300 ] || { echo "no database at $socket" >&2; exit 1; }
  sleep 0.2
done

case $DATAPATH in
  Kernel) type=system ;;
  Userspace) type=netdev ;;
  # Asking for the datapaths makes the kernel load its module, where it has one.
  *) if ovs-dpctl --timeout=10 -voff dump-dps > /dev/null 2>&1; then type=system; else type=netdev; fi ;;
esac
echo "datapath: $type"

set -- --db="unix:$socket" --timeout=30 --no-wait \
  set Open_vSwitch . "external-ids:system-id=$(cat /var/lib/openvswitch/system-id)" \
  "external-ids:hostname=$NODE_NAME" "external-ids:ovn-bridge-datapath-type=$type"
# Without offloading in the switch, the partial checksums of guests' and namespaces' TCP packets never get completed.
if [ "$type" = netdev ]; then
  set -- "$@" other_config:userspace-tso-enable=true
else
  set -- "$@" -- remove Open_vSwitch . other_config userspace-tso-enable
fi
for bridge in br-int ${EXTERNAL_BRIDGE:-}; do
  set -- "$@" -- --may-exist add-br "$bridge"
done
# Nothing may pass br-int before ovn-controller says so.
ovs-vsctl "$@" -- set Bridge br-int fail-mode=secure other-config:disable-in-band=true
for bridge in $(ovs-vsctl --db="unix:$socket" --timeout=30 list-br); do
  ovs-vsctl --db="unix:$socket" --timeout=30 --no-wait set Bridge "$bridge" "datapath_type=$type"
done

# A bridge's interface is down after each start of the switch.
if [ -n "${EXTERNAL_BRIDGE:-}" ]; then
  while :; do
    case $(ip -oneline address show dev "$EXTERNAL_BRIDGE" up 2> /dev/null) in
      *" $EXTERNAL_ADDRESS "*) sleep 10 ;;
      *)
        ip link set "$EXTERNAL_BRIDGE" up 2> /dev/null &&
          ip address replace "$EXTERNAL_ADDRESS" dev "$EXTERNAL_BRIDGE" || sleep 0.2
        ;;
    esac
  done &
fi

exec ovs-vswitchd "unix:$socket" --unixctl=/run/openvswitch/ovs-vswitchd.ctl -vconsole:info -vsyslog:off
