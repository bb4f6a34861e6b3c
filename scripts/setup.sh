#!/usr/bin/env bash
# Checks that everything a Makefile target needs is installed. Prints nothing if it is.
#
#   scripts/setup.sh NEED...     NEED: build, test, opinions, readers, clusters, licences, fuzz, budget, machines
#
# On Debian and Ubuntu, as root or with sudo, missing packages are installed by apt-get. Elsewhere, or with NO_INSTALL=1, the script
# lists them with the command that installs them, and exits with status 1. Subcommands of cargo come from crates.io.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The versions to install. Any version that is already installed is accepted.
readonly NEXTEST=0.9.143 DENY=0.20.2 FUZZ=0.13.2 PERFETTO=0.59.1 DRGN=0.3.0 KUBERNETES=1.37.0

missing=()  # descriptions for the user
packages=() # the Debian packages that provide them

# lack DESCRIPTION PACKAGE...: records that something is missing.
lack() {
    missing+=("$1")
    shift
    packages+=("$@")
}

have() { command -v "$1" >/dev/null 2>&1; }

# Searches libclang as bindgen does: in LIBCLANG_PATH if it is set, else in the usual folders.
have_libclang() {
    local places=(/usr/lib/llvm-*/lib /usr/lib64 /usr/lib /usr/lib/*-linux-gnu /usr/lib64/llvm*/lib /usr/local/lib) place
    [[ -z ${LIBCLANG_PATH:-} ]] || places=("$LIBCLANG_PATH")
    for place in "${places[@]}"; do
        compgen -G "$place/libclang.so*" >/dev/null && return
        compgen -G "$place/libclang-[0-9]*.so*" >/dev/null && return
    done
    return 1
}

# bindgen also needs the compiler headers, such as stddef.h, which are not part of libclang.
have_clang_headers() {
    compgen -G '/usr/lib*/llvm*/lib*/clang/*/include/stddef.h' >/dev/null ||
        compgen -G '/usr/lib*/clang/*/include/stddef.h' >/dev/null ||
        { have clang && [[ -e $(clang -print-resource-dir)/include/stddef.h ]]; }
}

compiles_32_bit() {
    gcc -m32 -ffreestanding -x c -c -o /dev/null - 2>/dev/null <<<'int one(void) { return 1; }'
}

look_for_build_tools() {
    if ! have gcc; then
        lack "gcc, the C compiler (Unicorn, and the guest kernel's test build)" gcc libc6-dev
    elif ! compiles_32_bit; then
        lack "gcc that compiles for i386 too (gcc -m32 does not; the guest kernel is built for i386)" gcc-multilib
    fi
    have make || lack "make (Unicorn's build)" make
    have cmake || lack "cmake (Unicorn's build)" cmake
    have pkg-config || lack "pkg-config (Unicorn's configure script stops without it)" pkg-config
    if ! have_libclang || ! have_clang_headers; then
        lack "libclang with its headers (bindgen reads Unicorn's declarations with it)" libclang-dev
    fi
}

look_for_budget_tools() {
    have valgrind || lack "valgrind (callgrind counts the instructions)" valgrind
}

# The emulators that benches/src/bin/machine/contest.rs compares with.
look_for_rivals() {
    have qemu-system-x86_64 && have qemu-system-i386 || lack "qemu-system-x86_64 and qemu-system-i386 (the benchmarks compare with them)" qemu-system-x86
    have qemu-system-aarch64 && have qemu-system-arm || lack "qemu-system-aarch64 and qemu-system-arm (the benchmarks compare with them)" qemu-system-arm
    have qemu-system-riscv64 || lack "qemu-system-riscv64 (the benchmarks compare with it)" qemu-system-misc
}

