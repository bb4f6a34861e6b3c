#!/usr/bin/env bash
# release.sh VERSION: prepares a release without publishing anything. Checks the version, packs the four libraries
# (scripts/package.sh), and writes the release notes to target/release/. Prints the commands that change the version, make
# the tag and publish. A maintainer runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
    echo "release: $*" >&2
    exit 1
}

version=${1:-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "'$version' is no version: run make release VERSION=1.2.3"
present=$(sed -nE '/^\[workspace\.package\]/,/^\[/s/^version = "(.*)"$/\1/p' Cargo.toml)
newest=$(printf '%s\n%s\n' "$present" "$version" | sort -V | tail -n 1)
[[ $newest == "$version" ]] || die "$version is older than $present, the version in Cargo.toml"
[[ -z $(git status --porcelain) ]] || die "the work tree has changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || die "the tag v$version exists already"

room=target/release
mkdir -p "$room"
notes=$room/notes-$version.md
awk '/^## \[Unreleased\]/ { on = 1; next } on && /^## / { exit } on' CHANGELOG.md | sed '/./,$!d' >"$notes"
grep -q '^- ' "$notes" || die "CHANGELOG.md says nothing under [Unreleased]"

scripts/package.sh

echo "release: nothing was changed. The notes are in $notes ($(grep -c '^- ' "$notes") points). These commands make the release:"
echo
[[ $version == "$present" ]] || echo "  sed -i 's/^version = \"$present\"/version = \"$version\"/; s/version = \"$present\" }/version = \"$version\" }/' Cargo.toml && cargo update --workspace"
echo "  sed -i 's/^## \\[Unreleased\\]/## [Unreleased]\\n\\n## [$version] - $(date -u +%F)/' CHANGELOG.md"
echo "  git commit -am 'Release $version' && git tag -a v$version -F $notes"
echo "  cargo publish --locked -p trapline-isa -p trapline-core -p trapline-probes -p trapline-script"
