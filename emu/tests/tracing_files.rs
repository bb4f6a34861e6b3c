//! Shell commands on tracing files in a file for `trapline run -f`: filters, triggers, histograms.
#![cfg(feature = "cpu")]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Said {
    status: i32,
    out: String,
    err: String,
}

/// Runs the tiny kernel with a file of these lines.
fn run(image: &str, lines: &str, options: &[&str]) -> Said {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("trapline-tracing-{}-{number}.sh", std::process::id()));
    std::fs::write(&file, lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    let output = command.args(["run", image, "-f"]).arg(&file).args(["--quiet"]).args(options).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// The lines of ftrace's text that are records.
fn records(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(": (")).collect()
}

/// DV-4: a file of echo and cat commands runs unchanged, and its filter, histogram and profile agree with the records.
#[test]
fn a_file_of_shell_commands_runs_as_it_is() {
    let all = run("tiny/x86_64", "p:read vfs_read count=$arg3:u32\n", &["--summary", "none"]);
    let counts: Vec<u64> = records(&all.out).iter().map(|line| line.rsplit('=').next().unwrap().parse().unwrap()).collect();
    let large = counts.iter().filter(|count| **count > 4).count();
    assert!(large > 0 && large < counts.len(), "the filter decides something: {counts:?}");
    let lines = "\
# as people have it
cd /sys/kernel/tracing
echo 'p:read vfs_read count=$arg3:u32' >> /sys/kernel/tracing/kprobe_events
echo 'count > 4' > events/kprobes/read/filter
echo 'hist:keys=count:sort=count' > /sys/kernel/debug/tracing/events/kprobes/read/trigger
echo 1 > events/kprobes/enable
cat events/kprobes/read/filter events/kprobes/read/enable kprobe_profile
cat events/kprobes/read/hist
";
    let said = run("tiny/x86_64", lines, &["--summary", "none"]);
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(said.out.contains("count > 4\n1*\n  read  "), "{}", said.out);
    let kept: Vec<u64> = records(&said.out).iter().map(|line| line.rsplit('=').next().unwrap().parse().unwrap()).collect();
    assert_eq!(kept, counts.iter().copied().filter(|count| *count > 4).collect::<Vec<_>>());
    // The histogram has no filter of its own, so it counts all hits.
    let mut sorted = counts.clone();
    sorted.sort_unstable();
    for same in sorted.chunk_by(|one, other| one == other) {
        let entry = format!("{{ count: {:>10} }} hitcount: {:>10}\n", same[0], same.len());
        assert!(said.out.contains(&entry), "{entry:?} is not in\n{}", said.out);
    }
    assert!(said.out.contains(&format!("Totals:\n    Hits: {}\n", counts.len())), "{}", said.out);
    let profile = said.out.lines().find(|line| line.starts_with("  read ")).unwrap();
    assert_eq!(profile.split_whitespace().collect::<Vec<_>>(), ["read", &counts.len().to_string(), "0"]);
}

