//! Stacks that scripts and events show must equal those that the guest's own kernel prints at the same time. User-space
//! pcs must be at the system call.
//!
//! Uses the kernels of the stock-boot family. If one is missing, its test is skipped.

use std::process::ExitCode;
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_harness::guests::{self, Family, Types, facts_of};
use trapline_harness::{self as harness, each};
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::trace;
use trapline_script::Options;
use trapline_tests::stacks::{named_by_guest, named_by_script};
use trapline_tests::stock::{AtShell, at_shell};

const LONG: u64 = 60_000_000_000;

/// Types a command under a script. Returns the guest's output and the script's.
fn traced(stock: &AtShell, typed: &[u8], text: &str) -> (String, String) {
    let mut session: Session = stock.session();
    session.machine_mut().take_console();
    session.machine_mut().console_input(typed);
    session.machine_mut().console_input_ends();
    let kernel = session.kernel().clone();
    let script = Script::compile(text, &Facts::of(&kernel), &Options::default());
    let script = script.unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let mut scripts = [session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{text}: {error}"))];
    session.trace_until(&mut scripts, LONG);
    session.end_script(&mut scripts[0]);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    (console, String::from_utf8_lossy(&session.take_script_output(&scripts[0]).0).into_owned())
}

/// BY-1: by ORC, frame pointers, frame records, unwind tables, back chains or function prologues, as each kernel has them.
fn shows_what_the_guest_shows(name: &'static str) {
    let stock = at_shell(name);
    // The kernel function that saves a task's stack for /proc/self/stack.
    let script = "kprobe:stack_trace_save_tsk { printf(\"%s\", kstack); exit(); }";
    let typed = b"mkdir -p /proc; mount -t proc proc /proc 2>/dev/null; cat /proc/self/stack; exit 7\n";
    let (_, printed) = traced(&stock, typed, script);
    let (console, _) = traced(&stock, typed, "BEGIN { }");
    let (mut guest, script) = (named_by_guest(&console), named_by_script(&printed));
    // The MIPS kernel lists the unwinding function itself, too.
    guest.retain(|(function, _)| function != "stack_trace_save_tsk");
    assert!(guest.len() > 5, "{name}: {console}");
    let entry = u64::from(facts_of(name).entry);
    assert_eq!(script.first().map(|(name, at)| (name.as_str(), *at)), Some(("stack_trace_save_tsk", entry)), "{name}: {printed}");
    let from = script.iter().position(|call| Some(call) == guest.first());
    let from = from.unwrap_or_else(|| panic!("{name}: {guest:?}\n{script:?}"));
    assert!((1..4).contains(&from), "{name}: {script:?}");
    // The frames of the kernel entry differ between unwinders.
    let same = guest.iter().zip(&script[from..]).take_while(|(one, other)| one == other).count();
    assert!(same + 1 >= guest.len(), "{name}: the guest {guest:?}\nwe {script:?}");
}

/// BY-1: a timer shows the kernel's whole stack. Followed calls leave the return pad's address on it; the script sees the
/// true addresses, so the stacks are those of a run without return probes.
fn timers_see_the_whole_stack(name: &'static str) {
    let stock = at_shell(name);
    let typed = b"ls -lR /proc/sys > /dev/null; exit 7\n";
    let timer = "profile:us:100 { @[kstack] = count(); }";
    let stacks = |printed: &str| -> Vec<String> {
        let all = printed.split("@[\n").skip(1);
        // The calls of a task are forgotten when it dies, shortly before it leaves the CPU.
        all.filter(|stack| !stack.contains("do_exit"))
            .map(|stack| stack.split("@calls").next().unwrap_or("").trim().to_string())
            .collect()
    };
    let (_, plain) = traced(&stock, typed, timer);
    let plain = stacks(&plain);
    let deepest = plain.iter().map(|stack| stack.lines().count()).max();
    assert!(plain.len() > 10 && deepest > Some(8), "{name}: {} stacks, {deepest:?} lines at most", plain.len());
    let followed =
        format!("{timer} kretprobe:vfs_*, kretprobe:ksys_*, kretprobe:do_sys_*, kretprobe:proc_* {{ @calls = count(); }}");
    let (_, probed) = traced(&stock, typed, &followed);
    let calls = probed.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse::<u64>().ok());
    assert!(calls > Some(1000), "{name}: {calls:?}");
    let probed = stacks(&probed);
    let differ = plain.iter().zip(&probed).find(|(one, other)| one != other);
    assert!(differ.is_none() && plain.len() == probed.len(), "{name}: {} and {} stacks: {differ:#?}", plain.len(), probed.len());
}

