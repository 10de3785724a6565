#!/bin/sh
# Runs inside base + build packages; /run/build/layer is the new layer's directory, its venv is mounted at its final place.
set -eu
venv=/var/lib/kolla/venv
/run/build/uv venv --quiet --no-project --allow-existing --python /usr/bin/python3 "$venv"
/run/build/uv pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes --build-constraint /run/build/recipe/build-constraints.txt --requirement /run/build/lock.txt
rm -f "$venv/.lock" # uv's own, which everybody may write to
# Test suites are a quarter of the venv; no service imports them.
find "$venv/lib" -type d -name tests -prune -exec rm -rf {} +
"$venv/bin/python" /run/build/recipe/backports.py "$(echo "$venv"/lib/python3.*/site-packages)"
# Debian's own bindings (rados, rbd) are seen after everything in the venv.
echo /usr/lib/python3/dist-packages > "$(echo "$venv"/lib/python3.*/site-packages)/debian-bindings.pth"
"$venv/bin/python" -m compileall -q -j 0 "$venv/lib" || true # some packages ship templates and Python 2 files named .py

# /etc: what the wheels ship (paste pipelines, rootwrap filters, metadata definitions) and the directories that files are mounted into.
for service in keystone glance placement neutron nova cinder heat; do
  [ -d "$venv/etc/$service" ] || [ -e "$venv/bin/$service-manage" ] || [ -e "$venv/bin/$service-db-manage" ] || continue
  install -d -m 0755 "/run/build/layer/etc/$service"
  [ ! -d "$venv/etc/$service" ] || cp -R --no-preserve=mode,ownership "$venv/etc/$service/." "/run/build/layer/etc/$service/"
  install -d -o "$service" -g "$service" -m 0750 "/run/build/layer/var/lib/$service"
done
for conf in /run/build/layer/etc/*/rootwrap.conf; do
  [ ! -f "$conf" ] || sed -i "s|^exec_dirs *=.*|exec_dirs=$venv/bin,/sbin,/usr/sbin,/bin,/usr/bin,/usr/local/bin,/usr/local/sbin|" "$conf"
done
install -d -o keystone -g keystone -m 0700 /run/build/layer/etc/keystone/fernet-keys /run/build/layer/etc/keystone/credential-keys
install -d -m 0755 /run/build/layer/etc/neutron/plugins/ml2 /run/build/layer/var/lib/kolla/config_files
install -d -o nova -g nova -m 0755 /run/build/layer/var/lib/nova/instances
install -d -o glance -g glance -m 0750 /run/build/layer/var/lib/glance/images
