//! Tracepoints of stock kernels: the guest's own code writes their records, and the guest is not disturbed.
//!
//! Uses the kernels of the stock-boot family. If one is missing, its test is skipped.

use std::collections::BTreeMap;
use std::process::ExitCode;
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_harness::guests::{self, facts_of};
use trapline_harness::{self as harness, each};
use trapline_script::Options;
use trapline_script::attach::Attached;
use trapline_tests::stock::{AtShell, at_shell};
use trapline_tests::{Run, assert_same};

/// Kernels of other years: functions begin with `endbr64`, sites call preempt_schedule (6.12) or hold a lock (7.0 and later).
const NEWER: [&str; 9] = [
    "debian/amd64@bullseye",
    "debian/amd64@trixie",
    "debian/amd64@sid",
    "debian/arm64@sid",
    "debian/arm64-rt",
    "debian/ppc64el@bookworm-backports",
    "debian/s390x@bookworm-backports",
    "debian/s390x@sid",
    "debian/ppc64el@sid",
];
const LONG: u64 = 60_000_000_000;

/// Processes, files, a pipe, a signal, sleep; then the guest ends.
const BUSY: &[u8] =
    b"mkdir -p /t; ls / /bin | wc -l > /t/n; cat /proc/version > /dev/null; sleep 0.02; true & kill -0 $!; wait\n\
    dd if=/dev/zero of=/t/f bs=4096 count=16 2> /dev/null; sync; rm /t/f; exit 7\n";

fn session(stock: &AtShell, typed: &[u8]) -> Session {
    let mut session = stock.session();
    session.machine_mut().console_input(typed);
    session.machine_mut().console_input_ends();
    session
}

fn finished(session: &mut Session, stop: Stop) -> Run {
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

/// Runs the guest to its end under a script. Also returns the script's output and the misses of its probes.
fn traced(session: &mut Session, text: &str) -> (Run, String, BTreeMap<String, u64>) {
    let kernel = session.kernel().clone();
    let script =
        Script::compile(text, &Facts::of(&kernel), &Options::default()).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let mut scripts = [session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{text}: {error}"))];
    let stop = session.trace_until(&mut scripts, LONG);
    session.end_script(&mut scripts[0]);
    let (output, warnings) = session.take_script_output(&scripts[0]);
    assert_eq!(String::from_utf8_lossy(&warnings), "", "{text}");
    let mut missed = BTreeMap::new();
    for (name, attached) in scripts[0].probes() {
        if attached.missed() > 0 {
            missed.insert(name.clone(), attached.missed());
        }
        let Attached::Tracepoint(probes) = attached else { continue };
        for probe in probes.iter().filter(|probe| probe.nmissed() > 0) {
            let place = probe.address().map(|address| kernel.symbols.describe(address)).unwrap_or_default();
            println!("{name}: {place} missed {} hits", probe.nmissed());
        }
    }
    (finished(session, stop), String::from_utf8_lossy(&output).into_owned(), missed)
}

fn memory(session: &Session) -> Vec<u8> {
    let machine = session.machine();
    let mut bytes = vec![0; machine.guest_ram_bytes() as usize];
    assert!(machine.ram().read(machine.ram().base(), &mut bytes));
    bytes
}

fn counts(printed: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, count) = line.strip_prefix("@[")?.split_once("]: ")?;
        Some((name.to_string(), count.parse().ok()?))
    };
    printed.lines().filter_map(line).collect()
}

