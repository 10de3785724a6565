#!/bin/sh
# Runs inside the new root file system: Kolla's users and what a container runtime mounts over.
set -eu
groupadd --gid 42400 kolla
grep -v '^#' /run/build/recipe/users.txt | while read -r name id home; do
  groupadd --gid "$id" "$name"
  useradd --uid "$id" --gid "$id" --groups kolla --home-dir "$home" --no-create-home --shell /usr/sbin/nologin "$name"
done
install -d -o root -g kolla -m 2775 /var/log/kolla
# mount points of the container runtime: they exist, so that a read-only root file system needs no write
: > /etc/resolv.conf
: > /etc/hostname
printf '127.0.0.1 localhost\n' > /etc/hosts
[ "$(readlink /var/run)" = /run ] # clients of OVS, OVN and libvirt say /var/run
# Whoever a container runs as stays that user: no file gives another one's rights.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
rm -rf /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*.log /var/log/apt
