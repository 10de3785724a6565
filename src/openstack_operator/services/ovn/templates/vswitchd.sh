#!/bin/sh
# Starts the node's virtual switch. Environment: NODE_NAME, DATAPATH (Auto, Kernel or Userspace), EXTERNAL_BRIDGE and
# EXTERNAL_ADDRESS (both or none: the node's own address on that bridge). controller.sh makes the other bridges.
set -eu
. "${0%/*}/serve.sh"
socket=/run/openvswitch/db.sock
flows=/run/openvswitch/flows

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
if [ "$type" = netdev ] && ! (: <> /dev/net/tun) 2> /dev/null; then
  echo "cannot open /dev/net/tun, which the userspace datapath needs for each of its ports: the node's container runtime" \
    "denies the device (character device 10:200) to pods, as crun does and runc does not. Let it allow the device, or" \
    "load the kernel module openvswitch on the node" >&2
  exit 1
fi

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
# Flows of long ago are worse than none.
if [ -n "$(find "$flows/flows" -mmin -10 2> /dev/null)" ]; then
  restores=true
  set -- "$@" -- set Open_vSwitch . other_config:flow-restore-wait=true
else
  restores=false
  set -- "$@" -- remove Open_vSwitch . other_config flow-restore-wait
fi
# Nothing may pass br-int before ovn-controller says so.
ovs-vsctl "$@" -- set Bridge br-int fail-mode=secure other-config:disable-in-band=true
for bridge in $(ovs-vsctl --db="unix:$socket" --timeout=30 list-br); do
  ovs-vsctl --db="unix:$socket" --timeout=30 --no-wait set Bridge "$bridge" "datapath_type=$type"
done

# A bridge's interface is down after each start of the switch, and the node asks anew who is behind it. What it asks
# before there are flows is lost, and by default it asks again only after a second.
if [ -n "${EXTERNAL_BRIDGE:-}" ]; then
  while :; do
    case $(ip -oneline address show dev "$EXTERNAL_BRIDGE" up 2> /dev/null) in
      *" $EXTERNAL_ADDRESS "*) sleep 10 ;;
      *)
        ip link set "$EXTERNAL_BRIDGE" up 2> /dev/null &&
          ip ntable change name arp_cache dev "$EXTERNAL_BRIDGE" retrans 100 &&
          ip address replace "$EXTERNAL_ADDRESS" dev "$EXTERNAL_BRIDGE" || sleep 0.2
        ;;
    esac
  done &
fi

# --- taps of guests ---------------------------------------------------------------------------------------------------

# The userspace switch holds a tap by the device that it opened, and writes its flags as it last saw them. So it sends
# to a guest and hears nothing of it where libvirt has made a tap of the same name anew (resume, soft reboot), and it
# takes a tap down for good that libvirt sets up in the moment in which the switch opens it.
vsctl() { ovs-vsctl --db="unix:$socket" --timeout=30 "$@"; }

# What is between the two halves of `reopen`: a port must not be lost when the container ends there.
half=/run/openvswitch/port-to-add

add_half() {
  [ -e "$half" ] || return 0
  {
    read -r name
    read -r bridge
    read -r ids
    read -r mtu
  } < "$half"
  vsctl "$@" -- --may-exist add-port "$bridge" "$name" -- set Interface "$name" "external_ids=$ids" "mtu_request=$mtu"
  rm -f "$half"
}

# In two transactions: of one that deletes and adds a port, the switch sees a port that stays.
reopen() {
  echo "opening $1 again, which was made anew"
  bridge=$(vsctl iface-to-br "$1")
  { echo "$1"; echo "$bridge"; vsctl get Interface "$1" external_ids; vsctl get Interface "$1" mtu_request; } > "$half.new"
  mv "$half.new" "$half"
  vsctl del-port "$bridge" "$1"
  add_half
}

follow_taps() {
  known=" "
  # What is there and what changes come through one pipe, the changes first: nothing is missed between the two.
  { ip -oneline monitor link & ip -oneline link show; wait; } | while read -r index name flags rest; do
    name=${name%:} name=${name%%@*}
    case $index in *[!0-9:]*) continue ;; esac
    case $name in tap*) ;; *) continue ;; esac
    port=$(vsctl --no-wait --if-exists get Interface "$name" _uuid) || continue
    [ -n "$port" ] || continue
    case $known in
      *" $name,$index$port "*) ;;
      *" $name,"[0-9]*":$port "*) reopen "$name" && port=$(vsctl get Interface "$name" _uuid) || continue ;;
    esac
    case ",${flags#<}," in *,UP,* | *,UP\>,*) ;; *)
        # It may be going just now.
        ip link set "$name" up 2> /dev/null || continue
        ;;
    esac
    known="$(printf '%s' "$known" | sed "s/ $name,[^ ]* / /") $name,$index$port "
  done
}

add_half --no-wait
if [ "$type" = netdev ]; then
  # No failure ends it for good.
  while :; do
    follow_taps || echo "following taps anew" >&2
    sleep 1
  done &
fi

# --- flows ------------------------------------------------------------------------------------------------------------

# What a switch knew when it was asked to end, the next one knows from its start. ovn-controller asks for the switch
# again after one second, or after three where that was too early.
br_int=unix:/run/openvswitch/br-int.mgmt
ofctl() { ovs-ofctl -O OpenFlow15 --timeout=5 "$@"; }

save() {
  rm -rf "$flows" "$flows.new" && mkdir "$flows.new" &&
    ofctl dump-tlv-map "$br_int" > "$flows.new/said" &&
    awk '/^ *0x/ { printf "%s{class=%s,type=%s,len=%s}->%s", n++ ? "," : "", $1, $2, $3, $4 }' \
      "$flows.new/said" > "$flows.new/options" &&
    ofctl dump-groups "$br_int" > "$flows.new/said" &&
    sed -n 's/^ *group_id=/group_id=/p' "$flows.new/said" > "$flows.new/groups" &&
    ofctl dump-meters "$br_int" > "$flows.new/said" &&
    # A meter's bands are lines of their own.
    awk '/^meter=/ { if (n++) print "" } n { printf "%s ", $0 } END { if (n) print "" }' \
      "$flows.new/said" > "$flows.new/meters" &&
    ofctl dump-flows --no-names --no-stats "$br_int" > "$flows.new/flows" &&
    mv "$flows.new" "$flows"
}

restore() {
  options=$(cat "$flows/options")
  [ -z "$options" ] || ofctl add-tlv-map "$br_int" "$options" || return
  while read -r meter; do ofctl add-meter "$br_int" "$meter" || return; done < "$flows/meters"
  # The flows all or not at all.
  ofctl add-groups "$br_int" "$flows/groups" && ofctl --bundle add-flows "$br_int" "$flows/flows"
}

before_end() { save || echo "the next switch has to wait for its flows" >&2; }

rm -f /run/openvswitch/br-int.mgmt
serve ovs-vswitchd "unix:$socket" --unixctl=/run/openvswitch/ovs-vswitchd.ctl -vconsole:info -vsyslog:off
if [ "$restores" = true ]; then
  tries=0
  until ofctl show "$br_int" > /dev/null 2>&1 || [ "$tries" -ge 100 ]; do
    tries=$((tries + 1))
    kill -0 "$served" && sleep 0.05
  done
  restore || echo "the flows from before cannot be had again" >&2
  rm -rf "$flows"
  vsctl --no-wait remove Open_vSwitch . other_config flow-restore-wait
fi
serve_until_end
