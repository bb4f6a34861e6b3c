//! Boots every Debian kernel release on this computer whose ISA has a machine. Each boots to busybox and runs the same
//! with probes, or is refused with a message; none hangs. docs/kernels.md has the table of results. To write it again
//! for the releases on this computer:
//!
//! ```text
//! TRAPLINE_WRITE_DOCS=1 cargo nextest run -p trapline-tests --test every_kernel -j1
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::kernels;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_harness::{self as harness, Need, Test};
use trapline_isa::function;
use trapline_probes::guest::Site;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_script::Options;
use trapline_tests::releases::{Release, releases};
use trapline_tests::stacks::{named_by_guest, named_by_script};
use trapline_tests::{Run, assert_same};

const SCRIPT: &[u8] = b"echo hello from $(uname -r); cat /proc/version /proc/stat | wc -l; sleep 1; exit 7\n";
const LONG: u64 = 60_000_000_000;
/// One of this many functions gets a probe. Every second one of these also gets a return probe.
const STRIDE: usize = 23;
/// Relative to the folder in which the tests run.
const TABLE: &str = "../docs/kernels.md";

/// Release suffixes of kernels that were built for other CPUs. All others must boot.
const FOR_OTHER_CPUS: &[&str] = &["-marvell", "-rpi"];

/// Tries a release. Returns its columns of the table.
fn tried(release: &Release, kernel: &Kernel, busybox: &Path) -> String {
    let name = &release.name;
    let command_line = trapline_images::stocks().iter().find(|stock| stock.architecture == kernels::of(kernel.arch).debian);
    let initrd: Arc<[u8]> = initramfs::with_busybox(&fs::read(busybox).expect("busybox"), Some(SCRIPT), &[]).into();
    let config = Config {
        command_line: format!("{} mitigations=off", command_line.expect("a stock kernel of this ISA").command_line),
        initrd: Some(initrd),
        record_events: true,
        ..Config::default()
    };
    let mut session = match Session::new(kernel.clone(), &config) {
        Ok(session) => session,
        Err(refusal) => {
            let refusal = refusal.to_string();
            let expected = FOR_OTHER_CPUS.iter().any(|end| name.ends_with(end));
            assert!(expected && refusal.contains("made for other CPUs"), "{name}: {refusal}");
            return "refused | | | | it was made for other CPUs".into();
        }
    };
    let plain = run(&mut session);
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}; console:\n{}", plain.console);
    assert!(plain.console.contains(&format!("hello from {name}")), "{name}; console:\n{}", plain.console);
    assert!(!plain.console.contains("WARNING:"), "{name}; console:\n{}", plain.console);

    let mut probed = Session::new(kernel.clone(), &config).expect("a second machine");
    let mut functions = kernel.symbols.extents(kernel.tables.text.clone());
    // Since 6.2, every second symbol of amd64 is `__pfx_`: padding in front of a function, without code.
    functions.retain(|function| !function.name.starts_with("__pfx_"));
    let (mut probes, mut returns) = (Vec::new(), Vec::new());
    for (number, function) in functions.iter().step_by(STRIDE).enumerate() {
        // Refusals are tested elsewhere.
        let probe = Kprobe::at_address(function.start).pre(|_| Flow::Continue);
        if probed.register_kprobe(&probe).is_ok() {
            probes.push(probe);
        }
        let back = Kretprobe::at_address(function.start).maxactive(64).handler(|_| ());
        if number % 2 == 0 && probed.register_kretprobe(&back).is_ok() {
            returns.push(back);
        }
    }
    let seen = run(&mut probed);
    assert_same(name, &plain, &seen);
    let hits: u64 = probes.iter().map(Kprobe::hits).sum();
    assert!(probes.len() > 500 && returns.len() > 200 && hits > 1000, "{name}: {} probes, {hits} hits", probes.len());
    let milliseconds = plain.time / trapline::clock::ticks(1_000_000);
    format!("boots | {milliseconds} ms | {} and {} | {hits} hits, the same run | ", probes.len(), returns.len())
}

fn run(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

/// KP-1, RP-1, BY-4
fn boots_and_is_the_same_under_probes(release: &Release) {
    let bytes = fs::read(&release.file).expect("the kernel's file");
    let Ok(kernel) = Kernel::from_bytes(&bytes) else { return };
    let busybox = release.busybox(&kernel);
    let row = tried(release, &kernel, &busybox);
    println!("| {} | {} | {row} |", release.name, kernel.arch.name());
    if std::env::var_os("TRAPLINE_WRITE_DOCS").is_some() {
        write(&[(release.name.clone(), format!("{} | {row}", kernel.arch.name()))]);
    }
}

/// Replaces the rows of these releases in the document.
fn write(rows: &[(String, String)]) {
    let text = fs::read_to_string(TABLE).expect("the document");
    let (head, rest) = text.split_once("<!-- written by the test -->\n").expect("a place for the table");
    let mut lines = rest.lines();
    let titles: Vec<&str> = lines.by_ref().take(2).collect();
    let (table, behind): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("| "));
    let name_of = |line: &str| line.trim_start_matches("| ").split(" |").next().unwrap_or_default().to_string();
    let mut all: BTreeMap<String, String> = table.into_iter().map(|line| (name_of(line), line.to_string())).collect();
    all.extend(rows.iter().map(|(name, row)| (name.clone(), format!("| {name} | {row} |"))));
    let all: Vec<String> = all.into_values().collect();
    let new = format!("{head}<!-- written by the test -->\n{}\n{}\n{}\n", titles.join("\n"), all.join("\n"), behind.join("\n"));
    fs::write(TABLE, new).expect("the document can be written");
}

