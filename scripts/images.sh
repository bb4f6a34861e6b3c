#!/usr/bin/env bash
# Brings the stock kernels that tests run on, where they are not on this computer yet.
#
#   scripts/images.sh NAME... [-- NAME...]     NAME: as `trapline images` lists them
#
# One of the first that cannot be had ends it with status 1; one behind `--` is only told of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

trapline=${TRAPLINE:-target/debug/trapline}
must=yes missing=()
for name in "$@"; do
    if [[ $name == -- ]]; then
        must=no
        continue
    fi
    if "$trapline" images list --json | grep -F "\"name\":\"$name\"" | grep -q '"versions":\["'; then
        echo "$name is here"
    elif "$trapline" images pull --modules "$name"; then
        echo "$name was pulled"
    elif [[ $must == no ]]; then
        echo "$name cannot be had now: the tests on it are left out, and counted" >&2
    else
        missing+=("$name")
    fi
done
if [[ ${#missing[@]} -gt 0 ]]; then
    echo "without ${missing[*]} a green run would not mean that stock kernels ran. Bring them another way (a folder in TRAPLINE_IMAGES), or run" >&2
    echo "what needs none: make test" >&2
    exit 1
fi
