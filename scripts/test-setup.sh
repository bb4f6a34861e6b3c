#!/usr/bin/env bash
# Tests the messages of setup.sh on computers where something is missing. Each case runs it with a PATH of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failed=0

# machine TOOL...: makes a PATH with these tools and those that the script uses; NAME=OUTPUT is a fake tool that prints OUTPUT.
machine() {
    local tool
    rm -rf "${room:?}/bin"
    mkdir "$room/bin"
    for tool in bash dirname env sed sort head "$@"; do
        if [[ $tool == *=* ]]; then
            printf '#!/bin/sh\necho "%s"\n' "${tool#*=}" >"$room/bin/${tool%%=*}"
            chmod +x "$room/bin/${tool%%=*}"
        else
            ln -s "$(command -v "$tool")" "$room/bin/$tool"
        fi
    done
}

# expect CASE STATUS TEXT...: setup.sh must exit with this status and print each text.
expect() {
    local name=$1 wanted=$2 said status=0 text
    shift 2
    said=$(env -i HOME="$room" PATH="$room/bin" "${settings[@]}" bash scripts/setup.sh "${needs[@]}" 2>&1 </dev/null) || status=$?
    if [[ $status -ne $wanted ]]; then
        echo "FAIL $name: status $status instead of $wanted; it said: $said"
        failed=$((failed + 1))
        return
    fi
    for text in "$@"; do
        if [[ $said != *"$text"* ]]; then
            echo "FAIL $name: it does not say '$text' but: $said"
            failed=$((failed + 1))
            return
        fi
    done
    passed=$((passed + 1))
}
passed=0

settings=(LIBCLANG_PATH="$room/none")
needs=(build)
machine gcc= make id=1000
expect "no cmake and no libclang, on a system without apt-get" 1 "  - cmake" "  - libclang" "no Debian-like system" "cmake pkg-config libclang-dev"

machine gcc= make id=1000 apt-get=never
expect "no cmake and no libclang, on Debian, as a user without sudo" 1 "Not root" "sudo apt-get install -y --no-install-recommends cmake pkg-config libclang-dev"

machine make cmake= id=1000 apt-get=never
expect "no C compiler" 1 "  - gcc" "  - pkg-config" "gcc libc6-dev pkg-config"

settings+=(NO_INSTALL=1)
machine gcc= make id=0 apt-get=never
expect "root with NO_INSTALL" 1 "NO_INSTALL is set" "cmake pkg-config libclang-dev"

touch "$room/libclang.so"
settings=(LIBCLANG_PATH="$room")
machine gcc= make cmake= pkg-config= id=0
expect "no Rust" 1 "there is no cargo here" "rustup.rs"

machine gcc= make cmake= pkg-config= id=0 cargo= "rustc=rustc 1.60.0 (old)"
expect "an old Rust" 1 "this is 1.60" "rustup update"

machine gcc= make cmake= pkg-config= id=0 cargo= "rustc=rustc 1.999.0 (new)"
expect "nothing is missing" 0

settings+=(NO_INSTALL=1)
needs=(licences)
expect "no cargo-deny" 1 "cargo install cargo-deny --version" "--locked"

needs=(fuzz)
expect "no C++ compiler" 1 "  - c++" "g++"

needs=(opinions)
expect "no qemu-user, no binutils" 1 "  - qemu-sparc64-static" "  - hppa-linux-gnu-objdump" "qemu-user-static binutils-hppa-linux-gnu"

needs=(readers)
expect "no trace-cmd, no Python" 1 "  - trace-cmd" "  - python3 with venv" "trace-cmd python3-venv"

needs=(machines)
expect "no QEMU" 1 "  - qemu-system-x86_64" "  - qemu-system-aarch64" "qemu-system-x86 qemu-system-arm"

needs=(tset)
expect "an unknown need" 2 "unknown need 'tset'"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
