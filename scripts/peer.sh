#!/usr/bin/env bash
# Downloads the newest QEMU of the Debian releases in RELEASES, beside the installed one, for benches/src/bin/machine.
#
#   scripts/peer.sh [--quiet]     the last line of the output is the folder with the programs qemu-system-*
#
# The packages and all libraries that they need, with the C library, are unpacked into the user's cache folder. Nothing is
# installed, root is not needed, and the system's apt configuration and package lists stay as they are.
# TRAPLINE_DEBIAN_MIRROR is the address of another archive.
set -euo pipefail

readonly MIRROR=${TRAPLINE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
readonly RELEASES=(trixie trixie-backports sid)
# Each brings the emulators of one or more ISAs.
readonly PACKAGES=(qemu-system-x86 qemu-system-arm qemu-system-ppc qemu-system-mips qemu-system-s390x qemu-system-riscv)
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

quiet=
[[ ${1:-} != --quiet ]] || quiet=-qq

for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || {
        echo "peer.sh: there is no $tool: the newest QEMU comes out of Debian's packages, on Debian and its kin alone" >&2
        exit 1
    }
done
[[ -e $KEYRING ]] || {
    echo "peer.sh: there is no $KEYRING, which checks the packages' signatures: apt-get install debian-archive-keyring" >&2
    exit 1
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/trapline/qemu
state=$cache/apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
# apt resolves against this empty list, so it fetches every library, also those that the computer has in an older version.
: >"$state/status"
for release in "${RELEASES[@]}"; do
    echo "deb [signed-by=$KEYRING] $MIRROR $release main"
done >"$state/sources.list"
# Backports have a low priority by default, and apt would not choose their version. All releases get the same priority.
printf 'Package: *\nPin: release *\nPin-Priority: 500\n' >"$state/preferences"

apt=(-o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state"
    -o "Dir::Cache::archives=$state/archives" -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::Etc::preferences=$state/preferences" -o Dir::Etc::preferencesparts=/dev/null -o "APT::Sandbox::User=$(id -un)"
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Install-Recommends=false)
apt-get ${quiet:+"$quiet"} "${apt[@]}" update >&2

version=$(apt-cache "${apt[@]}" policy "${PACKAGES[0]}" | sed -n 's/^ *Candidate: //p')
[[ -n $version && $version != '(none)' ]] || {
    echo "peer.sh: $MIRROR offers no ${PACKAGES[0]}" >&2
    exit 1
}
# 1:11.1.3+ds-1 becomes 11.1.3+ds-1.
name=${version#*:}
root=$cache/$name
if [[ ! -e $root/complete ]]; then
    rm -rf "$root" "$state/archives"
    mkdir -p "$root" "$state/archives/partial"
    # All packages must have the version of the first one, because they share data.
    wanted=()
    for package in "${PACKAGES[@]}"; do
        wanted+=("$package=$version")
    done
    apt-get ${quiet:+"$quiet"} "${apt[@]}" install --yes --download-only "${wanted[@]}" >&2
    for package in "$state"/archives/*.deb; do
        dpkg-deb --extract "$package" "$root"
    done
    rm -rf "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale"
    rm -rf "$state/archives"

    loader=$(compgen -G "$root/usr/lib*/ld-linux*.so.*" || compgen -G "$root/usr/lib/*-linux-gnu/ld-linux*.so.*" ||
        compgen -G "$root/lib*/ld-linux*.so.*" || true)
    loader=${loader%%$'\n'*}
    [[ -n $loader ]] || {
        echo "peer.sh: the packages of QEMU $name have no loader ld-linux*.so.*, without which its programs cannot start" >&2
        exit 1
    }
    libraries=$(find "$root" -path '*-linux-gnu' -type d -printf '%p:')
    # An empty part of the list, as behind the last colon, would be the current folder.
    libraries=${libraries%:}
    modules=$(find "$root" -path '*-linux-gnu/qemu' -type d -print -quit)
    mkdir "$root/bin"
    for program in "$root"/usr/bin/qemu-system-*; do
        [[ -x $program ]] || continue
        # The program may need a newer C library than the host's, and that library needs its own loader.
        cat >"$root/bin/${program##*/}" <<WRAPPER
#!/bin/sh
QEMU_MODULE_DIR='$modules' exec '$loader' --library-path '$libraries' '$program' -L '$root/usr/share/qemu' -L '$root/usr/share/seabios' "\$@"
WRAPPER
        chmod +x "$root/bin/${program##*/}"
        "$root/bin/${program##*/}" --version >/dev/null || {
            echo "peer.sh: ${program##*/} of QEMU $name was unpacked, but does not start" >&2
            exit 1
        }
    done
    touch "$root/complete"
fi
ln -sfn "$name" "$cache/newest"
echo "$cache/newest/bin"
