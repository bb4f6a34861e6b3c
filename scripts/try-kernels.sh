#!/usr/bin/env bash
# Boots kernels as a user would, with probes, and prints a row of docs/kernels.md for each.
#
#   scripts/try-kernels.sh [KERNEL...]
#
# KERNEL is a name such as debian/arm64@sid, which is pulled first, or a kernel's file. Without arguments, the script tries the
# newest kernel of each flavour and Debian suite. Five probes are set: at the entry, at the return and in the middle of vfs_read,
# at the timer's function, and at the tracepoint sched_switch if the kernel has types (BTF).
#
# The column task is `right` if the records of `cat` have its name and the pid that it has printed itself. The column moment is
# `right` if all records of the timer's function say that the CPU serves an interrupt. `not known`: the run says that trapline
# does not know this column of this kernel.
# TRAPLINE is the program to run (target/debug/trapline). NO_PULL=1 tries only kernels that are on this computer.
set -uo pipefail
trapline=${TRAPLINE:-target/debug/trapline}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' 'echo "release=$(uname -r)"' 'echo "task=$(cat /proc/self/stat)"' 'sleep 0.1' 'exit 0' >"$work/script.sh"

all() {
    local isa suite
    for isa in $("$trapline" images list --json | grep -oP '"name":"debian/\K[^"@]+'); do
        for suite in bullseye bookworm bookworm-backports trixie trixie-backports sid experimental; do
            echo "debian/$isa@$suite"
        done
    done
}

# Prints the offset (+0x...) of the fifth instruction of vfs_read that may be probed.
middle() {
    "$trapline" disasm "$1" vfs_read 2>/dev/null | awk '$1 ~ /^\+0x/ && !/EINVAL/ { if (++seen == 5) print $1 }'
}

# Prints the number of records of a probe.
count() { grep -ac " $1: " "$work/records"; }

# Boots a kernel and prints its row. A kernel that Debian does not have gets none.
try() {
    local kernel=$1 name=$1 at program switches seconds release task moment why=""
    if [[ -z ${NO_PULL:-} && $kernel == */*@* && ! -f $kernel ]]; then
        if ! "$trapline" images pull "$kernel" >"$work/pull" 2>&1; then
            grep -qE 'has no|no version|No such|not in the archive|does not have' "$work/pull" && return 0
            echo "| $name | not pulled | | | | | | $(grep -m1 '^error' "$work/pull") |"
            return 0
        fi
    fi
    at=$(middle "$kernel")
    switches=""
    # If the tracepoint is refused or ends the guest, the kernel is booted again without it.
    for program in 'tracepoint:sched:sched_switch { @switches = count(); }' 'BEGIN { }'; do
        rm -f "$work/records"
        ( TIMEFORMAT='seconds=%U'
          time timeout 600 "$trapline" trace "$kernel" -e "$program" --event 'p:entry vfs_read' --event 'r:back vfs_read ret=$retval' \
              ${at:+--event "p:middle vfs_read$at"} --event 'p:tick update_process_times' --records "$work/records" \
              --script "$work/script.sh" ) >"$work/out" 2>&1
        if grep -q 'type information\|tracepoint not found' "$work/out"; then switches="no BTF"
        elif grep -q 'cannot be followed' "$work/out"; then switches=refused
        elif [[ $program != BEGIN* ]] && ! grep -aq release= "$work/out"; then switches="the guest dies"
        else break; fi
    done
    release=$(grep -aoP '(?<=release=)[0-9][^ \r]*' "$work/out" | head -n 1)
    seconds=$(grep -aoP '(?<=seconds=)[0-9.]+' "$work/out" | tail -n 1)
    if [[ -z $release ]]; then
        why=$(grep -a -m1 -E '^error|no table|cannot' "$work/out" | cut -c1-160)
        echo "| $name | does not boot | $seconds s | | | | | ${why:-$(tail -n 2 "$work/out" | tr '\n' ' ' | cut -c1-160)} |"
        return 0
    fi
    task=$(grep -aoP '(?<=task=)[0-9]+(?= \(cat\))' "$work/out" | head -n 1)
    if grep -aqE "(^| )cat-$task +\[" "$work/records"; then task=right
    elif grep -aq '^# not known.*TASK-PID' "$work/records"; then task="not known"
    else task=WRONG; fi
    if ! grep -aq ' tick: ' "$work/records"; then moment="no record"
    elif ! grep -a ' tick: ' "$work/records" | grep -avqE '\] [dD].[hHzZ]'; then moment=right
    elif grep -aq '^# not known.*hardirq' "$work/records"; then moment="not known"
    else moment=WRONG; fi
    switches=${switches:-$(grep -aoP '(?<=@switches: )[0-9]+' "$work/out" | tail -n 1)}
    echo "| $release | $name | boots | $seconds s | $(count entry), $(count back), $(count middle), ${switches:-none} | $task | $moment | |"
}

[[ $# -gt 0 ]] || mapfile -t names < <(all)
echo '| release | kernel | ends | user time | hits: entry, return, middle, tracepoint | task | moment | why not |'
echo '|---|---|---|---|---|---|---|---|'
for kernel in "${names[@]:-$@}"; do try "$kernel"; done
