#!/usr/bin/env bash
# Builds the programs of this folder for Debian's ISAs, into prebuilt/. Each is one static file without a C library.
#
#   images/programs/build.sh [ISA...]
#
# Needs Debian's cross compilers: apt-get install gcc gcc-multilib gcc-{aarch64,s390x,powerpc64le,mipsel,riscv64}-linux-gnu
# gcc-arm-linux-gnueabihf gcc-mips64el-linux-gnuabi64 systemtap-sdt-dev
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# The ISA, its compiler with options, and the bytes of the signal frame that hold modes and status (struct ucontext of Linux).
rows='
amd64     176:232 gcc -m64
i386      20:100  gcc -m32
arm64     440:480 aarch64-linux-gnu-gcc
armhf     92:100  arm-linux-gnueabihf-gcc -marm
s390x     40:56   s390x-linux-gnu-gcc
ppc64el   488:504 powerpc64le-linux-gnu-gcc
mipsel    24:40   mipsel-linux-gnu-gcc -G0 -mno-abicalls
mips64el  616:632 mips64el-linux-gnuabi64-gcc -G0 -mno-abicalls
riscv64   688:696 riscv64-linux-gnu-gcc -Wl,--no-relax
mipsn32   -       mips64el-linux-gnuabi64-gcc -mabi=n32 -G0 -mno-abicalls
s390      -       s390x-linux-gnu-gcc -m31
'
mkdir -p prebuilt
while read -r isa control compiler; do
    [[ -n $isa ]] || continue
    [[ $# -eq 0 || " $* " == *" $isa "* ]] || continue
    common=(-O2 -Wall -Wextra -Werror -ffreestanding -nostdlib -static -fno-pic -no-pie -fno-stack-protector
        -fno-asynchronous-unwind-tables -Wl,-e,_start -Wl,--build-id=none -Wl,-z,noexecstack)
    # shellcheck disable=SC2086 # the compiler's options are words
    $compiler "${common[@]}" -idirafter "/usr/include/$(gcc -dumpmachine)" -o "prebuilt/calls-$isa" calls.c
    [[ $control != - ]] || continue
    # shellcheck disable=SC2086
    $compiler "${common[@]}" -DFRAME_BYTES=1024 -DCONTROL_FROM="${control%:*}" -DCONTROL_TO="${control#*:}" -s \
        -o "prebuilt/sigreturn-$isa" sigreturn.c
    # The planted race is for amd64 alone, where the tests of `trapline races` run it.
    # shellcheck disable=SC2086
    [[ $isa != amd64 ]] || $compiler "${common[@]}" -s -o prebuilt/race-amd64 race.c
    # The kernel of riscv64 sums a program's pages under a lock (Linux 6.2 and later).
    # shellcheck disable=SC2086
    [[ $isa != riscv64 ]] || $compiler "${common[@]}" -s -o prebuilt/faults-riscv64 faults.c
done <<<"$rows"
