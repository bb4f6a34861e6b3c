#!/usr/bin/env bash
# Names the functions of Unicorn that our C replaces or imitates, with a checksum of each, and holds docs/core-functions.tsv to them. After a
# change of Unicorn's version it lists the functions to read again (docs/unicorn.md, "How to move to the next version").
#
#   scripts/core-functions.sh            fails with the functions whose text changed, appeared or is gone
#   scripts/core-functions.sh --list     prints the table: file, function, checksum
#   scripts/core-functions.sh FOLDER     the same check for the sources in FOLDER (it contains qemu/ and uc.c)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TABLE=docs/core-functions.tsv PARTS=emu/src/unicorn/translator

# Functions without a row in `target_instead`: translator_loop and what our own parts do in place of the library's.
readonly OTHERS='accel/tcg/translator.c translator_loop
accel/tcg/translator.c translator_loop_temp_check
accel/tcg/tcg-runtime.c HELPER(lookup_tb_ptr)
accel/tcg/cputlb.c load_helper
accel/tcg/cputlb.c store_helper
accel/tcg/cputlb.c victim_tlb_hit
accel/tcg/cputlb.c probe_access
accel/tcg/cputlb.c atomic_mmu_lookup
accel/tcg/cputlb.c tlb_set_page_with_attrs
accel/tcg/cputlb.c tlb_mmu_resize_locked
accel/tcg/translate-all.c tb_invalidate_phys_range
accel/tcg/cpu-exec.c cpu_handle_exception
target/i386/excp_helper.c handle_mmu_fault
target/arm/helper.c get_phys_addr_lpae
target/arm/helper.c aarch64_sync_64_to_32
target/arm/helper.c cpsr_write
target/arm/helper.c dbgbvr_write
target/arm/helper.c dbgbcr_write
target/arm/helper.c dbgwvr_write
target/arm/helper.c dbgwcr_write
target/arm/helper.c hw_breakpoint_update
target/arm/helper.c hw_watchpoint_update
target/arm/debug_helper.c bp_wp_matches
target/riscv/cpu_helper.c get_physical_address
target/riscv/op_helper.c helper_tlb_flush'

sources() {
    local version found
    version=$(awk '/^name = "unicorn-engine-sys"$/ { getline; gsub(/[^0-9.]/, ""); print }' Cargo.lock)
    shopt -s nullglob
    found=("${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/unicorn-engine-sys-"$version")
    [[ ${#found[@]} -gt 0 ]] || {
        echo "core-functions: the sources of unicorn-engine-sys $version are not in cargo's registry: run 'cargo fetch'" >&2
        exit 1
    }
    echo "${found[0]}"
}

# library_folder HOOKS: the folder of Unicorn's sources for a folder of ours.
library_folder() {
    awk 'NR == 1 { print $2 }' "$PARTS/$1/targets"
}

# text FILE FUNCTION: the function's text, from its name to the brace that closes it.
text() {
    awk -v wanted="$2" '
        !inside && /^[A-Za-z_]/ && !/;[ \t]*$/ && index($0, wanted "(") { inside = 1 }
        inside { print }
        inside && /^}/ { exit }' "$1"
}

# replaced: `FILE FUNCTION` of every helper that our C replaces.
replaced() {
    local hooks helper file folder
    for hooks in "$PARTS"/*/; do
        folder=qemu/target/$(library_folder "$(basename "$hooks")")
        for helper in $({ grep -hoE '^ *\{ HELPER\([a-z0-9A-Z_]+\), [a-z]' "$hooks"*.h || true; } | sed -E 's/.*HELPER\((\w+)\).*/\1/' | sort -u); do
            [[ $helper != lookup_tb_ptr ]] || continue
            file=$(grep -lE "^[A-Za-z_].*(helper_$helper|HELPER\($helper\)) *\(" "$library/$folder"/*.c | while read -r candidate; do
                if [[ -n $(text "$candidate" "helper_$helper") || -n $(text "$candidate" "HELPER($helper)") ]]; then echo "$candidate"; fi
            done | head -n 1)
            if [[ -z $file ]]; then
                echo "${folder#qemu/} helper_$helper"
            elif [[ -n $(text "$file" "helper_$helper") ]]; then
                echo "${file#"$library"/qemu/} helper_$helper"
            else
                echo "${file#"$library"/qemu/} HELPER($helper)"
            fi
        done
    done
}

list() {
    local file function body
    { echo "$OTHERS"; replaced; } | LC_ALL=C sort -u | while read -r file function; do
        body=
        [[ ! -f $library/qemu/$file ]] || body=$(text "$library/qemu/$file" "$function")
        if [[ -z $body ]]; then
            printf '%s\t%s\tgone\n' "$file" "$function"
        else
            printf '%s\t%s\t%s\n' "$file" "$function" "$(tr -d ' \t\n' <<<"$body" | sha256sum | cut -c1-16)"
        fi
    done
}

library=
if [[ -n ${1:-} && $1 != --list ]]; then
    library=$1
    [[ -f $library/qemu/accel/tcg/translator.c ]] || {
        echo "core-functions: $library has no qemu/accel/tcg/translator.c: not the sources of Unicorn" >&2
        exit 1
    }
else
    library=$(sources)
fi
if [[ ${1:-} == --list ]]; then
    list
    exit
fi
if ! difference=$(diff <(list) <(grep -v '^#' "$TABLE")); then
    echo "core-functions: read these functions of Unicorn again and change our C where it must; then write the table anew:" >&2
    echo "    { grep '^#' $TABLE; scripts/core-functions.sh --list; } > table && mv table $TABLE" >&2
    echo "<: as Unicorn has it now; >: as $TABLE has it" >&2
    grep '^[<>]' <<<"$difference" >&2
    exit 1
fi
