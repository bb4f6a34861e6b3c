#!/bin/sh
# Builds the embedded kernels into prebuilt/ and records the tools in COMPILER. Run it after each change of the sources.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/build.sh" "$here/prebuilt" x86_64 i386 arm64 arm thumb2 ppc64le ppc64 ppc mips mipsel mips64 mips64el s390x sparc64 riscv64 riscv32
chmod 644 "$here"/prebuilt/*.elf
for prefix in '' aarch64-linux-gnu- arm-linux-gnueabihf- powerpc64le-linux-gnu- powerpc64-linux-gnu- powerpc-linux-gnu- mips-linux-gnu- mipsel-linux-gnu- \
    mips64-linux-gnuabi64- mips64el-linux-gnuabi64- s390x-linux-gnu- sparc64-linux-gnu- riscv64-linux-gnu-; do
    "${prefix}gcc" --version | head -n 1
    "${prefix}ld" --version | head -n 1
done >"$here/COMPILER"
