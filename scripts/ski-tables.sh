#!/usr/bin/env bash
# Records the tables of IA-64 programs and cases from ski, HP's simulator of IA-64: scripts/ski-tables.sh FOLDER [CASES]
#
# Needs the packages git, make, gcc, autoconf, automake, libtool, autoconf-archive, gperf, bison, flex, libncurses-dev, libelf-dev and
# pkg-config, and 100 MB. ski is built in FOLDER/ski, from https://github.com/trofi/ski unless its source is there; one build takes a
# minute, and 1,800 cases take three. ski is GPL-2, and nothing of it enters trapline: the tables have its results only.
# TRAPLINE_SKI=FOLDER/ski/src/bski compares without recording, with as many programs or cases as TRAPLINE_SEEDS says.
set -euo pipefail

[[ $# -ge 1 ]] || {
    sed -n '2,7s/^# \?//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}
commit=dfc2902ea1423d9b32543a5daf8026213f2b37a1
cases=${2:-1800}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ski=$folder/ski/src/bski
[[ -e $folder/ski ]] || git clone --quiet https://github.com/trofi/ski "$folder/ski"
[[ -x $ski ]] || (
    cd "$folder/ski"
    git checkout --quiet "$commit"
    mkdir -p m4
    autoreconf --install --force
    ./configure --without-gtk --without-x11
    make -j "$(nproc)"
) >"$folder/ski.log" 2>&1
built=$(git -C "$folder/ski" rev-parse HEAD)
[[ $built == "$commit" ]] || echo "ski-tables.sh: ski is at $built, the tables at $commit" >&2

# record TEST NAME SEEDS PATTERN: the lines that a test prints while it compares with ski.
record() {
    TRAPLINE_SKI=$ski TRAPLINE_SEEDS=$3 cargo test --quiet --locked --package trapline-core --test "$1" "$2" -- --nocapture >"$folder/out"
    grep -E "$4" "$folder/out"
}
tables=core/tests/ia64
record ia64 random 300 '^[0-9]+ [0-9a-f]{16}$' >"$folder/random.txt"
{
    echo "# Random cases of IA-64 on ski at $commit, by scripts/ski-tables.sh."
    echo "# A line has the seed of the state, the code, the count of executed instructions, and a sum of the output."
    echo "# All instructions of the core are in them, but not what the manual leaves open or ski does in another way: see cases/choice.rs."
    record ia64_cases cases "$cases" '^[0-9]+ [0-9a-f]{128} [0-9]+ [0-9a-f]{16}$'
} >"$folder/cases.txt"
cp "$folder/random.txt" "$folder/cases.txt" "$tables/"
wc "$tables"/{random,cases}.txt