/// KP-1: the traps of BUG() and WARN() on x86 are `ud2` instructions, listed in a table without a symbol. The table is
/// found by its contents, in every kernel flavour. Compilers emit few other `ud2`, so almost all must be in the table.
fn the_traps_of_bugs_are_known(release: &Release) {
    const TRAP: &[u8] = &[0x0f, 0x0b];
    let bytes = fs::read(&release.file).expect("the kernel's file");
    let kernel = Kernel::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", release.name));
    let (mut all, mut known) = (0, 0);
    for symbol in kernel.symbols.extents(kernel.tables.text.clone()).iter().step_by(STRIDE) {
        let end = symbol.start + symbol.size;
        let walk = function::walk(kernel.arch.isa(), symbol.start, end, |at, into: &mut [u8]| kernel.read(at, into));
        for insn in walk.map_while(Result::ok).filter(|insn| insn.bytes() == TRAP) {
            all += 1;
            known += u32::from(kernel.tables.sites.get(&insn.address) == Some(&Site::Bug));
        }
    }
    println!("{}: {known} of {all} traps are known", release.name);
    assert!(all > 100 && known * 100 >= all * 98, "{}: {known} of {all} traps are known", release.name);
}

/// BY-1: the stack that a script shows where the kernel reads its own is the one that the kernel prints.
fn a_stack_is_that_of_the_guest(release: &Release) {
    const SHOWS: &[u8] = b"mkdir -p /proc; mount -t proc proc /proc 2>/dev/null; cat /proc/self/stack; exit 7\n";
    let name = &release.name;
    let kernel =
        Kernel::from_bytes(&fs::read(&release.file).expect("the kernel")).unwrap_or_else(|error| panic!("{name}: {error}"));
    let busybox = release.busybox(&kernel);
    let command_line = trapline_images::stocks().iter().find(|stock| stock.architecture == kernels::of(kernel.arch).debian);
    let config = Config {
        command_line: command_line.expect("a stock kernel of this ISA").command_line.into(),
        initrd: Some(initramfs::with_busybox(&fs::read(busybox).expect("busybox"), Some(SHOWS), &[]).into()),
        ..Config::default()
    };
    // The other test sees that it is refused.
    let Ok(mut session) = Session::new(kernel.clone(), &config) else { return };
    let text = "kprobe:stack_trace_save_tsk { printf(\"%s\", kstack); exit(); }";
    let script = Script::compile(text, &Facts::of(&kernel), &Options::default());
    let script = script.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let mut scripts = [session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{name}: {error}"))];
    session.trace_until(&mut scripts, LONG);
    session.end_script(&mut scripts[0]);
    let printed = String::from_utf8_lossy(&session.take_script_output(&scripts[0]).0).into_owned();
    assert_eq!(session.run_until(LONG), Stop::PowerOff(7), "{name}");
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    let (mut guest, script) = (named_by_guest(&console), named_by_script(&printed));
    guest.retain(|(function, _)| function != "stack_trace_save_tsk");
    assert!(guest.len() > 5, "{name}: {console}");
    let from = script.iter().position(|call| Some(call) == guest.first());
    let from = from.unwrap_or_else(|| panic!("{name}: {guest:?}\n{script:?}"));
    // The frames of the kernel entry differ between unwinders.
    let same = guest.iter().zip(&script[from..]).take_while(|(one, other)| one == other).count();
    assert!(same + 1 >= guest.len(), "{name}: the guest {guest:?}\nwe {script:?}");
}

/// One test per release on this computer, and a skipped one for each missing kernel of the catalogue.
fn main() -> ExitCode {
    let is_x86 = |release: &&Release| release.name.ends_with("amd64") || release.name.contains("686");
    let test = |family: &str, release: &Release, test: fn(&Release)| {
        let own = release.clone();
        let need = Need { what: release.name.clone(), missing: None };
        Test::new(harness::member(family, &release.name), move || test(&own)).needs(need)
    };
    let absent = trapline_images::stocks().iter().filter(|stock| harness::kernel(stock.name).missing.is_some());
    let absent = absent.map(|stock| {
        Test::new(harness::member("boots_and_is_the_same_under_probes", stock.name), || ()).needs(harness::kernel(stock.name))
    });
    let releases = releases();
    harness::run([
        releases
            .iter()
            .map(|release| test("boots_and_is_the_same_under_probes", release, boots_and_is_the_same_under_probes))
            .collect(),
        releases.iter().map(|release| test("a_stack_is_that_of_the_guest", release, a_stack_is_that_of_the_guest)).collect(),
        releases
            .iter()
            .filter(is_x86)
            .map(|release| test("the_traps_of_bugs_are_known", release, the_traps_of_bugs_are_known))
            .collect(),
        absent.collect(),
    ])
}