/// BY-1, BY-4: with a script on every tracepoint of a kernel, each interrupt comes at the same instruction and time as
/// without. The console is the same and, after the script has ended, every byte of memory.
fn a_guest_with_all_tracepoints_runs_the_same(name: &'static str) {
    let stock = at_shell(name);
    let mut plain = session(&stock, BUSY);
    let stop = plain.run_until(LONG);
    let expected = finished(&mut plain, stop);
    let mut probed = session(&stock, BUSY);
    let (seen, printed, missed) = traced(&mut probed, "tracepoint:*:* { @[probe] = count(); }");
    assert_same(name, &expected, &seen);
    let found = counts(&printed);
    let (least, expected): (usize, &[&str]) = match name {
        name if name.starts_with("debian/amd64") => {
            (50, &["sched:sched_switch", "sched:sched_wakeup", "irq:softirq_entry", "signal:signal_generate"])
        }
        _ => (30, &["sched:sched_switch", "sched:sched_wakeup", "irq:irq_handler_entry", "kmem:mm_page_alloc"]),
    };
    for event in ["sched:sched_process_exec", "timer:hrtimer_start"].iter().chain(expected) {
        assert!(found.get(&format!("tracepoint:{event}")).is_some_and(|count| *count > 0), "{name}: {event}:\n{printed}");
    }
    assert!(found.len() > least, "{name}: {} events", found.len());
    // Sites whose code does more than call the functions are counted. Few hits of usual events are at such sites.
    for event in expected.iter().map(|event| format!("tracepoint:{event}")) {
        let (missed, seen) = (missed.get(&event).unwrap_or(&0), found.get(&event).unwrap_or(&0));
        assert!(missed * 10 <= *seen, "{name}: {event} missed {missed} of {seen} hits");
    }
    if !name.contains("bullseye") && (name.starts_with("debian/amd64") || name.starts_with("debian/arm64")) {
        assert!(
            missed.get("tracepoint:mmap_lock:mmap_lock_start_locking").is_some_and(|count| *count > 50),
            "{name}: {missed:?}"
        );
    }
    if name.starts_with("debian/amd64") {
        // The scheduler only asks whether these are enabled.
        assert!(!missed.keys().any(|event| event.starts_with("tracepoint:sched:sched_stat")), "{name}: no event: {missed:?}");
    }
    println!("{name}: {} hits, {} missed", found.values().sum::<u64>(), missed.values().sum::<u64>());
    let session_base = plain.machine().ram().base();
    let (plain, probed) = (memory(&plain), memory(&probed));
    let differs = |at: &usize| plain[*at..at + 8] != probed[*at..at + 8];
    let differing: Vec<usize> = (0..plain.len()).step_by(8).filter(differs).collect();
    let kernel = &stock.kernel;
    let named = |at: &usize| {
        let physical = session_base + *at as u64;
        let segment = kernel.segments.iter().find(|segment| segment.loaded().contains(&physical));
        let symbol = segment.map(|segment| kernel.symbols.describe(segment.virtual_address + (physical - segment.physical)));
        format!("{physical:#x} {}: {:x?} {:x?}", symbol.unwrap_or_default(), &plain[*at..at + 8], &probed[*at..at + 8])
    };
    let first: Vec<String> = differing.iter().take(40).map(named).collect();
    assert!(differing.is_empty(), "{name}: {} words differ: {first:#?}", differing.len());
}

/// BY-1: raw tracepoint arguments agree with the record at the same hits, also if both are traced.
fn raw_arguments_agree_with_records(name: &'static str) {
    let text = "tracepoint:sched:sched_process_fork { @record[args.parent_pid, args.child_pid] = count(); }
        rawtracepoint:sched_process_fork { @raw[args.parent->pid, args.child->pid] = count(); @same[arg1 == (uint64)args.child] = count(); }
        rt:sched_process_exec { @image[str(args.bprm->filename)] = count(); }
        tracepoint:sched:sched_process_exec { @file[str(args.filename)] = count(); }";
    let stock = at_shell(name);
    let mut plain = session(&stock, BUSY);
    let stop = plain.run_until(LONG);
    let expected = finished(&mut plain, stop);
    let (seen, printed, missed) = traced(&mut session(&stock, BUSY), text);
    assert_same(name, &expected, &seen);
    let map = |map: &str| -> Vec<String> {
        let mut lines: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix(map)).map(String::from).collect();
        lines.sort();
        lines
    };
    assert!(map("@record[").len() > 5 && missed.is_empty(), "{name}: {missed:?} missed\n{printed}");
    assert_eq!(map("@record["), map("@raw["), "{name}");
    assert_eq!(map("@same["), [format!("1]: {}", map("@raw[").len())], "{name}");
    assert!(map("@image[").iter().any(|line| line.starts_with("/proc/self/exe]")), "{name}\n{printed}");
    assert_eq!(map("@image["), map("@file["), "{name}");
}

