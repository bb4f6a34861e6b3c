#!/usr/bin/env bash
# Holds docs/core-exits.tsv to the sources of the CPU core: every place where Unicorn may end the process is in the table, with the reason
# why no guest gets there or what holds it (docs/unicorn.md, "Where the core gives up").
#
#   scripts/core-exits.sh            fails with the places that are not in the table, and with the rows that have no place any more
#   scripts/core-exits.sh --list     prints the places: file, function, what it calls, how often
#
# A plain `assert` is no such place: the core is compiled without them (NDEBUG), which is checked, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table=docs/core-exits.tsv
version=$(awk '/^name = "unicorn-engine-sys"$/ { getline; gsub(/[^0-9.]/, ""); print }' Cargo.lock)
shopt -s nullglob
sources=("${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/unicorn-engine-sys-"$version")
[[ ${#sources[@]} -gt 0 ]] || {
    echo "core-exits: the sources of unicorn-engine-sys $version are not in cargo's registry: run 'cargo fetch'" >&2
    exit 1
}

# The folders that are compiled for the CPUs that trapline has and both kinds of host.
cpus=$(awk '{ print $2 }' emu/src/unicorn/translator/*/targets | sort -u | paste -sd'|')
folders="^qemu/(target/($cpus)|accel|softmmu|tcg/(i386|aarch64)/|tcg/[^/]*\$|fpu|util|hw|include|crypto|libdecnumber|[^/]*\.c)|^glib_compat|^uc\.c"

list() {
    (
        cd "${sources[0]}"
        find qemu glib_compat uc.c -name '*.[ch]' | grep -E "$folders" | grep -vE '(win32|tcg-stub)' | LC_ALL=C sort | xargs awk '
            # The code of a line: no comment, no text in quotes.
            function code(line) {
                if (in_comment) { if (!sub(/^.*\*\//, "", line)) return ""; in_comment = 0 }
                gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
                gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
                sub(/\/\/.*/, "", line)
                if (sub(/\/\*.*$/, "", line)) in_comment = 1
                return line
            }
            FNR == 1 { name = "-"; in_comment = depth = left_out = 0 }
            {
                line = code($0)
                if (line ~ /^[ \t]*#[ \t]*if/) { depth++; if (!left_out && line ~ /#[ \t]*if 0/) left_out = depth }
                else if (line ~ /^[ \t]*#[ \t]*el/ && left_out == depth) left_out = 0
                else if (line ~ /^[ \t]*#[ \t]*endif/) { if (left_out == depth) left_out = 0; depth-- }
                if (left_out || line ~ /^[ \t]*#/) next
                if (line ~ /^[A-Za-z_].*\(/ && line !~ /;[ \t]*$/ && match(line, /(HELPER\([A-Za-z0-9_]+\)|[A-Za-z0-9_]+[ \t]*\()/)) {
                    name = substr(line, RSTART, RLENGTH); sub(/[ \t]*\($/, "", name)
                }
                if (match(line, /(^|[^A-Za-z0-9_])(_?exit|abort|tcg_abort|cpu_abort|g_assert_not_reached|g_assert|g_error|hw_error|error_exit|__builtin_trap)[ \t]*\(/)) {
                    call = substr(line, RSTART, RLENGTH); gsub(/[^A-Za-z_]/, "", call)
                    count[FILENAME "\t" name "\t" call]++
                }
            }
            END { for (place in count) print place "\t" count[place] }' | LC_ALL=C sort
    )
}

if [[ ${1:-} == --list ]]; then
    list
    exit
fi

failed=0
if ! difference=$(diff <(list) <(grep -v '^#' "$table" | cut -f1-4 | LC_ALL=C sort)); then
    echo "core-exits: <: a place that $table does not have; >: a row without a place" >&2
    grep '^[<>]' <<<"$difference" >&2
    failed=1
fi
if rows=$(grep -v '^#' "$table" | awk -F'\t' 'NF != 6 || $5 !~ /^(held|net|decoded|compiler|arithmetic|made-once|other-model|not-called|not-compiled|host-memory)$/ || length($6) < 12'); then
    [[ -z $rows ]] || {
        echo "core-exits: rows without one of the reasons that $table's head lists, or without a sentence:" >&2
        echo "$rows" >&2
        failed=1
    }
fi
# A wall has a test: `held` names one that exists.
while read -r test; do
    grep -rqE "fn $test\b" tests emu/src || {
        echo "core-exits: there is no test $test" >&2
        failed=1
    }
done < <(grep -v '^#' "$table" | awk -F'\t' '$5 == "held"' | grep -oE '`[a-z0-9_]+`' | tr -d '\`' | sort -u)
# Without optimisation the core is compiled with its assertions.
awk '/^\[profile\.dev\.package\.unicorn-engine-sys\]/ { inside = 1 } inside && /^opt-level = [123]/ { found = 1 } END { exit !found }' Cargo.toml || {
    echo "core-exits: Cargo.toml does not set opt-level of unicorn-engine-sys in the dev profile: its assertions would be compiled" >&2
    failed=1
}
exit $failed
