//! Stacks as scripts show them are those that the guest's own kernel shows of the same moment, and programs stand where
//! they called it.
//!
//! The kernels are those of the stock-boot family; without them the tests say so and pass.

use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_probes::script::Options;
use trapline_tests::stock::{AtShell, at_shell};

const LONG: u64 = 60_000_000_000;

/// Runs what is typed, under a script: what the guest said, and what the script printed.
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

/// Name and distance of each call that the guest names: `[<0>] vfs_read+0x9b/0x300`.
fn named_by_guest(console: &str) -> Vec<(String, u64)> {
    let call = |line: &str| {
        let (_, call) = line.split_once("[<0>] ")?;
        let (name, rest) = call.trim().split_once("+0x")?;
        Some((name.to_string(), u64::from_str_radix(rest.split('/').next()?, 16).ok()?))
    };
    console.lines().filter_map(call).collect()
}

/// The same of a script: `vfs_read+155`.
fn named_by_script(printed: &str) -> Vec<(String, u64)> {
    let call = |line: &str| {
        let (name, offset) = line.trim().split_once('+')?;
        Some((name.to_string(), offset.parse().ok()?))
    };
    printed.lines().filter_map(call).collect()
}

fn shows_what_the_guest_shows(name: &str) {
    let Some(stock) = at_shell(name) else { return };
    // The function that the kernel asks for the stack of a task, here that of the one that asks.
    let script = "kprobe:stack_trace_save_tsk { printf(\"%s\", kstack); exit(); }";
    let typed = b"mkdir -p /proc; mount -t proc proc /proc 2>/dev/null; cat /proc/self/stack; exit 7\n";
    let (_, printed) = traced(&stock, typed, script);
    let (console, _) = traced(&stock, typed, "BEGIN { }");
    let (guest, script) = (named_by_guest(&console), named_by_script(&printed));
    assert!(guest.len() > 5, "{name}: {console}");
    assert_eq!(script.first().map(|(name, at)| (name.as_str(), *at)), Some(("stack_trace_save_tsk", 0)), "{name}: {printed}");
    let from = script.iter().position(|call| Some(call) == guest.first());
    let from = from.unwrap_or_else(|| panic!("{name}: {guest:?}\n{script:?}"));
    assert!((1..4).contains(&from), "{name}: {script:?}");
    // The way into the kernel has no frame that all of them would show.
    let same = guest.iter().zip(&script[from..]).take_while(|(one, other)| one == other).count();
    assert!(same + 1 >= guest.len(), "{name}: the guest {guest:?}\nwe {script:?}");
}

/// BY-1
#[test]
fn tables_of_amd64() {
    shows_what_the_guest_shows("debian/amd64");
}

/// BY-1
#[test]
fn frame_pointers_of_i386() {
    shows_what_the_guest_shows("debian/i386");
}

/// BY-1
#[test]
fn frame_records_of_arm64() {
    shows_what_the_guest_shows("debian/arm64");
}

/// BY-1
#[test]
fn tables_of_armhf() {
    shows_what_the_guest_shows("debian/armhf");
}

/// BY-1: the first call of a program is where it has called its kernel, as the registers say that the kernel has kept.
#[test]
fn programs_stand_where_they_have_called() {
    for (name, function, pc) in [("debian/amd64", "__x64_sys_read", "ip"), ("debian/arm64", "__arm64_sys_read", "pc")] {
        let Some(stock) = at_shell(name) else { continue };
        let text = format!(
            "kprobe:{function} {{ printf(\"%s=%llx\\n\", ustack(raw, 1), ((struct pt_regs *)arg0)->{pc}); @[len(ustack)] = count(); }}"
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
}
