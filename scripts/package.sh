#!/usr/bin/env bash
# package.sh: packs isa, core, probes and script as for the registry, and compiles each from its package. Publishes nothing.
# One command packs all four, because a package is compiled with the versions before it, which the registry does not have yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

libraries=(trapline-isa trapline-core trapline-probes trapline-script)
selected=()
for library in "${libraries[@]}"; do selected+=(--package "$library"); done
${CARGO:-cargo} package --locked --allow-dirty "${selected[@]}"

failed=0
for library in "${libraries[@]}"; do
    package=$(ls -t "${CARGO_TARGET_DIR:-target}/package/$library"-[0-9]*.crate | head -n 1)
    files=$(tar -tzf "$package" | cut -d/ -f2-)
    for file in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src/lib.rs; do
        grep -qxF "$file" <<<"$files" || { echo "package: $package has no $file" >&2; failed=1; }
    done
done
[[ $failed -eq 0 ]] && echo "packages: ${libraries[*]} are ready"
exit "$failed"