# The emulators that tests/tests/user_mode and riscv_programs compare with, and the disassemblers of tests/tests/binutils.rs,
# isa/tests/ia64_objdump.rs and opinions.
look_for_other_emulators() {
    have qemu-sparc64-static || lack "qemu-sparc64-static (tests of SPARC and RISC-V programs compare with it)" qemu-user-static
    have hppa-linux-gnu-objdump || lack "hppa-linux-gnu-objdump (a test of PA-RISC's disassembly compares with it)" binutils-hppa-linux-gnu
    local tuple
    have objdump || lack "objdump (tests compare our decoders with it)" binutils
    for tuple in aarch64-linux-gnu arm-linux-gnueabihf powerpc64le-linux-gnu s390x-linux-gnu mipsel-linux-gnu mips64el-linux-gnuabi64 \
        riscv64-linux-gnu ia64-linux-gnu; do
        have "$tuple-objdump" || lack "$tuple-objdump (tests compare our decoders with it)" "binutils-$tuple"
    done
}

# The programs that open what trapline writes. Tests ask them what they have read.
look_for_readers() {
    have genhtml || lack "genhtml (tests let it read coverage)" lcov
    have chromium || lack "chromium (tests open reports with it)" chromium
    have perf || lack "perf (tests compare source lines and variables with it)" linux-perf
    have gdb-multiarch || lack "gdb-multiarch (tests let it walk guests of every ISA)" gdb-multiarch
    have trace-cmd || lack "trace-cmd (tests let it read trace.dat)" trace-cmd
    have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null || lack "python3 with venv (tests read Perfetto's files with it)" python3-venv
}

# A whole Slurm for the tests of sweeps on clusters, and the Python for the validator of Kubernetes' manifests.
look_for_clusters() {
    [[ -x /usr/sbin/slurmctld && -x /usr/sbin/slurmd ]] && have sbatch || lack "Slurm (tests run a sweep on it)" slurm-wlm
    have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null || lack "python3 with venv (tests validate manifests for Kubernetes with it)" python3-venv
}

look_for_fuzz_tools() {
    have c++ || lack "c++, the C++ compiler (libFuzzer)" g++
}

# as_root: prints the command that becomes root; fails if there is none.
as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        echo ""
    elif have sudo && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
        echo "sudo"
    else
        return 1
    fi
}

say_what_is_missing() {
    echo "These are missing, and trapline needs them:"
    printf '  - %s\n' "${missing[@]}"
    echo "$1"
    echo "    $2"
}

