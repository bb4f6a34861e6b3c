#!/usr/bin/env bash
# Runs the unmodified scripts of Debian's package `bpftrace` on stock kernels, and prints the table of docs/scripts.md: the guests on which
# each script runs, and a line of its output on the first guest, or the reason why it does not run.
#
#   scripts/tools.sh [--write | --fetch] [FOLDER]     FOLDER: the folder with the .bt files; without it, apt-get downloads the package
#   --write                                           updates the table in docs/scripts.md
#   --fetch                                           only prepares target/tools, for the test of the scripts that probe programs
#
# The guest's userland is busybox. Scripts that probe other programs get those of this computer, with their libraries, in the guest of its
# architecture: bash, getent, openssl and xz.
#
# Images are searched as tests do; guests without an image are skipped. The output of each run stays in target/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

guests=(amd64 arm64 i386 armhf)
trapline=${TRAPLINE:-target/debug/trapline}
out=target/tools
mkdir -p "$out"
write=no fetch=no
case ${1:-} in
--write) write=yes && shift ;;
--fetch) fetch=yes && shift ;;
esac
tools=${1:-$out/package/usr/sbin}
if [[ ! -d $tools ]]; then
    echo "fetching Debian's package bpftrace" >&2
    (cd "$out" && apt-get download bpftrace >&2)
    dpkg-deb -x "$out"/bpftrace_*.deb "$out/package"
fi

# Copies a program and its libraries to the folder of the guest's programs.
bring() {
    local from
    from=$(command -v "$1") || return 0
    for from in "$from" $(ldd "$from" | grep -o '/[^ ]*'); do
        mkdir -p "$out/root/$(dirname "$from")"
        cp -L "$from" "$out/root/$from"
    done
}
native=$(dpkg --print-architecture)
rm -rf "$out/root"
for program in bash getent openssl xz; do
    bring "$program"
done
# Debian's /bin is /usr/bin; scripts name /bin/bash.
[[ ! -e $out/root/usr/bin/bash ]] || { mkdir -p "$out/root/bin" && mv "$out/root/usr/bin/bash" "$out/root/bin/bash"; }
mkdir -p "$out/root/etc"
echo '127.0.0.1 localhost' >"$out/root/etc/hosts"
echo 'hosts: files' >"$out/root/etc/nsswitch.conf"
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 36500 -keyout "$out/root/etc/key.pem" -out "$out/root/etc/cert.pem" 2>/dev/null
fi

# The workload of the scripts that probe programs.
cat >"$out/programs.work" <<'WORK'
PATH=/usr/bin:$PATH
ip link set lo up 2> /dev/null; ifconfig lo 127.0.0.1 up 2> /dev/null
printf 'echo from bash\nexit\n' | bash --norc -i
getent ahosts localhost
head -c 300000 /bin/busybox | /usr/bin/xz -0 -T2 --block-size=65536 | wc -c
openssl s_server -accept 4433 -cert /etc/cert.pem -key /etc/key.pem -naccept 1 -www > /dev/null 2>&1 &
sleep 1
printf 'GET / HTTP/1.0\r\n\r\n' | timeout 20 openssl s_client -connect 127.0.0.1:4433 -quiet 2> /dev/null | head -n 3
wait
exit 0
WORK
[[ $fetch == no ]] || exit 0
[[ -x $trapline ]] || { echo "$trapline is missing: cargo build --package trapline" >&2; exit 1; }

# The workload of the others.
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
    local how=(--from-boot --script "$out/work.sh" --until 8s)
    if [[ $guest == "$native" ]] && grep -q '^u\(ret\)\?probe:' "$tools/$tool.bt"; then
        # A program is one of a guest that boots with it.
        how=(--bpftrace-output old --script "$out/programs.work" --until 60s)
        local file
        while read -r file; do
            how+=(--push "$out/root/$file:/$file")
        done < <(cd "$out/root" && find . -type f | cut -c 3-)
    fi
    if "$trapline" trace "debian/$guest" "$tools/$tool.bt" --quiet "${how[@]}" >"$said.out" 2>"$said.err"; then
        touch "$said.ran"
    fi
    echo "$tool on $guest" >&2
}
export -f one
export native out tools trapline
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
