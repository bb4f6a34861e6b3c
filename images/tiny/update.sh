#!/bin/sh
# Builds the embedded kernels into prebuilt/ and records the tools in COMPILER. Run it after each change of the sources.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
isas=$(sh "$here/build.sh" --list)
# shellcheck disable=SC2086 # the names are words
sh "$here/build.sh" "$here/prebuilt" $isas
chmod 644 "$here"/prebuilt/*.elf
sh "$here/build.sh" --prefixes | while read -r prefix; do
    "${prefix}gcc" --version | head -n 1
    "${prefix}ld" --version | head -n 1
done >"$here/COMPILER"