/// DV-4: commands after a sleep are executed at their time, and traceoff stops later records.
#[test]
fn sleep_lets_guest_time_pass() {
    let lines = "\
echo 'p:read vfs_read count=$arg3:u32' > kprobe_events
echo 1 > events/kprobes/read/enable
cat trace
sleep 200us
echo 0 > events/kprobes/read/enable
cat kprobe_profile
sleep 200us
cat kprobe_profile
echo traceoff:1 > events/kprobes/read/trigger
echo 1 > events/kprobes/read/enable
sleep 100us
cat trace tracing_on events/kprobes/read/trigger
";
    let said = run("tiny/x86_64", lines, &["--summary", "none"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let profiles: Vec<&str> = said.out.lines().filter(|line| line.starts_with("  read ")).collect();
    assert!(profiles.len() == 2 && profiles[0] == profiles[1], "{profiles:?}");
    let hits: usize = profiles[0].split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(hits > 0);
    // The text of `cat trace`, and the records of the run behind it.
    assert_eq!(records(&said.out).len(), 2 * (hits + 1), "{}", said.out);
    assert!(said.out.contains("\n0\ntraceoff:count=0\n"), "{}", said.out);
}

/// DV-4: Linux's refusals have the same errno and text in the error log, and the other commands continue.
#[test]
fn refused_commands_are_shown_and_logged() {
    let lines = "\
echo 'p:read vfs_read count=$arg3:u32' >> kprobe_events
echo 'p:bad vfs_read x=%nothing' >> kprobe_events
echo 'count == \"x\"' > events/kprobes/read/filter
echo 'hist:keys=nothing' > events/kprobes/read/trigger
echo 1 > events/kprobes/none/enable
echo 1 > events/kprobes/read/enable
echo > kprobe_events
cat events/kprobes/read/filter error_log events/kprobes/read/enable
";
    let said = run("tiny/x86_64", lines, &["--summary", "none"]);
    assert_eq!(said.status, 1, "{}", said.err);
    let errors = ["EINVAL: the command failed", "ENOENT: the command failed", "EBUSY: the command failed"];
    for (error, times) in errors.into_iter().zip([3, 1, 1]) {
        assert_eq!(said.err.matches(error).count(), times, "{error}: {}", said.err);
    }
    let expected = [
        "count == \"x\"\n          ^\nparse_error: Expecting numeric field\n\n",
        "] trace_kprobe: error: Invalid register name\n  Command: p:bad vfs_read x=%nothing\n                            ^\n",
        "] event filter parse error: error: Expecting numeric field\n  Command: count == \"x\"\n                     ^\n",
        "] hist:kprobes:read: error: Couldn't find field\n  Command: hist:keys=nothing\n                     ^\n",
        "\n1\n",
    ];
    for text in expected {
        assert!(said.out.contains(text), "{text:?} is not in\n{}", said.out);
    }
}

/// DV-4: a filter of a group is in force for each of its events that has the filter's fields.
#[test]
fn a_filter_of_a_group_is_for_the_events_that_have_its_fields() {
    let lines = "\
echo 'p:other vfs_write' >> kprobe_events
echo 'p:read vfs_read count=$arg3:u32' >> kprobe_events
echo 'count > 1' > events/kprobes/filter
cat events/kprobes/read/filter
echo 'nothing > 1' > events/kprobes/filter
";
    let said = run("tiny/x86_64", lines, &["--summary", "none"]);
    assert_eq!(said.status, 1, "{}", said.err);
    assert!(said.out.contains("count > 1\n"), "{}", said.out);
    assert_eq!(said.err.matches("the command failed").count(), 1, "{}", said.err);
    assert!(said.err.contains("`nothing > 1`, column 9: "), "{}", said.err);
}

/// DV-4: with filters, triggers and histograms, the run is the same on every tiny kernel.
#[test]
fn filters_and_histograms_work_on_all_isas() {
    for builtin in trapline_images::builtins() {
        let lines = "\
echo 'p:read vfs_read count=$arg3:u32' >> kprobe_events
echo 'r:done vfs_read n=$retval:s32' >> kprobe_events
echo 'hist:keys=n:sort=n if n > 0' > events/kprobes/done/trigger
echo 'stacktrace:1' > events/kprobes/read/trigger
echo 'n > 0 && COMM != \"nobody\"' > events/kprobes/done/filter
echo 1 > events/kprobes/enable
cat events/kprobes/done/hist
";
        let said = run(builtin.name, lines, &["--summary", "none"]);
        assert_eq!(said.status, 0, "{}: {}", builtin.name, said.err);
        let done = records(&said.out).into_iter().filter(|line| line.contains(": done: ")).count();
        assert!(done > 0, "{}: {}", builtin.name, said.out);
        assert!(said.out.contains(&format!("    Hits: {done}\n")), "{}: {done}\n{}", builtin.name, said.out);
        assert_eq!(said.out.matches("<stack trace>").count(), 1, "{}", builtin.name);
    }
}
