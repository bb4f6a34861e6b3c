#!/usr/bin/env bash
# Packs a built trapline as a Debian package: the program, its manual pages, completions for three shells, and the licences.
#
#   scripts/deb.sh PROGRAM FILE.deb      PROGRAM: target/release/trapline; it writes its own pages and completions.
#                                        DEB_OPTIONS has more options for dpkg-deb, such as -Zgzip.
set -euo pipefail
[[ $# -eq 2 ]] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$(realpath "$1") file=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v dpkg-deb >/dev/null || { echo "deb.sh: dpkg-deb is missing: apt-get install dpkg" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
place() { install -D -m "$1" "$2" "$root/$3"; }

place 755 "$program" usr/bin/trapline
"$program" man "$root/usr/share/man/man1"
gzip -9 -n "$root"/usr/share/man/man1/*.1
while read -r shell place; do
    mkdir -p "$(dirname "$root/$place")"
    "$program" completions "$shell" >"$root/$place"
done <<'COMPLETIONS'
bash usr/share/bash-completion/completions/trapline
zsh usr/share/zsh/vendor-completions/_trapline
fish usr/share/fish/vendor_completions.d/trapline.fish
COMPLETIONS
place 644 LICENSE usr/share/doc/trapline/copyright
gzip -9 -n -c CHANGELOG.md | install -D -m 644 /dev/stdin "$root/usr/share/doc/trapline/changelog.gz"
for page in README.md docs/*.md; do place 644 "$page" "usr/share/doc/trapline/$(basename "$page")"; done

version=$("$program" --version | sed 's/^trapline //')
# The newest symbol version that the program asks of the C library.
glibc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sed 's/GLIBC_//' | sort -uV | tail -n 1)
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: trapline
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The trapline project <maintainers@trapline.invalid>
Section: devel
Priority: optional
Depends: libc6 (>= ${glibc:-2.31}), libgcc-s1
Recommends: apt, dpkg
Suggests: trace-cmd, kernelshark, gdb, crash, linux-perf
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Description: probes kernels in a simulated CPU
 trapline boots a real Linux kernel on an emulated machine and probes it with
 breakpoints in its own text, with Linux's kprobe_events and with bpftrace's
 language. It shows hits, arguments and call chains, and proves that the probed
 run is the same as the unprobed one.
CONTROL
find "$root" -type d -exec chmod 755 {} +
mkdir -p "$(dirname "$file")"
# shellcheck disable=SC2086 # the options are words
dpkg-deb ${DEB_OPTIONS:-} --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