/// BY-1, BY-4: the one-liners of bpftrace's tutorial print the same about a guest as about a computer, and the guest
/// runs the same.
fn the_one_liners_of_the_tutorial_run(name: &'static str) {
    #[rustfmt::skip]
    let lines = [
        ("BEGIN { printf(\"hello world\\n\"); }",                                                      "hello world\n"),
        ("tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }",    " /proc/version\n"),
        ("tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }",                                   "@[sh]: "),
        ("tracepoint:syscalls:sys_exit_read /pid > 1/ { @bytes = hist(args.ret); }",                   "@bytes:\n"),
        ("kretprobe:vfs_read { @bytes = lhist(retval, 0, 2000, 200); }",                               "@bytes:\n[0, 200) "),
        ("kprobe:vfs_read { @start[tid] = nsecs; } kretprobe:vfs_read /@start[tid]/ { @ns[comm] = hist(nsecs - @start[tid]); delete(@start, tid); }", "@ns[dd]:\n"),
        ("tracepoint:sched:sched* { @[probe] = count(); } interval:s:50 { exit(); }",                  "@[tracepoint:sched:sched_switch]: "),
        ("profile:hz:999 { @[kstack] = count(); }",                                                    "@[\n        "),
        ("tracepoint:sched:sched_switch { @[kstack] = count(); }",                                     "        schedule+"),
        ("tracepoint:block:block_rq_issue { @ = hist(args.bytes); }",                                  ""),
        ("kprobe:vfs_open { printf(\"open path: %s\\n\", str(((struct path *)arg0)->dentry->d_name.name)); }", "open path: version\n"),
        ("software:page-faults:10 { @[comm] = count(); } software:minor-faults:1 { @minor = count(); }", "@minor: "),
        ("fentry:vfs_open { print(args); } fexit:vfs_open { @[retval] = count(); }",                   "{ .path = 0xffff"),
        ("tracepoint:sched:sched_process_exec { print(args); }",                                       "{ .filename = /proc/self/exe, .pid = "),
        ("tracepoint:syscalls:sys_enter_openat { print(args); }",                                      "{ .__syscall_nr = "),
        ("fentry:tcp_set_state { printf(\"%s %s\", TCP_LISTEN, (enum pid_type)1); } BEGIN { print(PIDTYPE_TGID); print((enum pid_type)1); }", "PIDTYPE_TGID\nPIDTYPE_TGID\n"),
    ];
    // Kernels with BTF for their data can print their own version.
    let knows_itself = ("BEGIN { cat(\"/proc/version\"); }", "Linux version 6.1.0-");
    let stock = at_shell(name);
    let mut plain = session(&stock, BUSY);
    let stop = plain.run_until(LONG);
    let expected = finished(&mut plain, stop);
    let more = (name == "debian/amd64").then_some(knows_itself);
    for (text, words) in lines.into_iter().chain(more) {
        let (seen, printed, missed) = traced(&mut session(&stock, BUSY), text);
        assert_same(&format!("{name}: {text}"), &expected, &seen);
        assert!(printed.contains(words) && missed.is_empty(), "{name}: {text}: {missed:?} missed\n{printed}");
    }
}

