#!/usr/bin/env bash
# Builds a C compiler for IA-64, which Debian has no package of, from Debian's source of gcc 12: scripts/ia64-gcc.sh FOLDER [JOBS]
#
# Needs the packages gcc-12-source, binutils-ia64-linux-gnu, libgmp-dev, libmpfr-dev, libmpc-dev, flex, bison, gawk, make and g++, 1 GB of
# disk, and 11 minutes on one core. FOLDER/bin then has ia64-linux-gnu-gcc, which compiles C without headers and without libgcc. To build
# the tiny kernel with it: PATH=FOLDER/bin:$PATH images/tiny/build.sh OUTPUT-FOLDER ia64
set -euo pipefail

[[ $# -ge 1 ]] || {
    sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}
jobs=${2:-1}
mkdir -p "$1/bin" "$1/build"
cd "$1"
folder=$PWD

for needed in /usr/src/gcc-12/gcc-12.2.0-dfsg.tar.xz /usr/include/gmp.h /usr/include/mpfr.h /usr/include/mpc.h; do
    [[ -e $needed || -e ${needed/include/include\/x86_64-linux-gnu} ]] || {
        echo "ia64-gcc.sh: $needed is missing; install gcc-12-source libgmp-dev libmpfr-dev libmpc-dev" >&2
        exit 1
    }
done

[[ -e source/configure ]] || {
    mkdir -p source
    tar xf /usr/src/gcc-12/gcc-12.2.0-dfsg.tar.xz -C source --strip-components=1 --exclude='*/gcc/testsuite/*' --exclude='*/libgo/*' \
        --exclude='*/gcc/ada/*' --exclude='*/libstdc++-v3/*'
    mkdir -p source/gcc/testsuite/selftests # the makefile asks for the folder
}
cd build
[[ -e Makefile ]] || ../source/configure --quiet --target=ia64-linux-gnu --enable-languages=c --without-headers --with-newlib \
    --disable-shared --disable-threads --disable-multilib --disable-libssp --disable-libquadmath --disable-libgomp --disable-libatomic \
    --disable-libitm --disable-nls --disable-bootstrap --disable-lto --disable-plugin --disable-decimal-float --disable-libvtv \
    --disable-libsanitizer --disable-gcov --disable-libcc1 --with-as=/usr/bin/ia64-linux-gnu-as --with-ld=/usr/bin/ia64-linux-gnu-ld \
    CFLAGS='-O0 -g0' CXXFLAGS='-O0 -g0'
# The make fails at the manual, which Debian's source lacks. All else is built.
make -k -j "$jobs" all-gcc MAKEINFO=true || [[ -x gcc/cc1 && -x gcc/xgcc ]]

printf '#!/bin/sh\nexec %q -B%q "$@"\n' "$folder/build/gcc/xgcc" "$folder/build/gcc/" >../bin/ia64-linux-gnu-gcc
chmod +x ../bin/ia64-linux-gnu-gcc
../bin/ia64-linux-gnu-gcc --version | head -n 1
