#!/usr/bin/env bash
# Holds the three floors apart: arrows only point down, and nothing under the GPL or with an emulator in it gets below the machine.
#
#   isa     depends on nothing of ours            no GPL, no Unicorn, no_std, no unsafe
#   probes  depends on isa and nothing else       the same
#   emu     depends on both; only it has Unicorn, and without its feature `cpu` not even it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
fail() {
    echo "check-floors: $*" >&2
    failed=1
}

# tree PACKAGE [FLAG]...: what PACKAGE is built from, one `name licence` a line, itself included.
tree() {
    cargo tree --locked --edges normal,build --prefix none --format '{p} {l}' --package "$@" | sed -E 's/ v[0-9][^ ]*//; s/ \((\/|proc-macro)[^)]*\)//g; s/ \(\*\)$//' | sort -u
}

# expect_ours PACKAGE ALLOWED...: of our own crates it may depend on these alone.
expect_ours() {
    local package=$1 built_from name
    shift
    built_from=$(tree "$package")
    while read -r name _; do
        [[ " $package $* " == *" $name "* ]] || fail "$package depends on $name; it may depend on: ${*:-none of our crates}"
    done < <(grep '^trapline' <<<"$built_from")
}

# forbid PACKAGE PATTERN WHY [FLAG]...: nothing that it is built from matches.
forbid() {
    local package=$1 pattern=$2 why=$3 built_from found
    shift 3
    built_from=$(tree "$package" "$@")
    found=$(grep -iE "$pattern" <<<"$built_from" || true)
    [[ -z $found ]] || fail "$package $why: $found"
}

expect_ours trapline-isa
expect_ours trapline-probes trapline-isa
expect_ours trapline-images
expect_ours trapline trapline-isa trapline-probes trapline-images

for package in trapline-isa trapline-probes; do
    forbid "$package" 'GPL' "is MIT OR Apache-2.0 and must not be built from a crate under the GPL"
    forbid "$package" '^(unicorn|capstone)' "must not have an emulator or C code in it"
done
forbid trapline '^unicorn' "must build without Unicorn when its feature cpu is off" --no-default-features

for crate in isa probes; do
    grep -qx '#!\[no_std\]' "$crate/src/lib.rs" || fail "$crate/src/lib.rs must say #![no_std]"
    grep -qx '#!\[forbid(unsafe_code)\]' "$crate/src/lib.rs" || fail "$crate/src/lib.rs must say #![forbid(unsafe_code)]"
done

# A target without std and without 64-bit atomics: none can be fetched everywhere, so what such a one lacks is looked for by name. Tests may have it.
while IFS= read -r place; do
    fail "std, or an atomic of 64 bits, which not every target has: $place"
done < <(
    for crate in isa probes; do
        find "$crate/src" -name '*.rs' ! -name '*tests.rs' ! -name notes.rs ! -name counter.rs -print0 |
            xargs -0 awk 'FNR == 1 { inside = 0 } /#\[cfg\(test\)\]/ { inside = 1 } !inside && /(^|[^[:alnum:]_])(std::|Atomic[UI]64|extern crate std)/ { print FILENAME ":" FNR ": " $0 }'
    done
)

# design: the only unsafe code is the safe face of Unicorn.
while IFS= read -r place; do
    fail "unsafe outside emu/src/unicorn: $place"
done < <(grep -rnE --include='*.rs' '(^|[^_[:alnum:]"`])unsafe (\{|fn|impl|extern)' isa/src probes/src images/src emu/src | grep -v '^emu/src/unicorn/' || true)

# code DIR...: the source of these folders without tests and comments, `file:line:text`.
code() {
    find "$@" -name '*.rs' ! -path '*/tests/*' ! -name 'tests.rs' ! -name 'testing.rs' | sort | xargs awk '
        FNR == 1 { in_tests = 0; before = "" }
        before == "#[cfg(test)]" && /^(pub )?mod / { in_tests = 1 }
        { before = $0; sub(/(^|[[:space:]])\/\/.*/, "") }
        !in_tests && /[^[:space:]]/ { print FILENAME ":" FNR ":" $0 }'
}

# apart ROOM FORBIDDEN: nothing in this room of emu/ names those.
apart() {
    local found
    found=$(code "emu/src/$1" | grep -E "crate::($2)\b" || true)
    [[ -z $found ]] || fail "emu/src/$1 is below what it names:"$'\n'"$found"
}

# Inside of emu arrows point down, too.
apart unicorn 'arches|boards|boot|booted|cli|clock|cpu|devices|machine|overhead|probed|snapshot|symbols'
apart devices 'arches|boards|boot|booted|cli|cpu|machine|overhead|probed|symbols|unicorn'
apart boards 'arches|booted|cli|cpu|machine|overhead|probed|symbols|unicorn'
apart boot 'boards|booted|cli|cpu|devices|machine|overhead|probed|unicorn'
apart symbols 'boards|booted|cli|cpu|devices|machine|overhead|probed|unicorn'
apart cpu 'arches|booted|cli|devices|machine|overhead|probed'
apart machine 'booted|cli|overhead|probed'
apart probed 'booted|cli|overhead'

# What differs between ISAs stands in their own rooms, and in the tables that docs/adding-an-isa.md lists.
isas=$(sed -nE 's/^ *Arch::[A-Za-z0-9]+ => "([a-z0-9_]+)",$/\1/p' isa/src/arch.rs | paste -sd'|')
rooms='x86|arm|arm64|ppc|mips|s390|sparc64|ia64|parisc'
# Beside them two tables about foreign machines and other people's figures name some.
tables=$(sed -nE 's/^\| `([a-z0-9_/.-]+)` \|.*/\1/p' docs/adding-an-isa.md | paste -sd'|')
[[ -n $isas && -n $tables ]] || fail "the names of ISAs or the list of their tables cannot be read"
named=$(code isa/src probes/src emu/src images/src | grep -E "\bArch::[A-Z][a-z]|\"($isas)\"|\b(cpu|isa)::($rooms)\b" |
    grep -vE "^(isa/src|emu/src/cpu)/($rooms)/|^(emu/src/unicorn|emu/src/boot/marks)/($rooms)\.rs:|^($tables|emu/src/boot/foreign\.rs|emu/src/overhead/document\.rs):" || true)
[[ -z $named ]] || fail "an ISA is named outside of its rooms and of the tables in docs/adding-an-isa.md:"$'\n'"$named"

[[ $failed -eq 0 ]] && echo "the floors hold: isa, probes, emu"
exit "$failed"
