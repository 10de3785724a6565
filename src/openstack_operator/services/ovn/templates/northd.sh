#!/bin/sh
# Starts ovn-northd. Environment: OVN_NB, OVN_SB (connection strings of all members).
set -eu
exec ovn-northd --ovnnb-db="$OVN_NB" --ovnsb-db="$OVN_SB" --unixctl=/run/ovn/northd.ctl -vconsole:info -vsyslog:off
