#!/usr/bin/env bash
# Downloads the stock kernels that tests run on, unless they are on this computer.
#
#   scripts/images.sh NAME... [-- NAME...]     NAME: as `trapline images` lists them
#
# A kernel before `--` that cannot be had ends it with status 1. One behind `--` may be missing: the tests on it are skipped, and counted.
# When the first pull of all fails, the archive is taken to be out of reach, and no other pull is tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

trapline=${TRAPLINE:-${CARGO_TARGET_DIR:-target}/debug/trapline}
must=yes pulled=0 tried=0 missing=() optional=()
for name in "$@"; do
    if [[ $name == -- ]]; then
        must=no
        continue
    fi
    if "$trapline" images list --json | grep -F "\"name\":\"$name\"" | grep -q '"versions":\["'; then
        echo "$name is here"
        continue
    fi
    if [[ $tried -eq 0 || $pulled -gt 0 ]]; then
        tried=$((tried + 1))
        if "$trapline" images pull --modules "$name"; then
            pulled=$((pulled + 1))
            echo "$name was pulled"
            continue
        fi
    fi
    if [[ $must == yes ]]; then missing+=("$name"); else optional+=("$name"); fi
done
if [[ ${#optional[@]} -gt 0 ]]; then
    echo "not to be had now: ${optional[*]}; the tests on them are skipped, and counted" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
    echo "these kernels are missing: ${missing[*]}. Tests on them cannot run. Provide them in a folder named by TRAPLINE_IMAGES, or run" >&2
    echo "the tests that need none: make test" >&2
    exit 1
fi
