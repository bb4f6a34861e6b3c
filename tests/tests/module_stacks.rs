//! Stacks that pass through a module: the frames inside it are its own functions, and the callers are those of the kernel
//! function that called into it.
//!
//! Kernels and modules come from the cache of `trapline images pull --modules`. A test without them is counted as skipped.

use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::guests::{self, Family};
use trapline_harness::{self as harness, Test};
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::trace;
use trapline_tests::stock::modules_of;

/// A file system in memory. Opening a directory of it calls from the kernel into the module, and there one function more.
const MODULE: &str = "configfs";
const SCRIPT: &[u8] = b"mkdir /c; mount -t configfs none /c && ls /c; exit 9\n";
const LONG: u64 = 60_000_000_000;
const EVENTS: [&str; 3] =
    ["p:below do_dentry_open", "p:outer configfs:configfs_dir_open", "p:inner configfs:configfs_new_dirent"];

/// The records of the run, each with its event and the names of its stack.
fn stacks(name: &str) -> Vec<(String, Vec<String>)> {
    let found = harness::stock_with(name, |local| local.module(MODULE).is_some());
    let read = |path| std::fs::read(path).expect("its file");
    let initrd =
        trapline::boot::initramfs::with_busybox(&read(found.busybox), Some(SCRIPT), &modules_of(&found.local, &[MODULE]));
    let kernel = Kernel::from_bytes(&read(found.local.kernel)).expect("a kernel");
    let initrd: Arc<[u8]> = initrd.into();
    let config = Config { command_line: found.stock.command_line.into(), initrd: Some(initrd), ..Config::default() };
    let mut session = Session::new(kernel, &config).expect("a machine");
    session.stop_at_modules(true);
    let mut events = EventSet::default();
    events.leave_stacks(session.stacks());
    session.with_engine(|engine, guest| {
        for line in EVENTS {
            events.apply(engine, guest, line).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
        }
        events.enable_all(engine, guest, true).expect("they wait");
    });
    let mut all = Vec::new();
    loop {
        let stop = session.run_until(session.machine().now() + 20_000_000);
        session.with_engine(|engine, guest| {
            while let Some(record) = engine.records().pop() {
                let format = events.format(record.header.event).expect("an event of ours");
                let mut text = String::new();
                trace::write(&mut text, &record, format, &mut Places::default(), &|address| guest.symbol_at(address));
                let stack = text.lines().filter_map(|line| line.strip_prefix(" => ").map(str::to_string)).collect();
                all.push((format.event.clone(), stack));
            }
        });
        match stop {
            Stop::Attention => {
                let failed = session.with_engine(|engine, guest| events.module_came(engine, guest));
                assert!(failed.is_empty(), "{name}: {failed:?}");
            }
            Stop::Limit if session.machine().now() < LONG => {}
            Stop::PowerOff(9) => break,
            stop => {
                let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
                panic!("{name}: {stop:?}: {console}");
            }
        }
    }
    all
}

/// BY-1: by ORC, frame pointers, frame records, unwind tables, back chains or function prologues, as each kernel has them.
fn a_stack_passes_through_a_module(name: &'static str) {
    let all = stacks(name);
    let number = |event: &str| all.iter().position(|(other, _)| other == event).unwrap_or_else(|| panic!("{name}: no {event}"));
    let (outer, inner) = (number("outer"), number("inner"));
    // The mount opens no directory, so the kernel's own hit in front of the first one in the module belongs to it.
    let below = &all[..outer].iter().rfind(|(event, _)| event == "below").expect("a hit in the kernel").1;
    assert!(below.len() > 4 && below[0] == "do_dentry_open", "{name}: {below:?}");
    let with = |functions: &[&str]| functions.iter().map(|name| (*name).to_string()).chain(below.clone()).collect::<Vec<_>>();
    assert_eq!(all[outer].1, with(&["configfs_dir_open"]), "{name}");
    assert_eq!(all[inner].1, with(&["configfs_new_dirent", "configfs_dir_open"]), "{name}");
}

fn main() -> ExitCode {
    let test = |name| {
        let need = harness::complete(name, "--modules ", |local| local.module(MODULE).is_some());
        Test::new(harness::member("a_stack_passes_through_a_module", name), move || a_stack_passes_through_a_module(name))
            .needs(need)
    };
    harness::run([guests::stock_in(Family::KernelStacks).filter(|name| name.starts_with("debian/")).map(test).collect()])
}
