#!/usr/bin/env bash
# Measures a boot of each stock kernel without probes, with a probe on every function, and with a return probe on every function.
# Prints a table: the probes, their hits, user times, and the time that compiling the script and arming its probes takes.
#
#   scripts/all-functions.sh [KERNEL...]     default: those of emu/tests/all_functions.rs that are on this computer
#
# Each time is the least user time of three runs (ROUNDS=1: of one). The exit status is 1 if a command fails, if arming takes 2 s or more, or if a
# run takes 3 times the boot's time or more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
trapline=${TRAPLINE:-${CARGO_TARGET_DIR:-target}/debug/trapline}
ROUNDS=${ROUNDS:-3} MOST_ARMING=2 MOST_TIMES=3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'echo hello; ls / | wc -l; exit 0' >"$folder/work.sh"

# The least user time of a command in seconds; its output is in $folder/out.
user_time() {
    local round least='' took
    for ((round = 0; round < ROUNDS; round++)); do
        took=$({ TIMEFORMAT=%U; time "$@" >"$folder/out" 2>"$folder/err"; } 2>&1) || {
            cat "$folder/err" >&2
            return 1
        }
        least=$(awk -v a="$took" -v b="${least:-$took}" 'BEGIN { print a < b ? a : b }')
    done
    echo "$least"
}

status=0
kernels=("$@")
if [[ ${#kernels[@]} -eq 0 ]]; then
    mapfile -t kernels < <(sed -nE 's|^    "(debian/[^"]*)",$|\1|p' emu/tests/all_functions.rs)
fi
echo '| kernel | boot | probes | probes | hits | user time | times | arming |'
echo '|---|---|---|---|---|---|---|---|'
for kernel in "${kernels[@]}"; do
    if ! "$trapline" images list --json | grep -F "\"name\":\"$kernel\"" | grep -q '"versions":\["'; then
        echo "$kernel is not on this computer: trapline images pull $kernel" >&2
        continue
    fi
    boot=$(user_time "$trapline" run "$kernel" --quiet --script "$folder/work.sh")
    start=$(user_time "$trapline" run "$kernel" --quiet --script "$folder/work.sh" --until 1us)
    for kind in kprobe kretprobe; do
        program="$kind:* { @[func] = count(); }"
        whole=$(user_time "$trapline" trace "$kernel" --script "$folder/work.sh" -e "$program")
        hits=$(sed -nE 's/^@\[.*\]: ([0-9]+)$/\1/p' "$folder/out" | awk '{ sum += $1 } END { print sum + 0 }')
        probes=$(cat "$folder/out" "$folder/err" | sed -nE 's/^Attach(ed|ing) ([0-9,]+) probes.*/\2/p' | head -n 1)
        armed=$(user_time "$trapline" trace "$kernel" --script "$folder/work.sh" -e "$program" --until 1us)
        awk -v kernel="$kernel" -v boot="$boot" -v kind="$kind" -v probes="$probes" -v hits="$hits" -v whole="$whole" \
            -v arming="$(awk -v a="$armed" -v b="$start" 'BEGIN { print a - b }')" -v most="$MOST_ARMING" -v times="$MOST_TIMES" '
            BEGIN {
                printf "| %s | %.2f s | `%s:*` | %s | %d | %.2f s | %.2f | %.2f s |\n",
                    kernel, boot, kind, probes, hits, whole, whole / boot, arming
                exit arming >= most || whole >= times * boot
            }' || status=1
    done
done
exit "$status"
