//! Scripts in bpftrace's language on every guest. They see what handlers see, and do not disturb the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script, Tracing};
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_script::Options;
use trapline_tests::{GUESTS, LONG, Run, assert_same, kernel, run, session};

fn start(session: &mut Session, text: &str, options: &Options) -> Tracing {
    let kernel = session.kernel().clone();
    let script = Script::compile(text, &Facts::of(&kernel), options).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Runs the guest to its end under a script. Also returns the script's output.
fn traced(session: &mut Session, text: &str, options: &Options) -> (Run, String) {
    let mut scripts = [start(session, text, options)];
    let stop = session.trace_until(&mut scripts, LONG);
    session.end_script(&mut scripts[0]);
    let (output, warnings) = session.take_script_output(&scripts[0]);
    assert_eq!(String::from_utf8_lossy(&warnings), "", "{text}");
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let run = Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() };
    (run, String::from_utf8_lossy(&output).into_owned())
}

/// BY-1: counts, arguments and results equal those that handlers in Rust see.
#[test]
fn a_script_sees_what_handlers_see() {
    let text = "kprobe:vfs_read { @calls = count(); @asked = sum(arg2); @by[comm, tid] = count(); }
        kretprobe:vfs_read { @got = sum(retval); @places[func] = count(); }";
    for (arch, name) in GUESTS.iter() {
        let (asked, got) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut watched = session(name, 1);
        let (sum, results) = (Arc::clone(&asked), Arc::clone(&got));
        let calls = Kprobe::at("vfs_read").pre(move |hit| {
            sum.fetch_add(hit.arg(2), Ordering::Relaxed);
            Flow::Continue
        });
        let returns = Kretprobe::at("vfs_read").maxactive(1024).handler(move |hit| {
            results.fetch_add(hit.return_value(), Ordering::Relaxed);
        });
        watched.register_kprobe(&calls).expect("vfs_read can be probed");
        watched.register_kretprobe(&returns).expect("vfs_read can be probed");
        run(&mut watched);

        let (_, printed) = traced(&mut session(name, 1), text, &Options::default());
        let value = |map: &str| {
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{map}: ")))
                .unwrap_or_else(|| panic!("{name}: no {map}: in\n{printed}"));
            line.parse::<u64>().unwrap_or_else(|_| panic!("{name}: {map}: {line}"))
        };
        assert!(calls.hits() > 10, "{name}");
        assert_eq!(value("@calls"), calls.hits(), "{name}");
        assert_eq!(value("@asked"), asked.load(Ordering::Relaxed), "{name}");
        assert_eq!(value("@got"), got.load(Ordering::Relaxed), "{name}, {arch:?}");
        assert_eq!(value("@places[vfs_read]"), returns.returns(), "{name}");
        let by_task: u64 = printed
            .lines()
            .filter(|line| line.starts_with("@by["))
            .filter_map(|line| line.rsplit(": ").next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(by_task, calls.hits(), "{name}");
    }
}

/// BY-1, BY-4: a guest under a script with probes, wildcards and timers runs as unprobed, on one CPU and on two.
#[test]
fn a_traced_run_is_the_same_run() {
    let text = "BEGIN { @start = nsecs; } kprobe:vfs_*, kprobe:sys_* { @[func] = count(); @last[tid] = nsecs; printf(\"%d %s\\n\", pid, comm); }
        kretprobe:vfs_* /@last[tid]/ { @took = hist(nsecs - @last[tid]); delete(@last, tid); }
        profile:us:70 { @running[cpu, tid] = count(); } software:cpu-clock:90000 { @clock = count(); } software:context-switches:2 { @switches = count(); }
        interval:us:50 { @ticks = count(); @stacks[kstack(3)] = count(); } END { clear(@last); }";
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            let (seen, printed) = traced(&mut session(name, cpus), text, &Options::default());
            assert_same(&format!("{name}, {cpus} CPUs"), &plain, &seen);
            let (_, again) = traced(&mut session(name, cpus), text, &Options::default());
            assert_eq!(printed, again, "{name}, {cpus} CPUs: the same output every time");
            assert!(printed.contains("@took:\n") && printed.contains("@[vfs_read]: "), "{name}:\n{printed}");
            assert!(printed.contains("@switches: "), "{name}, {cpus} CPUs:\n{printed}");
            let ticks: u64 = printed.lines().find_map(|line| line.strip_prefix("@ticks: ")?.parse().ok()).unwrap_or(0);
            assert_eq!(ticks, seen.time / 4 / 50_000, "{name}, {cpus} CPUs: a tick every 50 us of guest time");
        }
    }
}

/// BY-1: an overridden function does not run, and its caller gets the given value.
#[test]
fn an_overridden_function_does_not_run() {
    let allowed = Options { allows_unsafe: true, ..Options::default() };
    let text = "kprobe:vfs_read { @calls = count(); override(7); }";
    for (_, name) in GUESTS.iter() {
        let kernel = kernel(name);
        let refused = Script::compile(text, &Facts::of(&kernel), &Options::default()).expect_err("override is unsafe");
        assert!(refused[0].message.contains("unsafe"), "{name}: {refused:?}");

        let mut guest = session(name, 1);
        let function = kernel.symbols.find("vfs_read").expect("the kernel has it");
        let inside = kernel_second_instruction(&kernel, function.start, function.start + function.size);
        let behind = Kprobe::at_address(inside).pre(|_| Flow::Continue);
        guest.register_kprobe(&behind).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let mut scripts = [start(&mut guest, text, &allowed)];
        guest.trace_until(&mut scripts, LONG / 100);
        guest.end_script(&mut scripts[0]);
        let (output, _) = guest.take_script_output(&scripts[0]);
        let output = String::from_utf8_lossy(&output).into_owned();
        let calls: u64 = output.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse().ok()).unwrap_or(0);
        assert!(calls > 0, "{name}:\n{output}");
        assert_eq!(behind.hits(), 0, "{name}: the function ran");
    }
}

/// The address of an instruction soon after the entry that can be probed.
fn kernel_second_instruction(kernel: &trapline::boot::Kernel, start: u64, end: u64) -> u64 {
    let walk = trapline_isa::function::walk(kernel.arch.isa(), start, end, |at, into: &mut [u8]| kernel.read(at, into));
    walk.map_while(Result::ok).map(|insn| insn.address).nth(2).expect("a function has some instructions")
}

/// BY-1: a script's output is in the order of guest time, and `exit()` ends tracing.
#[test]
fn a_script_ends_tracing() {
    let text = "kprobe:vfs_read { @n++; printf(\"%d\\n\", @n); if (@n == 3) { exit(); } } END { printf(\"end\\n\"); clear(@n); }";
    for (_, name) in GUESTS.iter() {
        let (_, printed) = traced(&mut session(name, 1), text, &Options::default());
        assert_eq!(printed, "1\n2\n3\nend\n\n\n", "{name}");
    }
}
