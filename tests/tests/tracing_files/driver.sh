# Runs one of Linux's tests of the tracing files (tools/testing/selftests/ftrace) against trapline: bash driver.sh FUNCTIONS TEST FOLDER.
#
# FOLDER/tracing has a copy of each tracing file, which the caller keeps up to date. A write to one of them is sent to the caller on standard
# output, as `append<TAB>file<TAB>file with the text`; its answer on standard input is the status. The exit status is the test's outcome.
exec 8<&0 9>&1 </dev/null >"$3/log" 2>&1
functions=$1 test=$2 folder=$3
export TMPDIR=$folder/tmp
testlog=$folder/testlog
: >"$testlog"

exit_pass() { exit 0; }
exit_fail() { exit 1; }
exit_unresolved() { exit 2; }
exit_untested() { exit 3; }
exit_unsupported() { exit 4; }
exit_xfail() { exit 5; }

# written COMMAND ARGUMENT...: prints the text, or sends it to the caller if standard output is one of the copies.
written() {
    local me=$BASHPID target flags status
    target=$(readlink "/proc/$me/fd/1")
    case $target in
        "$folder"/tracing/* | "$folder"/kprobes/*)
            flags=$(awk '/^flags/ { print $2 }' "/proc/$me/fdinfo/1")
            builtin "$@" >"$folder/text"
            builtin printf '%s\t%s\t%s\n' "$(((0$flags & 02000) != 0))" "$target" "$folder/text" >&9
            read -r status <&8
            return "$status"
            ;;
        *) builtin "$@" ;;
    esac
}
echo() { written echo "$@"; }
printf() { written printf "$@"; }
uname() { builtin echo x86_64; }
# The guest has no such module, and no module of the host is meant.
modprobe() { return 1; }
rmmod() { return 1; }
sleep() { :; }

cd "$folder/tracing" || exit 9
. "$functions"
(
    set -e
    eval check_requires "$(grep -E '^#[ \t]*requires:' "$test" | cut -f2- -d:)"
    set -x
    . "$test"
)