/// BY-1: `path()` resolves mounts, and system calls have their tracepoints' names.
fn files_and_system_calls_have_their_names(name: &'static str) {
    let text = "fentry:vfs_open { @open[path(args.path)] = count(); }
        tracepoint:raw_syscalls:sys_enter { @raw[syscall_name(args.id)] = count(); }
        tracepoint:raw_syscalls:sys_exit { @exit[syscall_name(args.id)] = count(); }
        tracepoint:syscalls:sys_enter_* { @call[probe] = count(); }";
    let stock = at_shell(name);
    let (_, printed, _) = traced(&mut session(&stock, BUSY), text);
    for path in ["/proc/version", "/dev/null", "/t/n", "/t/f", "/bin"] {
        assert!(printed.contains(&format!("@open[{path}]: ")), "{name}: {path}\n{printed}");
    }
    let names = |map: &str| -> BTreeMap<String, String> {
        let lines = printed.lines().filter_map(|line| line.strip_prefix(map)?.split_once("]: "));
        lines.map(|(name, count)| (name.replace("new", "").replace("sendfile64", "sendfile"), count.to_string())).collect()
    };
    let (raw, calls) = (names("@raw["), names("@call[tracepoint:syscalls:sys_enter_"));
    assert!(raw.len() > 20, "{name}\n{printed}");
    for (call, count) in &calls {
        assert_eq!(raw.get(call), Some(count), "{name}: {call}\n{printed}");
    }
    assert!(calls.len() > 20, "{name}\n{printed}");
    let exits = names("@exit[");
    for call in ["openat", "close", "brk"] {
        assert_eq!(exits.get(call), raw.get(call), "{name}: {call}\n{printed}");
    }
}

/// BY-1: fields have the values that the guest's own tracer prints for the same events.
fn fields_equal_those_of_the_guests_own_tracer(name: &'static str) {
    const EVENTS: [&str; 2] = ["sched_process_exec", "sched_process_fork"];
    let stock = at_shell(name);
    let enable: String = EVENTS.iter().map(|event| format!("echo 1 > events/sched/{event}/enable; ")).collect();
    let typed =
        format!("mkdir -p /t; mount -t tracefs t /t; cd /t; {enable} /bin/true; ls / > /dev/null; cd /; cat /t/trace; exit 7\n");
    let mut own = session(&stock, typed.as_bytes());
    let stop = own.run_until(LONG);
    let console = finished(&mut own, stop).console;
    let field = |line: &str, name: &str| {
        line.split_once(&format!("{name}=")).map(|(_, rest)| rest.split_whitespace().next().unwrap_or("").to_string())
    };
    let execs: Vec<(String, String)> = console
        .lines()
        .filter(|line| line.contains(" sched_process_exec: "))
        .filter_map(|line| Some((field(line, "filename")?, field(line, "pid")?)))
        .collect();
    let forks: Vec<(String, String)> = console
        .lines()
        .filter(|line| line.contains(" sched_process_fork: "))
        .filter_map(|line| Some((field(line, " comm")?, field(line, "child_pid")?)))
        .collect();
    assert!(execs.len() >= 2 && forks.len() >= 2, "{name}: {console}");

    // Run the same commands without the guest's tracer; the processes are the same.
    let quiet = typed.replace("echo 1 >", "echo 0 >");
    let (_, printed, _) = traced(
        &mut session(&stock, quiet.as_bytes()),
        "tracepoint:sched:sched_process_exec { printf(\"exec %s %d\\n\", args.filename, args.pid); }
         tracepoint:sched:sched_process_fork { printf(\"fork %s %d\\n\", args.parent_comm, args.child_pid); }",
    );
    let lines = |kind: &str| -> Vec<(String, String)> {
        let of_kind = printed.lines().filter_map(|line| line.strip_prefix(kind)?.trim().rsplit_once(' '));
        of_kind.map(|(text, pid)| (text.to_string(), pid.to_string())).collect()
    };
    for (kind, expected) in [("exec", &execs), ("fork", &forks)] {
        let seen = lines(kind);
        assert!(
            expected.iter().all(|event| seen.contains(event)),
            "{name}: {kind}: the guest's tracer shows {expected:?}, we {seen:?}"
        );
    }
}

fn main() -> ExitCode {
    let newer = each!(NEWER, a_guest_with_all_tracepoints_runs_the_same, raw_arguments_agree_with_records);
    let usual = each!(
        guests::stock().filter(|name| facts_of(name).types.is_some()),
        a_guest_with_all_tracepoints_runs_the_same,
        raw_arguments_agree_with_records,
        the_one_liners_of_the_tutorial_run,
        files_and_system_calls_have_their_names,
        fields_equal_those_of_the_guests_own_tracer
    );
    harness::run([usual, newer])
}
