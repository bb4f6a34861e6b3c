#!/bin/sh
# Builds the tiny kernel: build.sh OUTPUT-FOLDER [ISA]... ; by default for all ISAs whose compiler is installed.
# build.sh --list prints the ISAs, build.sh --prefixes the prefixes of their compilers: none for x86; for the others,
# Debian's package gcc-PREFIX installs it.
# The same compiler and linker give the same bytes in any folder: see COMPILER.
set -eu
export LC_ALL=C

# The ISAs, each with the prefix of its gcc and GNU ld.
isas='x86_64= i386= arm64=aarch64-linux-gnu- arm=arm-linux-gnueabihf- thumb2=arm-linux-gnueabihf- ppc64le=powerpc64le-linux-gnu-
 ppc64=powerpc64-linux-gnu- ppc=powerpc-linux-gnu- mips=mips-linux-gnu- mipsel=mipsel-linux-gnu- mips64=mips64-linux-gnuabi64-
 mips64el=mips64el-linux-gnuabi64- s390x=s390x-linux-gnu- sparc64=sparc64-linux-gnu- riscv64=riscv64-linux-gnu-
 riscv32=riscv64-linux-gnu- parisc=hppa-linux-gnu- ia64=ia64-linux-gnu-'

case ${1:-} in
--list) for isa in $isas; do echo "${isa%%=*}"; done; exit ;;
--prefixes) for isa in $isas; do echo "${isa#*=}"; done | awk '!seen[$0]++'; exit ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUTPUT-FOLDER [ISA]..., or build.sh --list}
shift
if [ $# -eq 0 ]; then
    for isa in $isas; do
        command -v "${isa#*=}gcc" >/dev/null && set -- "$@" "${isa%%=*}"
    done
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

parisc="-march=1.1 -mdisable-fpregs -mno-space-regs -mfast-indirect-calls"

# No gp: function pointers are addresses, and programs reach their data. No floating-point registers but those that an exception saves.
ia64="-mno-pic -mno-sdata -mno-inline-int-divide -mfixed-range=f2-f5,f12-f127"

for arch in "$@"; do
    prefix=
    for isa in $isas; do
        [ "${isa%%=*}" != "$arch" ] || prefix=${isa#*=}
    done
    shared=mmio folder=$arch library= width=
    case $arch in
    x86_64) machine="$x86 -m64 -march=x86-64 -mno-red-zone -mcmodel=kernel -mpreferred-stack-boundary=3"
        emulation=elf_x86_64 format=elf64-x86-64 shared=x86 ;;
    i386) machine="$x86 -m32 -march=i686 -mregparm=3 -mpreferred-stack-boundary=2"
        emulation=elf_i386 format=elf32-i386 shared=x86 ;;
    arm) machine="$arm -marm" library=arm/divide.S
        emulation=armelf_linux_eabi format=elf32-littlearm ;;
    thumb2) machine="$arm -mthumb" folder=arm library=arm/divide.S
        emulation=armelf_linux_eabi format=elf32-littlearm ;;
    arm64) machine="-march=armv8-a+crc -mgeneral-regs-only -mno-outline-atomics -mbranch-protection=none"
        emulation=aarch64linux format=elf64-littleaarch64 ;;
    ppc64le) machine="$ppc -mabi=elfv2" folder=ppc64 emulation=elf64lppc format=elf64-powerpcle ;;
    ppc64) machine="$ppc -mabi=elfv1" emulation=elf64ppc format=elf64-powerpc ;;
    ppc) machine="$ppc32" library=ppc/shift.S emulation=elf32ppclinux format=elf32-powerpc ;;
    mips | mipsel) machine="$mips -mabi=32 -march=mips32r2" folder=mips library=mips/shift.S ;;
    mips64 | mips64el) machine="$mips -mabi=64 -march=mips64r2 -msym32" folder=mips ;;
    sparc64) machine="$sparc" emulation=elf64_sparc format=elf64-sparc ;;
    riscv64) machine="-march=rv64imac_zicsr_zifencei -mabi=lp64 $riscv" folder=riscv
        emulation=elf64lriscv format=elf64-littleriscv ;;
    riscv32) width='-march=rv32imac -mabi=ilp32' machine="-march=rv32imac_zicsr_zifencei -mabi=ilp32 $riscv" folder=riscv
        emulation=elf32lriscv format=elf32-littleriscv ;;
    parisc) machine="$parisc" library=parisc/millicode.S emulation=hppalinux format=elf32-hppa-linux ;;
    ia64) machine="$ia64" library=ia64/divide.S emulation=elf64_ia64 format=elf64-ia64-little ;;
    s390x) machine="$z" emulation=elf64_s390 format=elf64-s390 ;;
    *) echo "build.sh: no such ISA: $arch (build.sh --list prints them)" >&2; exit 2 ;;
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
        case $folder/$source in
        parisc/kernel/user.c | ia64/kernel/user.c)
            # Programs cannot call the kernel's library, so they have their own.
            $cc $machine -I$folder -Wa,--noexecstack -c $library -o "$objects/own.o"
            $ld -r "$objects/$name" "$objects/own.o" -o "$objects/both.o"
            "${prefix}objcopy" --wildcard --localize-symbol='$$*' --localize-symbol='__*di3' --localize-symbol='__*si3' \
                "$objects/both.o" "$objects/$name"
            rm "$objects/own.o" "$objects/both.o" ;;
        esac
        list="$list $name"
    done
    $cc $width -E -P -x c -Usparc -Upowerpc -Ulinux $includes -D ELF_FORMAT=$format kernel/tiny.lds.S -o "$objects/tiny.lds"
    cd "$objects"
    $ld -m $emulation -static -nostdlib --build-id=none -z max-page-size=4096 -z noexecstack --fatal-warnings \
        -T tiny.lds $list -o "$out/tiny-$arch.elf"
    cd "$out"
    rm -rf "$objects"
done
