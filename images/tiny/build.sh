#!/bin/sh
# Builds the tiny kernel: build.sh OUTPUT-FOLDER [x86_64] [i386]. Needs gcc and GNU ld for x86 (Debian: gcc, binutils).
# The same compiler and linker give the same bytes wherever the sources lie: see COMPILER.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUTPUT-FOLDER [x86_64] [i386]}
shift
[ $# -gt 0 ] || set -- x86_64 i386
mkdir -p "$out"
out=$(cd "$out" && pwd)
: "${CC:=gcc}" "${LD:=ld}"

common="-std=gnu11 -O2 -Wall -Wextra -Werror -Wno-cast-function-type -ffreestanding -nostdinc
 -fno-pic -fno-pie -fno-stack-protector
 -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-strict-aliasing -fno-common -fno-builtin -fno-ident -g0
 -fcf-protection=none -fjump-tables -fomit-frame-pointer -fno-tree-loop-distribute-patterns -fno-tree-vectorize
 -fno-ipa-cp -fno-ipa-sra -fno-ipa-icf -fno-ipa-ra -fno-partial-inlining -fno-reorder-functions -fno-reorder-blocks-and-partition
 -frandom-seed=tiny -mno-sse -mno-mmx -msoft-float"

for arch in "$@"; do
    case $arch in
    x86_64) machine="-m64 -march=x86-64 -mno-red-zone -mcmodel=kernel -mno-80387 -mpreferred-stack-boundary=3"
        emulation=elf_x86_64 format=elf64-x86-64 ;;
    i386) machine="-m32 -march=i686 -mregparm=3 -mno-80387 -mpreferred-stack-boundary=2"
        emulation=elf_i386 format=elf32-i386 ;;
    *) echo "build.sh: no such architecture: $arch (x86_64, i386)" >&2; exit 2 ;;
    esac
    includes="-Ikernel -Ix86 -I$arch"
    objects=$out/$arch.o
    rm -rf "$objects"
    mkdir -p "$objects"
    # Relative names throughout, so that nothing of the path gets into the result. The order of this list is the order in memory.
    cd "$here"
    list=
    for source in $arch/head.S $arch/entry.S x86/traps.c x86/cpu.c x86/process.c x86/mmu.c x86/zoo.S kernel/main.c kernel/sched.c \
        kernel/fork.c kernel/mm.c kernel/uaccess.c kernel/syscall.c kernel/fs.c kernel/net.c kernel/threads.c kernel/work.c \
        kernel/probes.c kernel/print.c kernel/string.c kernel/user.c; do
        name=$(basename "${source%.*}").o
        $CC $common $machine $includes -Wa,--noexecstack -c "$source" -o "$objects/$name"
        list="$list $name"
    done
    $CC -E -P -x c $includes -D ELF_FORMAT=$format x86/tiny.lds.S -o "$objects/tiny.lds"
    cd "$objects"
    $LD -m $emulation -static -nostdlib --build-id=none -z max-page-size=4096 -z noexecstack --fatal-warnings \
        -T tiny.lds $list -o "$out/tiny-$arch.elf"
    cd "$out"
    rm -rf "$objects"
done
