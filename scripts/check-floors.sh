#!/usr/bin/env bash
# Checks the layers: crates and folders depend downwards only, and no layer below the machine uses GPL code or an emulator.
#
#   isa     depends on no other crate of ours     no GPL, no Unicorn, no_std, no unsafe
#   core    depends on isa only                   no GPL, no Unicorn, no_std, no unsafe
#   probes  depends on isa only                   no GPL, no Unicorn, no_std, no unsafe
#   script  depends on isa and probes             no GPL, no Unicorn, no_std, no unsafe
#   emu     depends on all of them; only emu uses Unicorn, and only with its feature `cpu`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
fail() {
    echo "check-floors: $*" >&2
    failed=1
}

# tree PACKAGE [FLAG]...: prints the crates that PACKAGE is built from, itself included: one `name licence` per line.
tree() {
    cargo tree --locked --edges normal,build --prefix none --format '{p} {l}' --package "$@" | sed -E 's/ v[0-9][^ ]*//; s/ \((\/|proc-macro)[^)]*\)//g; s/ \(\*\)$//' | sort -u
}

# expect_ours PACKAGE ALLOWED...: of our own crates, PACKAGE may depend on these only.
expect_ours() {
    local package=$1 built_from name
    shift
    built_from=$(tree "$package")
    while read -r name _; do
        [[ " $package $* " == *" $name "* ]] || fail "$package depends on $name; it may depend on: ${*:-none of our crates}"
    done < <(grep '^trapline' <<<"$built_from")
}

# forbid PACKAGE PATTERN WHY [FLAG]...: no crate that PACKAGE is built from may match the pattern.
forbid() {
    local package=$1 pattern=$2 why=$3 built_from found
    shift 3
    built_from=$(tree "$package" "$@")
    found=$(grep -iE "$pattern" <<<"$built_from" || true)
    [[ -z $found ]] || fail "$package $why: $found"
}

expect_ours trapline-isa
expect_ours trapline-probes trapline-isa
expect_ours trapline-script trapline-isa trapline-probes
expect_ours trapline-images
expect_ours trapline-core trapline-isa
expect_ours trapline trapline-core trapline-isa trapline-probes trapline-script trapline-images

for package in trapline-core trapline-isa trapline-probes trapline-script; do
    forbid "$package" 'GPL' "is MIT OR Apache-2.0 and must not be built from a crate under the GPL"
    forbid "$package" '^(unicorn|capstone)' "must not have an emulator or C code in it"
done
forbid trapline '^unicorn' "must build without Unicorn when its feature cpu is off" --no-default-features

# libraries: the crates that other programs and kernels can use. libraries_above CRATE: those that CRATE must not know of.
libraries='isa core probes script'
libraries_above() {
    case $1 in
        isa) echo core probes script ;;
        core) echo probes script ;;
        probes) echo script ;;
    esac
}

# Cargo allows a development dependency on a crate above, and a path attribute can include any file.
for crate in $libraries; do
    for above in $(libraries_above "$crate") emu; do
        name=trapline_$above package=trapline-$above
        [[ $above != emu ]] || name=trapline:: package='trapline[ .]'
        found=$(grep -rnE --include='*.rs' "(^|[^[:alnum:]_])$name" "$crate" | grep -vE ':[[:space:]]*//' || true)
        found+=$'\n'$(grep -HnE "^$package" "$crate/Cargo.toml" || true)
        [[ $found == $'\n' ]] || fail "$crate must not know of $above, not even in a test:"$'\n'"$found"
    done
