#!/usr/bin/env bash
# Builds a kernel for finding faults from Debian's sources: lockdep, the function tracer, checks of lists and sleeping,
# and for amd64 KASAN. It has one CPU and no distribution's configuration, as kernels that engineers build themselves.
#
#   scripts/own-kernel.sh amd64|i386 FOLDER [SOURCES]
#
# FOLDER gets RELEASE/vmlinuz-RELEASE, the file to boot, RELEASE/vmlinux-RELEASE with its symbols, and RELEASE/config.
# SOURCES is a tarball; without it that of Debian's package linux-source-6.1, 6.12 or 7.2, the newest that is installed.
# Needs: apt-get install linux-source-6.1 gcc make flex bison bc libelf-dev xz-utils, and 3 GiB in TMPDIR.
# JOBS says how many compilers run at a time. CONFIG names a file of more lines for the configuration.
# For MIPS and 32-bit PowerPC see images/linux-mips/build.sh and images/linux-ppc/build.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../images/own-kernel" && pwd)
usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
[[ $# -eq 2 || $# -eq 3 ]] || usage
family=$1
case $family in
    amd64) export ARCH=x86_64 ;;
    i386) export ARCH=i386 ;;
    *) usage ;;
esac
mkdir -p "$2"
folder=$(cd "$2" && pwd)
for tool in gcc make flex bison bc xz; do
    command -v "$tool" >/dev/null || { echo "$tool is missing; the first lines of this script say what to install" >&2; exit 1; }
done
sources=${3:-$(find /usr/src -maxdepth 1 -name 'linux-source-*.tar.xz' 2>/dev/null | sort -V | tail -n 1)}
[[ -f $sources ]] || { echo "no sources of Linux are there: apt-get install linux-source-6.1" >&2; exit 1; }

export KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=trapline KBUILD_BUILD_HOST=trapline
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$sources" -C "$work" --strip-components=1
cd "$work"
make -s tinyconfig >/dev/null 2>&1
configs=("$here/common.config" "$here/debug.config" "$here/$family.config" ${CONFIG:+"$CONFIG"})
cat "${configs[@]}" >>.config
make -s olddefconfig >/dev/null 2>&1
# Reports options that these sources do not have, instead of silently dropping them.
missing=$(grep -hE '^(CONFIG|# CONFIG)' "${configs[@]}" | grep -vxFf .config || true)
[[ -z $missing ]] || { printf 'these sources have no:\n%s\n' "$missing" >&2; exit 1; }
if [[ -n ${CONFIG_ONLY:-} ]]; then exit 0; fi
time make -s -j"${JOBS:-$(nproc)}" bzImage
release=$(make -s kernelrelease)
install -D -m 644 arch/x86/boot/bzImage "$folder/$release/vmlinuz-$release"
install -m 644 vmlinux "$folder/$release/vmlinux-$release"
install -m 644 .config "$folder/$release/config"
echo "it is there: $folder/$release/vmlinuz-$release"
