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

# design: the only unsafe code is the safe face of Unicorn.
while IFS= read -r place; do
    fail "unsafe outside emu/src/unicorn: $place"
done < <(grep -rnE --include='*.rs' '(^|[^_[:alnum:]"`])unsafe (\{|fn|impl|extern)' isa/src probes/src images/src emu/src | grep -v '^emu/src/unicorn/' || true)

[[ $failed -eq 0 ]] && echo "the floors hold: isa, probes, emu"
exit "$failed"
