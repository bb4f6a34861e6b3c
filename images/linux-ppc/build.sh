#!/bin/sh
# Builds Linux for 32-bit PowerPC and its busybox from Debian 12's source packages: build.sh FOLDER.
# FOLDER gets the layout of the cache of `trapline images pull`. To use it: TRAPLINE_IMAGES=FOLDER trapline run linux/ppc
# Needs gcc-powerpc-linux-gnu, make, flex, bison, bc, xz-utils, bzip2 and 2 GB; takes some minutes. See README.md.
set -eu
export LC_ALL=C KBUILD_BUILD_USER=trapline KBUILD_BUILD_HOST=trapline KBUILD_BUILD_TIMESTAMP='2026-01-01'

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: build.sh FOLDER}
jobs=${JOBS:-$(nproc)}
cross=powerpc-linux-gnu-
mirror=${TRAPLINE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
for tool in "${cross}gcc" make flex bison bc xz bzip2 apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || { echo "build.sh: \`$tool\` is not installed" >&2; exit 2; }
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$folder/.build-linux-ppc
mkdir -p "$work/lists/partial" "$work/packages" "$work/linux" "$work/busybox" "$work/libc"

# Download packages and sources with the computer's apt, as an ordinary user.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
: >"$work/status"
cat >"$work/sources.list" <<END
deb [signed-by=$keys arch=all] $mirror bookworm main
deb-src [signed-by=$keys] $mirror bookworm main
END
(
    cd "$work/packages"
    apt() {
        apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists" \
            -o "Dir::State::status=$work/status" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
    }
    apt update
    apt download linux-source-6.1:all libc6-powerpc-cross:all libc6-dev-powerpc-cross:all linux-libc-dev-powerpc-cross:all
    apt source --download-only busybox
)
for package in "$work"/packages/libc6-*.deb "$work"/packages/linux-libc-dev-*.deb; do
    dpkg-deb -x "$package" "$work/libc"
done
dpkg-deb --fsys-tarfile "$work"/packages/linux-source-6.1_*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz |
    tar -xJ -C "$work/linux" --strip-components=1
tar -xj -C "$work/busybox" --strip-components=1 -f "$work"/packages/busybox_*.orig.tar.bz2

# The kernel: options that are not in linux.config are off.
cd "$work/linux"
KCONFIG_ALLCONFIG=$here/linux.config make -s ARCH=powerpc CROSS_COMPILE=$cross allnoconfig
while read -r line; do
    grep -qxF "$line" .config || { echo "build.sh: this Linux does not accept $line" >&2; exit 1; }
done <"$here/linux.config"
make -s -j "$jobs" ARCH=powerpc CROSS_COMPILE=$cross vmlinux modules
release=$(make -s ARCH=powerpc CROSS_COMPILE=$cross kernelrelease)

# Busybox, statically linked.
cd "$work/busybox"
make -s allnoconfig >/dev/null
while read -r option; do
    sed -i "s/^# $option is not set/$option=y/" .config
done <"$here/busybox.config"
yes '' | make -s oldconfig >/dev/null || true
libc=$work/libc/usr/powerpc-linux-gnu
make -s -j "$jobs" CROSS_COMPILE=$cross EXTRA_CFLAGS="-isystem $libc/include" EXTRA_LDFLAGS="-B$libc/lib -L$libc/lib" busybox

mkdir -p "$folder/$release/modules" "$folder/busybox"
find "$work/linux" -name '*.ko' -exec cp {} "$folder/$release/modules" \;
cp "$work/busybox/busybox" "$folder/busybox/busybox-powerpc"
cp "$work/linux/vmlinux" "$folder/$release/vmlinux-$release"
rm -rf "$work"
echo "linux/ppc is built. To run it: TRAPLINE_IMAGES=$folder trapline run linux/ppc"
