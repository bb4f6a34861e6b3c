#!/usr/bin/env bash
# Builds `linux/mips` from Debian's sources: a small big-endian Linux for a Malta board, and its busybox. Debian 12 has no
# big-endian MIPS kernel.
#
#   images/linux-mips/build.sh FOLDER        FOLDER: where the result goes; a folder of TRAPLINE_IMAGES, or the cache
#
# Needs: apt-get install linux-source-6.1 gcc-mips-linux-gnu libc6-dev-mips-cross make flex bison bc xz-utils bzip2 patch
# and 2 GiB in TMPDIR. JOBS is the number of parallel compilers.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 1 ]] || { sed -n '5,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)

for tool in mips-linux-gnu-gcc make flex bison bc xz bzip2 patch; do
    command -v "$tool" >/dev/null || { echo "$tool is missing; see the first lines of this script for the packages to install" >&2; exit 1; }
done
sources=/usr/src/linux-source-6.1.tar.xz
[[ -f $sources ]] || { echo "$sources is missing: apt-get install linux-source-6.1" >&2; exit 1; }

export ARCH=mips CROSS_COMPILE=mips-linux-gnu- KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=trapline KBUILD_BUILD_HOST=trapline
jobs=${JOBS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The kernel.
cd "$work"
tar xf "$sources"
cd linux-source-6.1
make -s tinyconfig >/dev/null
cat "$here/config" >>.config
make -s olddefconfig 2>/dev/null
while read -r line; do
    grep -qxF "$line" .config || { echo "these sources do not accept $line" >&2; exit 1; }
done < <(grep '^CONFIG' "$here/config")
make -s -j"$jobs" vmlinux
release=$(make -s kernelrelease)

# Busybox from Debian's sources, configured like Debian's static one. The computer's apt configuration is not changed.
mkdir -p "$work/busybox/lists/partial"
cd "$work/busybox"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${TRAPLINE_DEBIAN_MIRROR:-http://deb.debian.org/debian} bookworm main" >sources.list
apt=(apt-get -q -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists")
"${apt[@]}" update
"${apt[@]}" source --download-only busybox
mkdir source
tar xf busybox_*.orig.tar.* -C source --strip-components=1
tar xf busybox_*.debian.tar.xz -C source
cd source
grep -v -e '^#' -e '^$' debian/patches/series | while read -r patch; do patch -sp1 <"debian/patches/$patch"; done
cp debian/config/pkg/static .config
(yes '' || true) | make -s oldconfig >/dev/null
make -s -j"$jobs" busybox

install -D -m 644 "$work/linux-source-6.1/vmlinux" "$folder/$release/vmlinux-$release"
install -D -m 755 busybox "$folder/busybox/busybox-mips"
echo "linux/mips is built: $folder/$release, $folder/busybox/busybox-mips"
