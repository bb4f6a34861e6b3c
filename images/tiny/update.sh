#!/bin/sh
# Builds the kernels that the program embeds, and records the tools. Run it after each change of the sources.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/build.sh" "$here/prebuilt"
chmod 644 "$here"/prebuilt/*.elf
{ gcc --version | head -n 1; ld --version | head -n 1; } >"$here/COMPILER"
