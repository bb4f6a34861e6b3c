#!/usr/bin/env bash
# The last lines of `make test`: how many tests ran on stock kernels, and a table of at most ten lines that says what was skipped and
# which command brings it. Reads the lines that the harness of the tests leaves (tests/harness): ran or skips, the kernel or what is
# missing, the test.
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
    echo "skipped for want of something: none"
    exit
fi
echo "skipped for want of something: $skipped tests"
lines skips | cut -f 2 | sort | uniq -c | sort -k 1,1nr -k 2 | awk -v rows="$ROWS" '
    { count = $1; sub(/^ *[0-9]+ /, ""); at = index($0, ": "); what = substr($0, 1, at - 1); how = substr($0, at + 2) }
    NR <= rows { printf "  %4d  %-32s %s\n", count, what, how; next }
    { more += count; kinds++ }
    END { if (kinds) printf "  %4d  %d more\n", more, kinds }'
echo "make images brings every kernel that apt has; TRAPLINE_IMAGES names folders with others"
