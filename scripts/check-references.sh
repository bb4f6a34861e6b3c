#!/usr/bin/env bash
# Checks that every file named in a comment or a document exists, by its whole path or by the end of it.
#
# Looks only at our own kinds of files (.md, .rs, .sh), because files of Linux are not here. `<arch>` stands for any name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# File names that appear only in examples and tests.
examples='^(x|a|b|lib|main|mod|tests|foo|build|work|rustup)\.(rs|sh|md)$'

nowhere=$(git grep -InoE '[$A-Za-z0-9_<>/.-]*[A-Za-z0-9_>]\.(md|rs|sh)\b' -- '*.rs' '*.md' '*.sh' '*.toml' Makefile |
    awk -F: -v examples="$examples" '
        BEGIN {
            while (("git ls-files" | getline path) > 0) {
                n = split(path, part, "/")
                end = part[n]
                known[end] = 1
                for (i = n - 1; i > 0; i--) { end = part[i] "/" end; known[end] = 1 }
            }
            for (end in known) all = all "\n" end
            all = all "\n"
        }
        {
            name = $3
            sub(/^(\.\/|\.\.\/)+/, "", name)
            if (name ~ /[$]|^\/\//) next
            sub(/^\//, "", name)
            if (name ~ examples || name in known) next
            if (index(name, "<")) {
                pattern = name
                gsub(/\./, "[.]", pattern)
                gsub(/<[a-z]+>/, "[^/\n]+", pattern)
                if (all ~ ("\n" pattern "\n")) next
            }
            print $1 ":" $2 ": " $3
        }')
if [[ -n $nowhere ]]; then
    echo "check-references: these files are named but do not exist:" >&2
    echo "$nowhere" >&2
    exit 1
fi
echo "all files that are named exist"
