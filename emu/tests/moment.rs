//! Compares the five letters in a trace line (interrupts, rescheduling, hard or soft interrupt, preemption, migration)
//! with those of the guest's own ftrace. Both trace the same calls.
//!
//! The kernels are those in `TRAPLINE_IMAGES` or the cache of `trapline images pull`. Tests without their kernel are
//! skipped.

use std::fs;
use std::process::{Command, ExitCode, Stdio};
use trapline_harness::guests::{self, Family, facts_of};
use trapline_harness::{self as harness, each};

/// Functions that every release has. They are called by programs, by the timer interrupt, by a soft interrupt, and by
/// the scheduler.
const FUNCTIONS: [&str; 5] = ["vfs_read", "update_process_times", "run_timer_softirq", "put_prev_task_fair", "enqueue_task_fair"];

/// Kernels of other suites, whose letters say more: a lazy reschedule, and a preempt count at each letter.
const NEWER: [&str; 1] = ["debian/riscv64@sid"];

/// Prints the output of the guest's function tracer as `@function letters`.
const SCRIPT: &str = "\
mkdir -p /t; mount -t tracefs t /t; cd /t
for f in FUNCTIONS; do echo $f; done > set_ftrace_filter
echo function > current_tracer
i=0; while [ $i -lt 4 ]; do cat /proc/version /proc/stat | wc > /dev/null & i=$((i+1)); done; wait; sleep 0.1
echo 0 > tracing_on
grep '<-' trace | sed 's/.*\\] \\(.....\\) .*: \\([a-z_]*\\) <-.*/@\\2 \\1/'
exit 0
";

/// The letters of one function, in order.
fn letters(lines: &str, function: &str, read: impl Fn(&str) -> Option<(&str, &str)>) -> Vec<String> {
    lines.lines().filter_map(read).filter(|(name, _)| *name == function).map(|(_, letters)| letters.to_string()).collect()
}

/// Parses a line of the guest: `@function letters`.
fn of_the_guest(line: &str) -> Option<(&str, &str)> {
    line.trim_end().strip_prefix('@')?.split_once(' ')
}

/// Parses a trace line of ours: `task-number [cpu] letters time: event: (place)`.
fn of_ours(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("] ")?;
    let letters = rest.get(..5)?;
    let mut parts = rest.get(6..)?.trim_start().split(": ");
    let (_time, event, place) = (parts.next()?, parts.next()?, parts.next()?);
    place.starts_with('(').then_some((event, letters))
}

/// DV-4: the preempt count is in the CPU's own data or in the task. trapline finds it by names, types or code. The
/// probes are placed behind the code that the guest's tracer patches.
fn letters_are_the_guests_own(name: &'static str) {
    let kernel = name.split_once('@').map_or(name, |(kernel, _)| kernel);
    let (process, behind) = (std::process::id(), facts_of(kernel).behind_ftrace);
    let script = std::env::temp_dir().join(format!("trapline-moment-{process}-{}", name.replace('/', "-")));
    fs::write(&script, SCRIPT.replace("FUNCTIONS", &FUNCTIONS.join(" "))).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command.args(["run", name, "--until", "60s", "--script"]).arg(&script).stdin(Stdio::null());
    for function in FUNCTIONS {
        command.args(["-e", &format!("p:{function} {function}+{behind}")]);
    }
    let output = command.output().expect("it runs");
    let _ = fs::remove_file(&script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}\n{said}", String::from_utf8_lossy(&output.stderr));
    let mut kinds = std::collections::BTreeSet::new();
    for function in FUNCTIONS {
        let guest = letters(&said, function, of_the_guest);
        let ours = letters(&said, function, of_ours);
        assert!(!guest.is_empty(), "{name}: {function}: the guest has traced nothing:\n{said}");
        // Ours began earlier and ended later.
        let is_in = ours.windows(guest.len()).any(|part| part == guest);
        assert!(is_in, "{name}: {function}: the guest says {guest:?}, we say {ours:?}");
        kinds.extend(guest);
    }
    println!("{name}: {kinds:?}");
    for letter in ['d', 'h', 's'] {
        assert!(kinds.iter().any(|kind| kind.contains(letter)), "{name}: no `{letter}` was ever to be told: {kinds:?}");
    }
}

fn main() -> ExitCode {
    let all = guests::stock_in(Family::Letters).chain(NEWER);
    harness::run([each!(all, letters_are_the_guests_own)])
}
