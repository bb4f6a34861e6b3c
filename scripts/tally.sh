#!/usr/bin/env bash
# Prints the last lines of `make test`: how many tests ran on stock kernels, how many were skipped, and which command provides what was
# missing (at most ten lines). FILE is written by the test harness (tests/harness); each line has `ran` or `skips`, the kernel or the
# missing thing, and the test.
#
#   scripts/tally.sh FILE
set -euo pipefail

file=${1:?which file}
readonly ROWS=7
lines() { [[ ! -e $file ]] || awk -F '\t' -v kind="$1" '$1 == kind' "$file" | sort -u; }

# Releases of kernels begin with a digit, tools do not.
on_kernels() { lines ran | awk -F '\t' '$2 ~ /^[0-9]/'; }
ran=$(on_kernels | cut -f 3 | sort -u | wc -l)
kernels=$(on_kernels | cut -f 2 | sort -u | wc -l)
echo "stock kernels: $ran tests ran, on $kernels kernels"

skipped=$(lines skips | cut -f 3 | sort -u | wc -l)
if [[ $skipped -eq 0 ]]; then
    echo "skipped because something was missing: no test"
    exit
fi
echo "skipped because something was missing: $skipped tests"
lines skips | cut -f 2 | sort | uniq -c | sort -k 1,1nr -k 2 | awk -v rows="$ROWS" '
    { count = $1; sub(/^ *[0-9]+ /, ""); at = index($0, ": "); what = substr($0, 1, at - 1); how = substr($0, at + 2) }
    NR <= rows { printf "  %4d  %-32s %s\n", count, what, how; next }
    { more += count; kinds++ }
    END { if (kinds) printf "  %4d  %d more\n", more, kinds }'
echo "make images downloads every kernel that the archive has; TRAPLINE_IMAGES names folders with other kernels"
