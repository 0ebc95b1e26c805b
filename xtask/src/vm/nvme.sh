#!/bin/sh
# Builds the kernel modules that Debian's User Mode Linux lacks, from Debian's source of the same kernel: NVMe over TCP, both ends, with
# authentication. $1 is the system, at the end of mmdebstrap(1).
set -eu
version=$(ls "$1/usr/lib/uml/modules")
work=$1/tmp/kernel
mkdir "$work" && cd "$work"
package=linux-source-${version%.*}
# apt verifies it. A source of another version would give modules that this kernel rejects, or worse, takes.
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q download "$package=$version-*"
# A tenth of the source.
in_source() { for path; do echo "$package/$path"; done; }
in_source Makefile Kbuild Kconfig Documentation/Kconfig arch/um arch/x86 crypto drivers/nvme include kernel/bounds.c kernel/time/timeconst.bc \
  scripts security/selinux/include tools/include tools/scripts '*/Kconfig*' >files
dpkg-deb --fsys-tarfile "$package"_*.deb | tar --extract --to-stdout "./usr/src/$package.tar.xz" | xz --decompress --stdout |
  tar --extract --strip-components=1 --wildcards --files-from=files
chroot "$1" linux.uml --showconfig >.config
# DH groups come along, which change dh_generic.
for option in MULTIPATH=y FABRICS=m TCP=m AUTH=y TARGET=m TARGET_TCP=m TARGET_AUTH=y; do
  echo "CONFIG_NVME_$option" >>.config
done
kernel() { make --silent --jobs="$(nproc)" ARCH=um KBUILD_MODPOST_WARN=1 "$@"; }
kernel olddefconfig
kernel modules_prepare
kernel M=drivers/nvme modules
kernel M=crypto dh_generic.ko
cp --parents drivers/nvme/*/*.ko crypto/dh_generic.ko "$1/usr/lib/uml/modules/$version/kernel"
cd / && rm -r "$work"
chroot "$1" depmod "$version"