done
while IFS=: read -r file line text; do
    path=$(realpath -m --relative-to=. "$(dirname "$file")/$(sed -E 's/.*path *= *"([^"]*)".*/\1/' <<<"$text")")
    [[ $path == "${file%%/*}"/* ]] || fail "a path attribute leads out of its crate: $file:$line: $path"
done < <(grep -rnE --include='*.rs' '\[(path|.*[, ]path) *= *"' $libraries images emu || true)

for crate in $libraries; do
    grep -qx '#!\[no_std\]' "$crate/src/lib.rs" || fail "$crate/src/lib.rs must say #![no_std]"
    grep -qx '#!\[forbid(unsafe_code)\]' "$crate/src/lib.rs" || fail "$crate/src/lib.rs must say #![forbid(unsafe_code)]"
done

# The libraries must build for targets without std and without 64-bit atomics. Not every computer has such a target, so the names
# of what they lack are searched instead. Tests may use them.
while IFS= read -r place; do
    fail "std or a 64-bit atomic, which some targets do not have: $place"
done < <(
    for crate in $libraries; do
        find "$crate/src" -name '*.rs' ! -name '*tests.rs' ! -name notes.rs ! -name counter.rs -print0 |
            xargs -0 awk 'FNR == 1 { inside = 0 } /#\[cfg\(test\)\]/ { inside = 1 } !inside && /(^|[^[:alnum:]_])(std::|Atomic[UI]64|extern crate std)/ { print FILENAME ":" FNR ": " $0 }'
    done
)

# Only the safe interface to Unicorn may have unsafe code.
while IFS= read -r place; do
    fail "unsafe outside emu/src/unicorn: $place"
done < <(grep -rnE --include='*.rs' '(^|[^_[:alnum:]"`])unsafe (\{|fn|impl|extern)' isa/src core/src probes/src script/src images/src emu/src | grep -v '^emu/src/unicorn/' || true)

# code PATH...: prints the source of these files and folders without tests and comments, as `file:line:text`. Every path starts at the crate's
# root: grouped `use` items become a line each, and `super::` and `self::` are resolved.
code() {
    find "$@" -name '*.rs' ! -path '*/tests/*' ! -path '*/toy/*' ! -name '*tests.rs' ! -name 'testing.rs' | sort | xargs awk '
        function room(file) {
            sub(/^.*src\//, "", file); sub(/\.rs$/, "", file); sub(/(^|\/)(mod|lib|main)$/, "", file)
            gsub(/\//, "::", file)
            return file
        }
        function absolute(text,    at, up) {
            while (match(text, /(^|[^A-Za-z0-9_:])(self|super)::/)) {
                at = here
                up = substr(text, RSTART)
                sub(/^[^A-Za-z0-9_:]/, "", up)
                text = substr(text, 1, RSTART + RLENGTH - 1 - (up ~ /^self/ ? 6 : 7))
                sub(/^self::/, "", up)
                while (sub(/^super::/, "", up)) if (!sub(/(^|::)[a-z0-9_]+$/, "", at)) at = ""
                text = text "crate::" (at == "" ? "" : at "::") up
            }
            return text
        }
        function say(text) { print FILENAME ":" FNR ":" absolute(text) }
        function leaves(start, tree,    at, depth, letter, from, inner) {
            gsub(/^[[:space:]]+|[[:space:]]+$/, "", tree)
            at = index(tree, "{")
            if (!at) { if (tree != "") say("use " start tree ";"); return }
            start = start substr(tree, 1, at - 1)
            inner = substr(tree, at + 1, length(tree) - at - 1)
            depth = 0; from = 1
            for (at = 1; at <= length(inner) + 1; at++) {
                letter = at > length(inner) ? "," : substr(inner, at, 1)
                depth += (letter == "{") - (letter == "}")
                if (letter == "," && !depth) { leaves(start, substr(inner, from, at - from)); from = at + 1 }
            }
        }
        FNR == 1 { in_tests = 0; before = ""; use = ""; here = room(FILENAME) }
        before == "#[cfg(test)]" && /^(pub(\([a-z]+\))? )?mod .*\{$/ { in_tests = 1 }
        in_tests { in_tests = !/^}$/; before = ""; next }
        before == "#[cfg(test)]" && /^(pub(\([a-z]+\))? )?(mod|use) / { before = ""; next }
        { before = $0; sub(/(^|[[:space:]])\/\/.*/, "") }
        use == "" && /^[[:space:]]*(pub(\([a-z]+\))? )?use / { use = " "; sub(/^[[:space:]]*(pub(\([a-z]+\))? )?use /, "") }
        use != "" { use = use $0; if (/;[[:space:]]*$/) { sub(/;[[:space:]]*$/, "", use); leaves("", use); use = "" } next }
        /[^[:space:]]/ { say($0) }'
}

emu_code=$(code emu/src)

# stands_on FOLDER OTHER...: a folder of emu/src may use only those others.
stands_on() {
    local room=$1 found
    shift
    known+=" $room"
    found=$(grep -E "^emu/src/$room(/|\.rs:)" <<<"$emu_code" | awk -v allowed=" $room $* " '{
        text = $0
        while (match(text, /(^|[^A-Za-z0-9_])crate::[a-z_0-9]+/)) {
            name = substr(text, RSTART, RLENGTH); sub(/^.*::/, "", name); text = substr(text, RSTART + RLENGTH)
            if (!index(allowed, " " name " ")) { print; next }
        }
    }' || true)
    [[ -z $found ]] || fail "emu/src/$room uses a folder that it must not use:"$'\n'"$found"
}

# Inside emu, folders depend downwards too.
known='lib main'
stands_on unicorn
stands_on clock unicorn
stands_on base64
stands_on devices base64 clock
stands_on files
stands_on frames
stands_on disks devices
stands_on folders devices
stands_on network devices
stands_on snapshot clock files frames
stands_on error snapshot
stands_on symbols error
stands_on outputs
stands_on vectors
stands_on boot error symbols
stands_on unpacked boot files frames
stands_on lines boot outputs symbols
stands_on config boot devices
stands_on boards clock config devices error snapshot
stands_on cpu boards boot clock error snapshot symbols unicorn
stands_on arches boards boot cpu error unicorn
stands_on machine arches boards boot clock config cpu error snapshot symbols unicorn
stands_on history clock cpu machine snapshot
stands_on unwind boot symbols
stands_on debugger boot clock cpu history machine outputs symbols unwind
stands_on still boot symbols
stands_on probed boot clock cpu error machine snapshot symbols unicorn unwind
stands_on tracefs boot outputs probed
stands_on guide
stands_on booted boot devices error machine snapshot
stands_on verify clock machine probed snapshot
stands_on sweep boot probed verify
stands_on overhead boot machine outputs probed symbols
stands_on cli arches base64 boards boot booted clock debugger devices disks error files folders history lines machine network outputs overhead probed snapshot still sweep symbols tracefs unicorn unpacked vectors verify
for room in emu/src/*; do
    room=$(basename "$room" .rs)
    [[ " $known " == *" $room "* ]] || fail "emu/src/$room: scripts/check-floors.sh has no line for this folder"
done

# An ISA is named only in its own folders and in the files that docs/adding-an-isa.md lists.
isas=$(sed -nE 's/^ *Arch::[A-Za-z0-9_]+ => "([a-z0-9_]+)",$/\1/p' isa/src/arch.rs | paste -sd'|')
variants=$(sed -nE 's/^ *Arch::([A-Za-z0-9_]+) => "[a-z0-9_]+",$/\1/p' isa/src/arch.rs | paste -sd'|')
debian=$(sed -nE 's/^ *debian: "([a-z0-9]+)",$/\1/p' emu/src/boot/kernels.rs | paste -sd'|')
rooms='x86|arm|arm64|ppc|mips|riscv|s390|sparc64|ia64|parisc'
# Two more tables may name ISAs: foreign machines, and the figures of Linux's document.
tables=$(awk -F'|' '/^\| `/ { print $2 }' docs/adding-an-isa.md | grep -oE '`[A-Za-z0-9_/.-]+`' | tr -d '\`' | paste -sd'|')
[[ -n $isas && -n $variants && -n $debian && -n $tables ]] || fail "the names of ISAs or the list of their tables cannot be read"
library='Register(X86|ARM|ARM64|MIPS|PPC|RISCV|S390X|SPARC)|EM_(386|X86_64|ARM|AARCH64|MIPS|PARISC|PPC|PPC64|RISCV|S390|SPARCV9)'
named=$( (code isa/src core/src probes/src script/src images/src && echo "$emu_code") |
    grep -E "\bArch::($variants)\b|\"($isas|$debian)\"|\b(crate|cpu|cpus|marks|trapline_isa)::($rooms)\b|\b($library)\b" |
    grep -vE "^(isa/src|core/src|emu/src/cpu)/($rooms)/|^(emu/src/unicorn/cpus|emu/src/boot/marks)/($rooms)\.rs:|^($tables|emu/src/boot/foreign\.rs|emu/src/overhead/document\.rs):" || true)
[[ -z $named ]] || fail "an ISA is named outside of its own folders and the files in docs/adding-an-isa.md:"$'\n'"$named"

# Only cpus/ and the folders of the translator know kinds of CPU among the files of unicorn/, in tests too.
while IFS= read -r place; do
    fail "emu/src/unicorn knows a kind of CPU outside of cpus/: $place"
done < <(grep -rnE --include='*.rs' --exclude-dir=cpus "crate::cpu\\b|\\b(cpus|super)::($rooms)\\b" emu/src/unicorn || true)

# Errors of the public interface have types. The other folders are not part of it (emu/src/lib.rs).
untyped=$( (code isa/src probes/src images/src && echo "$emu_code") |
    grep -E 'pub (const )?fn .*Result<.*, String>' | grep -vE '^emu/src/(cli|cpu|overhead|unicorn)/' || true)
[[ -z $untyped ]] || fail "a public function has a text for an error: use a type with Display"$'\n'"$untyped"

# C code outside of the folder of an ISA is for all of them. Lines of comments begin with `/*` or ` *`.
words='x86(_64)?|i386|arm(64)?|aarch64|ppc(64)?|powerpc|mips(64)?(el)?|s390x?|sparc(64)?|riscv(32|64)?|parisc|hppa'
named=$(grep -nEiw "(target_)?($words)" emu/src/unicorn/*.c emu/src/unicorn/translator/*.[ch] | grep -vE '^[^:]*:[0-9]+: *(/\*|\*)' || true)
[[ -z $named ]] || fail "an ISA is named in C code that is for all of them:"$'\n'"$named"

[[ $failed -eq 0 ]] && echo "the layers are correct: isa, core, probes, script, emu"
exit "$failed"