/// BY-1, DV-4: the stacks of an event in kprobe_events.
fn events_show_what_the_guest_shows(name: &'static str) {
    let stock = at_shell(name);
    let typed = b"mkdir -p /proc; mount -t proc proc /proc 2>/dev/null; cat /proc/self/stack; exit 7\n";
    let mut session: Session = stock.session();
    session.machine_mut().take_console();
    session.machine_mut().console_input(typed);
    session.machine_mut().console_input_ends();
    let stacks = session.stacks();
    let mut events = EventSet::default();
    events.leave_stacks(stacks);
    session.with_engine(|engine, guest| {
        events.apply(engine, guest, "p:asked stack_trace_save_tsk").unwrap_or_else(|error| panic!("{name}: {error}"));
        events.enable_all(engine, guest, true).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    });
    session.run_until(LONG);
    let mut text = String::new();
    session.with_engine(|engine, guest| {
        let record = engine.records().pop().expect("the guest has asked for its stack");
        let format = events.format(record.header.event).expect("an event of ours");
        trace::write(&mut text, &record, format, &mut Places::default(), &|address| guest.symbol_at(address));
    });
    let (console, _) = traced(&stock, typed, "BEGIN { }");
    let guest: Vec<String> = named_by_guest(&console).into_iter().map(|(name, _)| name).collect();
    let ours: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(" => ")).collect();
    assert!(guest.len() > 5 && text.contains(": <stack trace>\n"), "{name}: {console}\n{text}");
    assert_eq!(ours.first(), Some(&"stack_trace_save_tsk"), "{name}: {text}");
    let from = ours.iter().position(|call| *call == guest[0]).unwrap_or_else(|| panic!("{name}: {guest:?}\n{text}"));
    let same = guest.iter().zip(&ours[from..]).take_while(|(one, other)| one == other).count();
    assert!(same + 1 >= guest.len(), "{name}: the guest {guest:?}\nwe {ours:?}");
}

/// BY-1: the user pc is the one that the guest's kernel reports, also on kernels without BTF.
fn user_pcs_equal_those_of_the_guest(name: &'static str) {
    let stock = at_shell(name);
    let typed = b"mkdir -p /proc; mount -t proc proc /proc 2>/dev/null; cat /proc/self/syscall; exit 7\n";
    let (_, printed) = traced(&stock, typed, "kprobe:proc_pid_syscall { printf(\"at %s\", ustack(raw, 1)); exit(); }");
    let (console, _) = traced(&stock, typed, "BEGIN { }");
    // System call number, arguments, stack pointer and pc.
    let line = console.lines().find(|line| line.split_whitespace().count() == 9 && line.contains(" 0x"));
    let line = line.unwrap_or_else(|| panic!("{name}: {console}"));
    assert_eq!(printed.split_whitespace().last(), line.split_whitespace().last(), "{name}: {printed} {line}");
}

/// BY-1: the innermost user frame is the pc that the kernel saved at the system call.
fn user_stacks_begin_at_the_system_call(name: &'static str) {
    let Types { sys_read, pc } = facts_of(name).types.expect("it has types");
    let stock = at_shell(name);
    let text = format!(
        "kprobe:{sys_read} {{ printf(\"%s=%llx\\n\", ustack(raw, 1), ((struct pt_regs *)arg0)->{pc}); @[len(ustack)] = count(); }}"
    );
    let (_, printed) = traced(&stock, b"cat /etc/passwd /init > /dev/null; true; exit 7\n", &text);
    let joined = printed.replace('\n', " ");
    let pairs: Vec<(&str, &str)> = joined.split("0x").filter_map(|part| part.split_once(" =")).collect();
    assert!(pairs.len() > 3, "{name}: {printed}");
    for (stack, register) in pairs {
        assert_eq!(stack.trim(), register.split_whitespace().next().unwrap_or(""), "{name}");
    }
    assert!(!printed.contains("@[0]"), "{name}: {printed}");
}

fn main() -> ExitCode {
    let with_types = || guests::stock().filter(|name| facts_of(name).types.is_some());
    harness::run([
        each!(guests::stock_in(Family::EventStacks), events_show_what_the_guest_shows),
        each!(guests::stock_in(Family::KernelStacks), shows_what_the_guest_shows, timers_see_the_whole_stack),
        each!(with_types(), user_stacks_begin_at_the_system_call),
        each!(guests::stock_in(Family::UserPcs), user_pcs_equal_those_of_the_guest),
    ])
}
