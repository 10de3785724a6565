#!/bin/sh
# Runs inside the base layer; the operator's venv is mounted at its final place.
set -eu
venv=/opt/openstack-operator
/run/build/uv venv --quiet --no-project --allow-existing --python /usr/bin/python3 "$venv"
/run/build/uv pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes --only-binary :all: --requirement /run/build/lock.txt
rm -f "$venv/.lock" # uv's own, which everybody may write to
find "$venv/lib" -type d -name tests -prune -exec rm -rf {} +
"$venv/bin/python" -m compileall -q -j 0 "$venv/lib" || true
