#!/usr/bin/env bash
# Builds a small kernel of your own from Debian's sources, for one CPU where the ISA can, to try trapline on it.
#
#   scripts/own-kernel.sh ISA FOLDER [SOURCES]
#
# ISA is amd64, i386, arm64, armhf, ppc64el, s390x, riscv64, mipsel or mips64el. FOLDER gets RELEASE/vmlinuz-RELEASE, the file to boot,
# RELEASE/vmlinux-RELEASE with its symbols, RELEASE/System.map and RELEASE/config. SOURCES is a tarball or its unpacked
# tree; without it that of Debian's package linux-source-6.1, 6.12 or 7.2, the newest that is installed. amd64 and i386 get what finds faults: lockdep,
# the function tracer, and KASAN on amd64; PLAIN=1 leaves that away.
# Needs: apt-get install linux-source-6.1 make flex bison bc libelf-dev xz-utils and the compiler that the script names, and
# 3 GiB in TMPDIR. JOBS says how many compilers run at a time. CONFIG names files of more lines for the configuration, separated
# by blanks; LOCALVERSION ends the release's name (-own). LLVM=-16 builds by clang 16, for kCFI and LTO.
# For big-endian MIPS and 32-bit PowerPC see images/linux-mips/build.sh and images/linux-ppc/build.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../images/own-kernel" && pwd)
usage() { sed -n '4,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
fail() { echo "$1" >&2; exit 1; }
[[ $# -eq 2 || $# -eq 3 ]] || usage
family=$1 debug=""
# The kernel's name of the ISA, the prefix of the cross compiler, what is built, and the file to boot.
case $family in
    amd64) row=(x86_64 x86_64-linux-gnu- bzImage arch/x86/boot/bzImage) debug=$here/debug.config ;;
    i386) row=(i386 x86_64-linux-gnu- bzImage arch/x86/boot/bzImage) debug=$here/debug.config ;;
    arm64) row=(arm64 aarch64-linux-gnu- Image arch/arm64/boot/Image) ;;
    armhf) row=(arm arm-linux-gnueabihf- zImage arch/arm/boot/zImage) ;;
    ppc64el) row=(powerpc powerpc64le-linux-gnu- vmlinux vmlinux) ;;
    s390x) row=(s390 s390x-linux-gnu- bzImage arch/s390/boot/bzImage) ;;
    riscv64) row=(riscv riscv64-linux-gnu- Image arch/riscv/boot/Image) ;;
    mipsel) row=(mips mipsel-linux-gnu- vmlinux vmlinux) ;;
    mips64el) row=(mips mips64el-linux-gnuabi64- vmlinux vmlinux) ;;
    *) usage ;;
esac
export ARCH=${row[0]} CROSS_COMPILE=${row[1]} KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=trapline KBUILD_BUILD_HOST=trapline
target=${row[2]} file=${row[3]} compiler=${row[1]}gcc
if [[ -n ${LLVM:-} ]]; then compiler=clang${LLVM#1}; unset CROSS_COMPILE; export LLVM; fi
[[ -z ${PLAIN:-} ]] || debug=""
mkdir -p "$2"
folder=$(cd "$2" && pwd)
for tool in "$compiler" make flex bison bc xz; do
    command -v "$tool" >/dev/null || fail "$tool is missing; the first lines of this script say what to install, and $compiler is in the package $(sed 's/-$//; s/^/gcc-/' <<<"${row[1]}" | sed 's/_/-/')"
done
sources=${3:-$(find /usr/src -maxdepth 1 -name 'linux-source-*.tar.xz' 2>/dev/null | sort -V | tail -n 1)}
[[ -e $sources ]] || fail "no sources of Linux are there: apt-get install linux-source-6.1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/out"
tree=$sources
if [[ ! -d $tree ]]; then
    tree=$work/source
    mkdir "$tree"
    tar xf "$sources" -C "$tree" --strip-components=1
fi
make -s -C "$tree" O="$work/out" tinyconfig >/dev/null 2>&1
cd "$work/out"
read -ra more <<<"${CONFIG:-}"
configs=("$here/common.config" ${debug:+"$debug"} "$here/$family.config" "${more[@]}")
# If two lines set one option, the last counts.
cat "${configs[@]}" | awk '{ name = $0; sub(/^# /, "", name); sub(/[ =].*/, "", name); if (name ~ /^CONFIG_/) { line[name] = $0; if (!(name in at)) { at[name] = ++n; order[n] = name } } } END { for (i = 1; i <= n; i++) print line[order[i]] }' >wanted
[[ -z ${LOCALVERSION:-} ]] || sed -i "s/^CONFIG_LOCALVERSION=.*/CONFIG_LOCALVERSION=\"$LOCALVERSION\"/" wanted
unset LOCALVERSION
cat wanted >>.config
make -s olddefconfig >/dev/null 2>&1
# An option that these sources do not know is reported.
missing=$(grep -vxFf .config wanted | grep -v '^# .* is not set$' || true)
while read -r option; do
    ! grep -q "^$option=" .config || missing+=$'\n'"# $option is not set"
done < <(sed -n 's/^# \(CONFIG_[A-Z0-9_]*\) is not set$/\1/p' wanted)
[[ -z $missing ]] || fail "these sources have no: $missing"
if [[ -n ${CONFIG_ONLY:-} ]]; then exit 0; fi
time make -s -j"${JOBS:-$(nproc)}" "$target"
release=$(make -s kernelrelease)
name=vmlinuz
[[ $file != vmlinux ]] || name=vmlinux
install -D -m 644 "$file" "$folder/$release/$name-$release"
[[ $file == vmlinux ]] || install -m 644 vmlinux "$folder/$release/vmlinux-$release"
install -m 644 System.map "$folder/$release/System.map"
install -m 644 .config "$folder/$release/config"
echo "it is there: $folder/$release/$name-$release"
