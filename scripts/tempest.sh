#!/bin/sh
# Runs OpenStack's own smoke tests against the cloud of ./up and compares the verdicts with tests/tempest-smoke.txt.
# Arguments go to `tempest run` instead of --smoke; then nothing is compared. `make tempest` calls this.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
lock=client
. "$here/scripts/python.sh"

# Not for the suite's own environment.
unset PYTHONPATH
ours() { PYTHONPATH=$here/src "$python" -m "$@"; }

version=46.2.0
state=${OPENSTACK_OPERATOR_STATE:-/var/lib/openstack-operator}

# Tests of connectivity call it.
if ! command -v ping > /dev/null; then
    say "installing packages: iputils-ping"
    DEBIAN_FRONTEND=noninteractive apt-get -y -qq --no-install-recommends install iputils-ping >&2
fi

# What the suite shares with the cloud has the cloud's versions.
pins=$here/images/locks/2026.1.txt
key=$( { cat "$pins"; echo "$version $environment"; } | sha256sum | cut -c1-16)
suite=$cache/venv/tempest-$key
if [ ! -e "$suite/complete" ]; then
    say "making the Python environment of Tempest $version (once)"
    rm -rf "$suite"
    python3 -m venv "$suite"
    sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\).*/\1/p' "$pins" > "$suite/constraints.txt"
    "$suite/bin/python" -m pip --disable-pip-version-check install --quiet -c "$suite/constraints.txt" "tempest==$version"
    touch "$suite/complete"
fi

workspace=$state/tempest
PATH=$suite/bin:$PATH
rm -rf "$workspace"
mkdir -p "$workspace"
tempest init --name openstack-operator --workspace-path "$workspace/workspaces.yaml" "$workspace" > /dev/null
ours openstack_operator tempest-conf "$workspace"
cd "$workspace"
if [ $# -gt 0 ]; then
    exec tempest run --concurrency 2 "$@"
fi
tempest run --smoke --list-tests > ids.txt
tempest run --smoke --concurrency 2 > output.txt 2>&1 &
runner=$!
tail --pid=$runner -n +1 -f output.txt
wait $runner || true
ours openstack_operator.cli.tempest "$here/tests/tempest-smoke.txt" ids.txt output.txt
