#!/usr/bin/env bash
# Runs the fuzz targets on the stable toolchain, coverage-guided, without a sanitizer (no unsafe code is behind them).
#
#   scripts/fuzz.sh SECONDS [TARGET]...        each target (default: all) that long; a crash ends it. 0: the committed corpora only, and
#                                              of the targets those that need no CPU core, unless they are named
#   scripts/fuzz.sh --keep [TARGET]...         takes of what was found since then what reaches new code into the committed corpora
#
# A run reads fuzz/corpus/TARGET and writes what is new to fuzz/target/corpus/TARGET, so that the tree stays clean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The longest input that makes sense for each target.
declare -A longest=([kprobe_events]=1024 [elf_loader]=4096 [safety_checker]=100 [snapshot_file]=16384 [module]=4096 [script]=2048 [delivery]=1024)
# What it is built with: the CPU core for what drives machines.
declare -A features=([delivery]=machine)

seconds=${1:?how many seconds for each target, or --keep}
shift
targets=("$@")
if [[ $# -eq 0 ]]; then
    mapfile -t targets < <(cargo fuzz list)
    # To build the CPU core once more takes minutes; what is committed for these runs among the tests, too.
    if [[ $seconds == 0 ]]; then
        for target in "${!features[@]}"; do
            mapfile -t targets < <(printf '%s\n' "${targets[@]}" | grep -vx "$target")
        done
    fi
fi

# Coverage comes from LLVM's own pass, which stable rustc runs too, so no nightly is needed.
for target in "${targets[@]}"; do
    kept=fuzz/corpus/$target
    fresh=fuzz/target/corpus/$target
    mkdir -p "$kept" "$fresh"
    # Code of one ISA is short; all else says its length above.
    [[ $target == *_rules ]] && most=64 || most=${longest[$target]:-4096}
    options=(-max_len="$most" -timeout=10 -rss_limit_mb=1024)
    built=(${features[$target]:+--features "${features[$target]}"})
    echo "fuzz: $target ($seconds)"
    case $seconds in
        --keep) cargo fuzz run --sanitizer none "${built[@]}" "$target" "$kept" "$fresh" -- "${options[@]}" -set_cover_merge=1 -use_counters=0 ;;
        0) cargo fuzz run --sanitizer none "${built[@]}" "$target" "$kept" -- "${options[@]}" -runs=0 ;;
        # Stops at the first crash: the input is then in fuzz/artifacts/TARGET, and the message tells how to run it again.
        *) cargo fuzz run --sanitizer none "${built[@]}" "$target" "$fresh" "$kept" -- "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 ;;
    esac
done
