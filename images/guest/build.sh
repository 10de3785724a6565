#!/bin/sh
# Runs inside the build tools; /run/build/debs holds the packages, /run/build/layer/guest.qcow2 is the result.
# A bootable FAT disk with kernel and initramfs: no root file system, so it boots in seconds without KVM.
set -eu
recipe=/run/build/recipe
cd /tmp
for deb in /run/build/debs/*.deb; do
  dpkg-deb -x "$deb" unpacked
done
kernel=$(basename "$(echo unpacked/usr/lib/modules/*)")
modules=unpacked/usr/lib/modules/$kernel/kernel

mkdir -p root/proc root/sys root/dev root/tmp root/bin root/etc/dropbear root/lib/modules root/lib64 root/lib/x86_64-linux-gnu \
  root/usr/local root/home/guest root/root root/var
cp -r $recipe/bin root/usr/local/bin
cp $recipe/init root/init
cp unpacked/usr/bin/busybox root/bin/busybox
ln -s busybox root/bin/sh
cp unpacked/usr/sbin/dropbear unpacked/usr/bin/dropbearkey root/usr/local/bin/
for library in libtomcrypt.so.1 libtommath.so.1 libz.so.1 libcrypt.so.1 libc.so.6 libgmp.so.10; do
  cp -L "$(find unpacked -name $library | head -n 1)" root/lib/x86_64-linux-gnu/$library
done
cp -L "$(find unpacked -name ld-linux-x86-64.so.2 | head -n 1)" root/lib64/
for module in net/core/failover drivers/net/net_failover drivers/net/virtio_net drivers/block/virtio_blk drivers/char/hw_random/virtio-rng \
  drivers/acpi/button drivers/input/evdev drivers/scsi/scsi_common drivers/scsi/scsi_mod drivers/ata/libata drivers/ata/ata_piix \
  drivers/ata/libahci drivers/ata/ahci drivers/cdrom/cdrom drivers/scsi/sr_mod fs/isofs/isofs fs/fat/fat fs/fat/vfat fs/nls/nls_cp437 \
  fs/nls/nls_ascii; do
  xz -dc "$modules/$module.ko.xz" > "root/lib/modules/${module##*/}.ko"
done
printf 'root:x:0:0:root:/root:/bin/sh\nguest:x:0:0:guest:/home/guest:/bin/sh\n' > root/etc/passwd
printf 'root:x:0:\n' > root/etc/group
printf 'root:*:1:::::::\nguest:*:1:::::::\n' > root/etc/shadow
echo /bin/sh > root/etc/shells
printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n' > root/etc/nsswitch.conf
echo '127.0.0.1 localhost' > root/etc/hosts
chown -R 0:0 root
(cd root && find . | cpio -o -H newc --quiet) | zstd -q -19 > initrd.zst
cp "unpacked/boot/vmlinuz-$kernel" vmlinuz

megabytes=$((($(stat -c %s vmlinuz) + $(stat -c %s initrd.zst)) / 1048576 + 3))
truncate -s ${megabytes}M disk.img
mkfs.vfat -n GUEST disk.img > /dev/null
cat > syslinux.cfg <<'CFG'
DEFAULT guest
PROMPT 0
TIMEOUT 0
LABEL guest
 KERNEL vmlinuz
 INITRD initrd.zst
 APPEND console=ttyS0 quiet mitigations=off no_timer_check nokaslr random.trust_cpu=on
CFG
mcopy -i disk.img vmlinuz initrd.zst syslinux.cfg ::
syslinux -i disk.img
qemu-img convert -c -O qcow2 disk.img /run/build/layer/guest.qcow2
