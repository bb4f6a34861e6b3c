#!/usr/bin/env bash
# Runs random instructions in place and out of line on all cores, and prints a table: cases, cases per second, and the
# rows of the ISA's table that were compared and that refused a probe.
#
#   scripts/differential.sh CASES [ARCH...]     so many cases for each ISA (default: all that the lab compares)
#
# A difference is reduced by proptest, kept in tests/proptest-regressions, and run first the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cases=${1:?the number of cases for each ISA}
shift
folder=$PWD/target/volume
rm -rf "$folder"
mkdir -p "$folder"
filter='binary(differential) & ('
if (($#)); then
    for arch; do filter+="test(/^random_.*::${arch}_[0-9]+\$/) | "; done
    filter+='none())'
else
    filter+='test(/^random_/))'
fi
status=0
PROPTEST_CASES=$cases TRAPLINE_VOLUME=$folder "${CARGO:-cargo}" nextest run --locked --package trapline-tests --test differential \
    --no-fail-fast --profile volume -E "$filter" || status=$?
cat "$folder"/*.tsv | awk -F'\t' '
    $1 == "part" { compared[$2] += $3; left[$2] += $4; seconds[$2] += $5; rows[$2] = $6 }
    $1 == "row" && $3 != "none" { ran[$2, $3] = 1 }
    $1 == "refused" { refused[$2, $3] = 1 }
    END {
        printf "%-10s %12s %12s %14s %14s %14s %6s\n", "ISA", "compared", "left out", "a second/core", "rows compared", "rows refused", "rows"
        for (key in ran) { split(key, of, SUBSEP); of_ran[of[1]]++ }
        for (key in refused) if (!(key in ran)) { split(key, of, SUBSEP); of_refused[of[1]]++ }
        for (isa in compared)
            printf "%-10s %12d %12d %14.0f %14d %14d %6d\n", isa, compared[isa], left[isa], compared[isa] / (seconds[isa] ? seconds[isa] : 1), of_ran[isa], of_refused[isa], rows[isa] | "sort"
    }'
exit "$status"