install_what_is_missing() {
    [[ ${#missing[@]} -eq 0 ]] && return
    local command="apt-get install -y --no-install-recommends ${packages[*]}" root
    if ! have apt-get; then
        say_what_is_missing "This is no Debian-like system (there is no apt-get). Install the corresponding packages. On Debian the command is:" "$command" >&2
        exit 1
    fi
    if [[ -n ${NO_INSTALL:-} ]] || ! root=$(as_root); then
        local why="Not root, and sudo needs a password or is not installed. Run:"
        [[ -n ${NO_INSTALL:-} ]] && why="NO_INSTALL is set, so nothing was installed. Run:"
        say_what_is_missing "$why" "sudo $command" >&2
        exit 1
    fi
    echo "setup: installing by apt-get: ${packages[*]}"
    $root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    # shellcheck disable=SC2086 # the command is words
    $root env DEBIAN_FRONTEND=noninteractive $command

    missing=()
    packages=()
    look_for_all
    if [[ ${#missing[@]} -ne 0 ]]; then
        say_what_is_missing "apt-get installed the packages, but these are still not found. The command was:" "$command" >&2
        exit 1
    fi
}

# Rust does not come from apt, because Debian's version is too old.
require_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! have cargo || ! have rustc; then
        echo "trapline needs Rust $wanted or newer, and there is no cargo here: install it from https://rustup.rs" >&2
        exit 1
    fi
    found=$(rustc --version | sed -E 's/^rustc ([0-9]+\.[0-9]+).*/\1/')
    if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
        echo "trapline needs Rust $wanted or newer, this is $found: run 'rustup update stable'" >&2
        exit 1
    fi
}

# cargo_tool NAME VERSION [FLAG]...: compiles a subcommand of cargo if it is not installed.
cargo_tool() {
    local name=$1 version=$2
    shift 2
    have "$name" || [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/$name ]] && return
    if [[ -n ${NO_INSTALL:-} ]]; then
        echo "$name is missing, and NO_INSTALL is set. Install it with: cargo install $name --version $version --locked $*" >&2
        exit 1
    fi
    echo "setup: compiling $name $version once; this takes some minutes"
    # --debug halves the compile time; these tools mostly wait for other programs.
    cargo install "$name" --version "$version" --locked --debug "$@"
}

# Perfetto's protobuf classes come from PyPI, into a folder of their own.
bring_perfetto_classes() {
    local python=target/readers/bin/python3
    "$python" -c 'import perfetto' 2>/dev/null && return
    if [[ -n ${NO_INSTALL:-} ]]; then
        echo "Perfetto's Python classes are missing, and NO_INSTALL is set. Install them with: python3 -m venv target/readers && $python -m pip install perfetto==$PERFETTO" >&2
        exit 1
    fi
    python3 -m venv target/readers
    "$python" -m pip install --quiet "perfetto==$PERFETTO"
}

# drgn comes from PyPI, into the same folder. It reads core dumps.
bring_drgn() {
    local python=target/readers/bin/python3
    "$python" -c 'import drgn' 2>/dev/null && return
    if [[ -n ${NO_INSTALL:-} ]]; then
        echo "drgn is missing, and NO_INSTALL is set. Install it with: python3 -m venv target/readers && $python -m pip install drgn==$DRGN" >&2
        exit 1
    fi
    [[ -x $python ]] || python3 -m venv target/readers
    "$python" -m pip install --quiet "drgn==$DRGN"
}

# The validator of Kubernetes' manifests comes from PyPI, beside Perfetto's classes. It holds the schemas and needs no cluster.
bring_kubernetes_schema() {
    local python=target/readers/bin/python3
    "$python" -c 'import kubernetes_validate' 2>/dev/null && return
    if [[ -n ${NO_INSTALL:-} ]]; then
        echo "kubernetes-validate is missing, and NO_INSTALL is set. Install it with: python3 -m venv target/readers && $python -m pip install kubernetes-validate==$KUBERNETES" >&2
        exit 1
    fi
    [[ -x $python ]] || python3 -m venv target/readers
    "$python" -m pip install --quiet "kubernetes-validate==$KUBERNETES"
}

# Without it the installed QEMU is what trapline is compared with.
bring_newest_qemu() {
    [[ -z ${NO_INSTALL:-} ]] || return 0
    scripts/peer.sh --quiet >/dev/null || echo "setup: the newest QEMU cannot be had now; the figures compare with the last one that was, or with the installed one" >&2
}

needs=("$@")
[[ $# -gt 0 ]] || needs=(build)

look_for_all() {
    local need
    for need in "${needs[@]}"; do
        case $need in
            build | test | licences) ;;
            opinions) look_for_other_emulators ;;
            readers) look_for_readers ;;
            clusters) look_for_clusters ;;
            fuzz) look_for_fuzz_tools ;;
            budget) look_for_budget_tools ;;
            machines) look_for_rivals ;;
            *)
                echo "setup.sh: unknown need '$need' (build, test, opinions, readers, clusters, licences, fuzz, budget, machines)" >&2
                exit 2
                ;;
        esac
    done
    look_for_build_tools
}

look_for_all
install_what_is_missing
require_rust
for need in "${needs[@]}"; do
    case $need in
        test) cargo_tool cargo-nextest "$NEXTEST" --no-default-features --features default-no-update ;;
        licences) cargo_tool cargo-deny "$DENY" ;;
        fuzz) cargo_tool cargo-fuzz "$FUZZ" ;;
        machines) bring_newest_qemu ;;
        readers)
            bring_perfetto_classes
            bring_drgn
            ;;
        clusters) bring_kubernetes_schema ;;
    esac
done
