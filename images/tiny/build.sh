#!/bin/sh
# Builds the tiny kernel: build.sh OUTPUT-FOLDER [x86_64] [i386] [arm] [thumb2] [arm64] [ppc64le] [ppc64] [ppc] [mips] [mipsel] [mips64] [mips64el] [s390x] [sparc64] [riscv64] [riscv32]; by default all whose compiler is installed.
# Needs gcc and GNU ld for each (Debian: gcc, binutils, gcc-arm-linux-gnueabihf, gcc-aarch64-linux-gnu, gcc-powerpc64le-linux-gnu, gcc-powerpc64-linux-gnu, gcc-powerpc-linux-gnu,
# gcc-mips-linux-gnu, gcc-mipsel-linux-gnu, gcc-mips64-linux-gnuabi64, gcc-mips64el-linux-gnuabi64, gcc-s390x-linux-gnu,
# gcc-sparc64-linux-gnu, gcc-riscv64-linux-gnu).
# The same compiler and linker give the same bytes in any folder: see COMPILER.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUTPUT-FOLDER [x86_64] [i386] [arm] [thumb2] [arm64] [ppc64le] [ppc64] [ppc] [mips] [mipsel] [mips64] [mips64el] [s390x] [sparc64] [riscv64] [riscv32]}
shift
if [ $# -eq 0 ]; then
    set -- x86_64 i386
    command -v arm-linux-gnueabihf-gcc >/dev/null && set -- "$@" arm thumb2
    command -v aarch64-linux-gnu-gcc >/dev/null && set -- "$@" arm64
    command -v powerpc64le-linux-gnu-gcc >/dev/null && set -- "$@" ppc64le
    command -v powerpc64-linux-gnu-gcc >/dev/null && set -- "$@" ppc64
    command -v powerpc-linux-gnu-gcc >/dev/null && set -- "$@" ppc
    command -v mips-linux-gnu-gcc >/dev/null && set -- "$@" mips
    command -v mipsel-linux-gnu-gcc >/dev/null && set -- "$@" mipsel
    command -v mips64-linux-gnuabi64-gcc >/dev/null && set -- "$@" mips64
    command -v mips64el-linux-gnuabi64-gcc >/dev/null && set -- "$@" mips64el
    command -v s390x-linux-gnu-gcc >/dev/null && set -- "$@" s390x
    command -v sparc64-linux-gnu-gcc >/dev/null && set -- "$@" sparc64
    command -v riscv64-linux-gnu-gcc >/dev/null && set -- "$@" riscv64 riscv32
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)

common="-std=gnu11 -O2 -Wall -Wextra -Werror -Wno-cast-function-type -ffreestanding -nostdinc
 -fno-pic -fno-pie -fno-stack-protector
 -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-strict-aliasing -fno-common -fno-builtin -fno-ident -g0
 -fjump-tables -fomit-frame-pointer -fno-tree-loop-distribute-patterns -fno-tree-vectorize
 -fno-ipa-cp -fno-ipa-sra -fno-ipa-icf -fno-ipa-ra -fno-partial-inlining -fno-reorder-functions -fno-reorder-blocks-and-partition
 -frandom-seed=tiny"
x86="-fcf-protection=none -mno-sse -mno-mmx -msoft-float -mno-80387"
# No jump tables: in T32 code they are data inside functions, which makes a decoder lose the instruction boundaries.
arm="-fno-jump-tables -fno-section-anchors -march=armv7-a -mfloat-abi=soft -mgeneral-regs-only -masm-syntax-unified"

ppc32="-mcpu=750 -msoft-float -msdata=none -fno-section-anchors -Wa,-mregnames"
ppc="-mcpu=power9 -mno-vsx -mno-altivec -msoft-float -mcmodel=medium -ffixed-r13 -fno-section-anchors -mtraceback=no -Wa,-mregnames"

mips="-mno-abicalls -G0 -msoft-float -mno-micromips -mbranch-likely -mno-explicit-relocs"

# Packed stack frames with a back chain, as Linux has them.
z="-m64 -march=z10 -msoft-float -mbackchain -mpacked-stack -fno-section-anchors"

# No jump tables: they would be data inside functions.
sparc="-m64 -mcpu=ultrasparc -mcmodel=medlow -mno-fpu -mno-app-regs -fno-jump-tables"

# No section of small data: the linker script has none.
riscv="-mcmodel=medany -msmall-data-limit=0"

