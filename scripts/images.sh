#!/usr/bin/env bash
# Downloads the stock kernels that tests run on, unless they are on this computer.
#
#   scripts/images.sh NAME... [-- NAME...]     NAME: as `trapline images` lists them
#
# The exit status is 1 if a kernel before `--` cannot be downloaded. Kernels behind `--` may be missing: tests on them are skipped and counted.
# If the very first download fails, the archive counts as unreachable, and no other download is tried.
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
        echo "$name is already on this computer"
        continue
    fi
    if [[ $tried -eq 0 || $pulled -gt 0 ]]; then
        tried=$((tried + 1))
        if "$trapline" images pull --modules "$name"; then
            pulled=$((pulled + 1))
            echo "$name was downloaded"
            continue
        fi
    fi
    if [[ $must == yes ]]; then missing+=("$name"); else optional+=("$name"); fi
done
if [[ ${#optional[@]} -gt 0 ]]; then
    echo "cannot be downloaded now: ${optional[*]}; tests on them are skipped and counted" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
    echo "these kernels are missing: ${missing[*]}. Tests on them cannot run. Put them into a folder named in TRAPLINE_IMAGES, or run" >&2
    echo "only the tests that need no image: make test" >&2
    exit 1
fi
