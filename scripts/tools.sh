#!/usr/bin/env bash
# Runs the unmodified scripts of Debian's package `bpftrace` on stock kernels, and prints the table of docs/scripts.md: the guests on which
# each script runs, and a line of its output on the first guest, or the reason why it does not run.
#
#   scripts/tools.sh [--write] [FOLDER]     FOLDER: the folder with the .bt files; without it, apt-get downloads the package
#   --write                                 updates the table in docs/scripts.md
#
# Images are searched as tests do; guests without an image are skipped. The output of each run stays in target/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

guests=(amd64 arm64 i386 armhf)
trapline=${TRAPLINE:-target/debug/trapline}
out=target/tools
mkdir -p "$out"
write=no
if [[ ${1:-} == --write ]]; then
    write=yes
    shift
fi
tools=${1:-$out/package/usr/sbin}
if [[ ! -d $tools ]]; then
    echo "fetching Debian's package bpftrace" >&2
    (cd "$out" && apt-get download bpftrace >&2)
    dpkg-deb -x "$out"/bpftrace_*.deb "$out/package"
fi

# The guest's workload. Its userland is busybox only.
cat >"$out/work.sh" <<'WORK'
ls / /bin > /dev/null
for i in 1 2 3; do
    cat /proc/uptime > /dev/null
    dd if=/dev/zero of=/tmp/f$i bs=4096 count=8 2> /dev/null
    sync
    stat /tmp/f$i > /dev/null
done
usleep 20000; sleep 1
kill -0 1
ip link set lo up 2> /dev/null; ifconfig lo 127.0.0.1 up 2> /dev/null
nc -l -p 4242 > /tmp/got & sleep 0.1; echo hello | nc 127.0.0.1 4242; wait
su -s /bin/sh nobody -c true 2> /dev/null; chroot / true
WORK

here=()
for guest in "${guests[@]}"; do
    "$trapline" trace "debian/$guest" -l kprobe:vfs_read >/dev/null 2>&1 && here+=("$guest") || echo "debian/$guest is not on this computer" >&2
done

# Runs a script on a guest.
one() {
    local tool guest said=$out/$2.$1
    tool=$2 guest=$1
    rm -f "$said.ran"
    if "$trapline" trace "debian/$guest" "$tools/$tool.bt" --quiet --from-boot --script "$out/work.sh" --until 8s >"$said.out" 2>"$said.err"; then
        touch "$said.ran"
    fi
    echo "$tool on $guest" >&2
}
export -f one
export out tools trapline
names=()
for file in "$tools"/*.bt; do
    names+=("$(basename "$file" .bt)")
done
for guest in "${here[@]}"; do
    # The first run boots the guest and stores a snapshot, which the others use.
    one "$guest" "${names[0]}"
    printf '%s\n' "${names[@]:1}" | xargs -P "${JOBS:-2}" -I {} bash -c 'one "$0" "$1"' "$guest" {}
done

# Prints the first line with a number that is not a heading.
telling() {
    grep -v -e 'Ctrl-C' -e '^Attach' -e '^$' "$1" | grep -m 1 '[0-9]' | sed 's/[[:space:]]*$//; s/|/\\|/g' | cut -c 1-100 || true
}

{
    printf '| tool |'; printf ' %s |' "${here[@]}"; printf ' a line of its output on %s, or why it does not run |\n' "${here[0]}"
    printf '|---|'; printf -- '---|%.0s' "${here[@]}"; printf -- '---|\n'
    for tool in "${names[@]}"; do
        row="| $tool |" line= refusals=
        for guest in "${here[@]}"; do
            said=$out/$tool.$guest
            if [[ -e $said.ran ]]; then
                row+=' runs |'
                [[ $guest != "${here[0]}" ]] || line=$(telling "$said.out")
            else
                row+=' - |'
                why=$(sed -n 's/^error: //p' "$said.err" | head -n 1 | sed 's/|/\\|/g' | cut -c 1-120)
                # A reason that several guests have is shown once.
                [[ $refusals == *"$why"* ]] || refusals+="${refusals:+; }$why"
            fi
        done
        [[ -z $line ]] || line="\`$line\`"
        [[ -n $line || ! -e $out/$tool.${here[0]}.ran ]] || line='only its heading'
        echo "$row $line${line:+${refusals:+; elsewhere: }}$refusals |"
    done
} >"$out/table.md"

if [[ $write == yes ]]; then
    awk -v table="$out/table.md" '
        /^\| tool \|/ { while ((getline line < table) > 0) print line; inside = 1; next }
        inside && /^\|/ { next }
        { inside = 0; print }' docs/scripts.md >"$out/scripts.md"
    cp "$out/scripts.md" docs/scripts.md
else
    cat "$out/table.md"
fi
