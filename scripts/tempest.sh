#!/bin/sh
# Runs sets of OpenStack's own tests against the cloud of ./up, and compares the verdicts with those in tests/tempest/:
# smoke (without an argument), identity, image, network, compute, scenario. Other arguments go to `tempest run`; then
# nothing is compared. `make tempest` calls this.
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
case ${1:-smoke} in
    smoke | identity | image | network | compute | scenario) ;;
    *) exec tempest run --concurrency 2 "$@" ;;
esac

# Tests of imports make Glance fetch an image, from nowhere but ports 80 and 443. The node's address is reached from this
# machine and its pods alone.
node=10.89.0.1
mkdir www
cp disk.qcow2 www/
"$python" -m http.server --bind $node --directory www 80 > http.log 2>&1 &
server=$!
trap 'kill $server' EXIT
printf '%s\n' '[image]' "http_image = http://$node/disk.qcow2" "http_qcow2_image = http://$node/disk.qcow2" \
    '[image-feature-enabled]' 'import_image = true' >> etc/tempest.conf

failures=0
for set in "${@:-smoke}"; do
    case $set in
        smoke) select=--smoke ;;
        scenario) select='--regex ^tempest\.scenario\.' ;;
        *) select="--regex ^tempest\\.api\\.$set\\." ;;
    esac
    # The patterns have no blanks.
    # shellcheck disable=SC2086
    tempest run $select --list-tests > ids.txt
    # shellcheck disable=SC2086
    tempest run $select --concurrency 2 > output.txt 2>&1 &
    runner=$!
    tail --pid=$runner -n +1 -f output.txt
    wait $runner || true
    cp output.txt "$set.log"
    "$python" "$here/tests/tempest/verdicts.py" "$set" . "$here/bench/results/tempest.json" "$here/docs" ||
        failures=$((failures + 1))
done
[ $failures = 0 ]
