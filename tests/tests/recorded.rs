//! Recorded runs: each guest must do what it did when the record file was written. Console, interrupts with their
//! addresses and times, and records must be equal.
//!
//! The other families compare two runs of one build. This one compares builds, so it shows whether a change of the time
//! accounting is visible to a guest. If a run changes for a good reason, `make recorded` writes the file again, and the
//! commit must give the reason.

use std::fmt::{Debug, Write};
use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::initramfs;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::snapshot::file::Key;
use trapline_harness::{self as harness, ForTest, Test, guests, tests};
use trapline_probes::events::set::EventSet;
use trapline_tests::{GUESTS, LONG, session};

/// The record file: one line per run, see [`HEAD`].
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded.tsv");
const HEAD: &str = "guest\tcpus\tprobes\tended\tconsole\thappenings\trecords";
/// If this variable is set, the file is written and nothing is compared.
const WRITE: &str = "TRAPLINE_RECORD_RUNS";

const SCRIPT: &[u8] = b"
echo hello from $(uname -m)
i=0; while [ $i -lt 5 ]; do cat /proc/version /proc/stat >/tmp/out; i=$((i+1)); done
cat /tmp/out | md5sum
sleep 1
exit 7
";
const LONGEST_BOOT: u64 = 60_000_000_000;
/// Records are read from the ring after each slice of guest time, in nanoseconds.
const SLICE: u64 = 5_000_000;

/// Events for the tiny kernels: function entries, which become jumps, and a place that keeps its breakpoint.
const TINY_EVENTS: &[&str] = &["p:read vfs_read", "r:back vfs_read n=$retval", "p:tick vfs_write", "r vfs_open n=$retval"];
const STOCK_EVENTS: &[&str] =
    &["p:open do_sys_openat2 file=+0($arg2):ustring flags=$arg3", "r:ret vfs_read n=$retval", "p __schedule"];

/// Runs a guest and returns its line for the file.
fn line(name: &str, cpus: usize, events: &[&str], session: &mut Session, longest: u64) -> String {
    let mut set = EventSet::default();
    session.with_engine(|engine, guest| {
        for event in events {
            // A kernel may lack some functions. Events on the others are the same in each run.
            let _ = set.apply(engine, guest, event);
        }
        set.enable_all(engine, guest, true).expect("they can be enabled");
        engine.set_optimization_delay(0);
    });
    let mut records = String::new();
    let mut count = 0;
    let stop = loop {
        let stop = session.run_until(session.machine().now().saturating_add(SLICE).min(longest));
        session.with_engine(|engine, _| {
            for record in std::iter::from_fn(|| engine.records().pop()) {
                let _ = writeln!(records, "{record:?}");
                count += 1;
            }
        });
        if stop != Stop::Limit || session.machine().now() >= longest {
            break stop;
        }
    };
    let text_work = format!("{:?}", session.text_work());
    let machine = session.machine_mut();
    let console = machine.take_console();
    let happenings = machine.happenings();
    let probes = if events.is_empty() { "none" } else { "some" };
    format!(
        "{name}\t{cpus}\t{probes}\t{stop:?} at {}\t{}\t{}\t{}",
        machine.time(),
        hashed(console.iter().filter(|byte| **byte == b'\n').count(), &console),
        hashed(happenings.len(), all(happenings).as_bytes()),
        hashed(count, (records + &text_work).as_bytes()),
    )
}

fn all<T: Debug>(things: &[T]) -> String {
    things.iter().fold(String::new(), |mut text, thing| {
        let _ = writeln!(text, "{thing:x?}");
        text
    })
}

/// A count and a hash.
fn hashed(count: usize, bytes: &[u8]) -> String {
    format!("{count} {:.16}", Key::hash(bytes))
}

/// Compares with the lines of the file, or writes them. Returns false if the file has no such lines.
#[must_use]
fn compare(lines: &[String]) -> bool {
    let known = std::fs::read_to_string(FILE).unwrap_or_default();
    let about = |line: &str| line.splitn(4, '\t').take(3).map(str::to_string).collect::<Vec<_>>();
    if std::env::var_os(WRITE).is_some() {
        let replaced = |old: &&str| *old != HEAD && lines.iter().all(|new| about(new) != about(old));
        let mut rows: Vec<String> = known.lines().filter(replaced).map(str::to_string).chain(lines.iter().cloned()).collect();
        rows.sort();
        std::fs::write(FILE, format!("{HEAD}\n{}\n", rows.join("\n"))).expect("the file can be written");
        return true;
    }
    for line in lines {
        let recorded = known.lines().find(|row| about(row) == about(line));
        let Some(recorded) = recorded else { return false };
        assert_eq!(recorded, line, "the columns: {HEAD}");
    }
    true
}

/// BY-4: the tiny kernels on one CPU and on two, with and without probes.
fn tiny_kernels_run_as_recorded() {
    let mut lines = Vec::new();
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            for events in [&[], TINY_EVENTS] {
                lines.push(line(name, cpus, events, &mut session(name, cpus), LONG));
            }
        }
    }
    assert!(compare(&lines), "a guest has no line in {FILE}: `make recorded` writes it");
}

/// The release on this computer. Each release has its own lines.
fn release(found: &ForTest) -> String {
    let file = found.local.kernel.file_name().unwrap_or_default().to_string_lossy();
    file.trim_end_matches(".xz").to_string()
}

/// The test of a stock kernel. It needs the kernel and a line for its release.
fn recorded(name: &'static str) -> Test {
    let mut need = harness::kernel(name);
    if need.missing.is_none() && std::env::var_os(WRITE).is_none() {
        let release = release(&harness::stock(name));
        let known = std::fs::read_to_string(FILE).unwrap_or_default();
        let is_known = known.lines().any(|line| line.starts_with(&format!("{release}\t")));
        need.missing = (!is_known).then(|| format!("lines of {release} in tests/recorded.tsv: make recorded"));
    }
    let test = Test::new(harness::member("stock_kernel_does_what_it_did", name), || stock_kernel_does_what_it_did(name));
    test.needs(need)
}

/// BY-4: a stock kernel from its entry to the end of a script.
fn stock_kernel_does_what_it_did(name: &str) {
    let found = harness::stock(name);
    let [file, busybox] = [&found.local.kernel, &found.busybox].map(|path| std::fs::read(path).expect("a file that was found"));
    let kernel = trapline::boot::Kernel::from_bytes(&file).expect("a kernel");
    let release = release(&found);
    let run = |events| {
        let initrd: Arc<[u8]> = initramfs::with_busybox(&busybox, Some(SCRIPT), &[]).into();
        let command_line = found.stock.command_line.to_string();
        let config = Config { command_line, initrd: Some(initrd), record_events: true, ..Config::default() };
        let mut session = Session::new(kernel.clone(), &config).expect("a machine");
        line(&release, 1, events, &mut session, LONGEST_BOOT)
    };
    assert!(compare(&[run(&[]), run(STOCK_EVENTS)]), "{release} has one line of two in {FILE}: `make recorded` writes them");
}

fn main() -> ExitCode {
    harness::run([tests![tiny_kernels_run_as_recorded], guests::stock().map(recorded).collect()])
}
