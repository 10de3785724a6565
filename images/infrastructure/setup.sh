#!/bin/sh
# Runs inside the infrastructure layer after its packages are installed: everything runs without root on a read-only root.
set -eu
# Its package insists on making the user itself.
groupmod --gid 42454 haproxy
usermod --uid 42454 --gid 42454 haproxy
# The databases that the packages made: every member makes its own on its volume.
find /var/lib/mysql /var/lib/rabbitmq /var/lib/openvswitch /var/lib/ovn /etc/openvswitch -mindepth 1 -delete 2> /dev/null || true
install -d -o mysql -g mysql -m 0750 /var/lib/mysql
install -d -o rabbitmq -g rabbitmq -m 0750 /var/lib/rabbitmq /var/log/rabbitmq
install -d -o rabbitmq -g rabbitmq -m 0755 /etc/rabbitmq
install -d -m 0755 /var/lib/openvswitch /var/lib/ovn /etc/openvswitch /etc/ovn /var/log/openvswitch /var/log/ovn
# Debian's wrappers of RabbitMQ's commands want root or su; the commands themselves run as whoever starts them.
# They look for rabbitmq-env beside the path they were called by.
for command in /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/*; do
  ln -sfn "$command" "/usr/sbin/${command##*/}"
done
# libvirt's default network would put a bridge on the node
rm -rf /etc/libvirt/qemu/networks
install -d -m 0755 /etc/libvirt/qemu
# Packages that are only unpacked
for deb in /run/build/unpacked/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C / --wildcards './usr/share/novnc'; done
ln -sfn vnc.html /usr/share/novnc/index.html
# Whoever a container runs as stays that user: no file gives another one's rights.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
rm -f /etc/machine-id /var/lib/dbus/machine-id
: > /etc/machine-id
rm -rf /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*.log /var/log/apt /var/log/mysql/*
# Binaries that the services start by these paths
for program in /usr/sbin/rabbitmq-server /usr/sbin/rabbitmqctl /usr/sbin/mariadbd /usr/bin/memcached /usr/bin/ovn-northd /usr/sbin/ovsdb-server \
  /usr/sbin/ovs-vswitchd /usr/bin/ovn-controller /usr/sbin/libvirtd /usr/bin/qemu-system-x86_64 /usr/sbin/haproxy; do
  [ -x "$program" ] || { echo "$program is missing" >&2; exit 1; }
done
