#!/bin/sh
# Downloads the guest's packages: those of packages.txt and the kernel that the cloud kernel's metapackage names today.
set -eu
cd /run/build/debs
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1)
apt-get -q download "$kernel" $(sed 's/#.*//' /run/build/recipe/packages.txt)