for arch in "$@"; do
    prefix='' shared=mmio folder=$arch library= width=
    case $arch in
    x86_64) machine="$x86 -m64 -march=x86-64 -mno-red-zone -mcmodel=kernel -mpreferred-stack-boundary=3"
        emulation=elf_x86_64 format=elf64-x86-64 shared=x86 ;;
    i386) machine="$x86 -m32 -march=i686 -mregparm=3 -mpreferred-stack-boundary=2"
        emulation=elf_i386 format=elf32-i386 shared=x86 ;;
    arm) machine="$arm -marm" prefix=arm-linux-gnueabihf- library=arm/divide.S
        emulation=armelf_linux_eabi format=elf32-littlearm ;;
    thumb2) machine="$arm -mthumb" prefix=arm-linux-gnueabihf- folder=arm library=arm/divide.S
        emulation=armelf_linux_eabi format=elf32-littlearm ;;
    arm64) machine="-march=armv8-a+crc -mgeneral-regs-only -mno-outline-atomics -mbranch-protection=none" prefix=aarch64-linux-gnu-
        emulation=aarch64linux format=elf64-littleaarch64 ;;
    ppc64le) machine="$ppc -mabi=elfv2" prefix=powerpc64le-linux-gnu- folder=ppc64 emulation=elf64lppc format=elf64-powerpcle ;;
    ppc64) machine="$ppc -mabi=elfv1" prefix=powerpc64-linux-gnu- emulation=elf64ppc format=elf64-powerpc ;;
    ppc) machine="$ppc32" prefix=powerpc-linux-gnu- library=ppc/shift.S emulation=elf32ppclinux format=elf32-powerpc ;;
    mips | mipsel) machine="$mips -mabi=32 -march=mips32r2" prefix=$arch-linux-gnu- folder=mips library=mips/shift.S ;;
    mips64 | mips64el) machine="$mips -mabi=64 -march=mips64r2 -msym32" prefix=$arch-linux-gnuabi64- folder=mips ;;
    sparc64) machine="$sparc" prefix=sparc64-linux-gnu- emulation=elf64_sparc format=elf64-sparc ;;
    riscv64) machine="-march=rv64imac_zicsr_zifencei -mabi=lp64 $riscv" prefix=riscv64-linux-gnu- folder=riscv
        emulation=elf64lriscv format=elf64-littleriscv ;;
    riscv32) width='-march=rv32imac -mabi=ilp32' machine="-march=rv32imac_zicsr_zifencei -mabi=ilp32 $riscv" prefix=riscv64-linux-gnu- folder=riscv
        emulation=elf32lriscv format=elf32-littleriscv ;;
    s390x) machine="$z" prefix=s390x-linux-gnu- emulation=elf64_s390 format=elf64-s390 ;;
    *) echo "build.sh: no such architecture: $arch (x86_64, i386, arm, thumb2, arm64, ppc64le, ppc64, ppc, mips, mipsel, mips64, mips64el, s390x, sparc64, riscv64, riscv32)" >&2; exit 2 ;;
    esac
    case $arch in
    mips) emulation=elf32btsmip format=elf32-tradbigmips ;;
    mipsel) emulation=elf32ltsmip format=elf32-tradlittlemips ;;
    mips64) emulation=elf64btsmip format=elf64-tradbigmips ;;
    mips64el) emulation=elf64ltsmip format=elf64-tradlittlemips ;;
    esac
    cc=${CC:-${prefix}gcc} ld=${LD:-${prefix}ld}
    includes="-Ikernel -I$shared -I$folder"
    zoo=$shared/zoo.S
    [ -e "$here/$zoo" ] || zoo=$folder/zoo.S
    mmu=$folder/mmu.c
    [ -e "$here/$mmu" ] || mmu=$shared/mmu.c
    objects=$out/$arch.o
    rm -rf "$objects"
    mkdir -p "$objects"
    # Relative names only, so that the path does not get into the result. The order of this list is the order in memory.
    cd "$here"
    list=
    for source in $folder/head.S $folder/entry.S $shared/traps.c $shared/cpu.c $shared/process.c $mmu $zoo \
        kernel/main.c kernel/sched.c kernel/fork.c kernel/mm.c kernel/uaccess.c kernel/syscall.c kernel/fs.c kernel/net.c \
        kernel/threads.c kernel/work.c kernel/probes.c kernel/print.c kernel/string.c kernel/user.c $library; do
        name=$(basename "${source%.*}").o
        input=$source
        case $folder/$source in
        ppc64/kernel/user.c)
            # Programs have no TOC: replace TOC-relative references by absolute 32-bit addresses.
            input=$objects/user.s
            $cc $common $machine $includes -S "$source" -o - |
                sed -e 's/,2,\(.*\)@toc@ha$/,0,\1@ha/' -e 's/@toc@l\>/@l/' -e '/\.TOC\.-/d' >"$input" ;;
        esac
        flat=
        case $folder/$source in
        # Programs use a single register window, which the kernel saves with the other registers.
        sparc64/kernel/user.c) flat=-mflat ;;
        esac
        $cc $common $machine $flat $includes -Wa,--noexecstack -c "$input" -o "$objects/$name"
        list="$list $name"
    done
    $cc $width -E -P -x c -Usparc -Upowerpc $includes -D ELF_FORMAT=$format kernel/tiny.lds.S -o "$objects/tiny.lds"
    cd "$objects"
    $ld -m $emulation -static -nostdlib --build-id=none -z max-page-size=4096 -z noexecstack --fatal-warnings \
        -T tiny.lds $list -o "$out/tiny-$arch.elf"
    cd "$out"
    rm -rf "$objects"
done
