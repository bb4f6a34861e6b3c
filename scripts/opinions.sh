#!/usr/bin/env bash
# Compares our decoders with capstone, yaxpeax and objdump over the whole text of the stock kernels that are found, and
# prints two tables: the instructions, and the classes of those that differ.
#
#   scripts/opinions.sh [FILTER]     FILTER: a part of a test's name, as in `amd64` or `objdump_agrees`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/target/opinions
rm -rf "$folder"
mkdir -p "$folder"
status=0
TRAPLINE_OPINIONS=$folder "${CARGO:-cargo}" nextest run --locked --package trapline-tests --test opinions \
    --no-fail-fast --profile volume ${1:+"$1"} || status=$?
cat "$folder"/*.tsv | awk -F'\t' '
    $1 == "total" { printf "| %s | %s | %d | %d | %d |\n", $2, $3, $4, $5, $4 - $5 }
    $1 == "class" { count[$4] += $5; where[$4] = where[$4] (where[$4] ? ", " : "") $2 " " $3 }
    END {
        print ""
        for (class in count) printf "| %s | %d | %s |\n", class, count[class], where[class] | "sort"
    }'
exit "$status"
