#!/usr/bin/env bash
# The last line of `make test`: how many tests ran on which stock kernels, how many could not, and why. By the lines that tests leave
# (images/src/tally.rs): ran or lacks, the kernel or what is not there, the test.
#
#   scripts/tally.sh FILE
set -euo pipefail

file=${1:?which file}
lines() { [[ ! -e $file ]] || awk -F '\t' -v kind="$1" '$1 == kind' "$file" | sort -u; }
# Each kernel or reason with how many tests it stands for, the most frequent first.
counted() {
    cut -f 2 | sort | uniq -c | sort -k 1,1nr -k 2 | while read -r count what; do printf '%s%s (%s)' "${between:-}" "$what" "$count" && between="$1"; done
}

ran=$(lines ran | wc -l)
lacked=$(lines lacks | wc -l)
if [[ $ran -eq 0 ]]; then
    printf 'stock kernels: NO test ran on any'
else
    printf 'stock kernels: %s tests ran, on %s' "$ran" "$(lines ran | counted ', ')"
fi
if [[ $lacked -eq 0 ]]; then
    echo '; none was left out'
else
    printf '; %s could not: %s\n' "$lacked" "$(lines lacks | counted '; ')"
fi
