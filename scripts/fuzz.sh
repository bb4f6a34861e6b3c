#!/usr/bin/env bash
# Runs the fuzz targets on the stable toolchain, coverage-guided, without a sanitizer (no unsafe code is behind them).
#
#   scripts/fuzz.sh SECONDS [TARGET]...        runs each target (default: all) that long; a crash ends the script. With 0 it runs the
#                                              committed corpora once, without targets that need the CPU core unless they are named
#   scripts/fuzz.sh --keep [TARGET]...         adds those new inputs to the committed corpora that reach new code
#
# A run reads fuzz/corpus/TARGET and writes new inputs to fuzz/target/corpus/TARGET, so that the source tree stays clean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The maximal input length of each target, in bytes.
declare -A longest=([kprobe_events]=1024 [elf_loader]=4096 [safety_checker]=100 [snapshot_file]=16384 [recording]=4096 [module]=4096 [searches]=4096 [script]=2048 [delivery]=1024 [hostile]=2049)
# Features to build with: targets that run machines need the CPU core.
declare -A features=([delivery]=machine [hostile]=machine)

seconds=${1:?how many seconds for each target, or --keep}
shift
targets=("$@")
if [[ $# -eq 0 ]]; then
    mapfile -t targets < <(cargo fuzz list)
    # Building the CPU core again takes minutes, and the tests already run the corpora of these targets.
    if [[ $seconds == 0 ]]; then
        for target in "${!features[@]}"; do
            mapfile -t targets < <(printf '%s\n' "${targets[@]}" | grep -vx "$target")
        done
    fi
fi

# The CPU core keeps its state in blocks of the C library: those of guests that attack it end at pages that nobody may access.
guard() {
    mkdir -p fuzz/target
    cc -O2 -shared -fPIC -o fuzz/target/guard.so emu/src/unicorn/guard.c
    echo "$PWD/fuzz/target/guard.so"
}

# Coverage comes from an LLVM pass that stable rustc has too, so no nightly is needed.
for target in "${targets[@]}"; do
    kept=fuzz/corpus/$target
    fresh=fuzz/target/corpus/$target
    mkdir -p "$kept" "$fresh"
    # Targets for the code of one ISA need short inputs; the table above has the others.
    [[ $target == *_rules ]] && most=64 || most=${longest[$target]:-4096}
    options=(-max_len="$most" -timeout=10 -rss_limit_mb=1024)
    built=(${features[$target]:+--features "${features[$target]}"})
    with=()
    if [[ -n ${features[$target]:-} ]]; then
        cargo fuzz build --sanitizer none "${built[@]}" "$target"
        with=(env LD_PRELOAD="$(guard)")
    fi
    echo "fuzz: $target ($seconds)"
    case $seconds in
        --keep) "${with[@]}" cargo fuzz run --sanitizer none "${built[@]}" "$target" "$kept" "$fresh" -- "${options[@]}" -set_cover_merge=1 -use_counters=0 ;;
        0) "${with[@]}" cargo fuzz run --sanitizer none "${built[@]}" "$target" "$kept" -- "${options[@]}" -runs=0 ;;
        # Stops at the first crash. The input is then in fuzz/artifacts/TARGET, and the message shows how to repeat it.
        *) "${with[@]}" cargo fuzz run --sanitizer none "${built[@]}" "$target" "$fresh" "$kept" -- "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 ;;
    esac
done
