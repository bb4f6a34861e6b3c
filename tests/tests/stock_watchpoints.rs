//! Watchpoints on stock kernels (BY-3): their reports equal the accesses that a callback before every load and store
//! finds.
//!
//! The kernels are those of the stock-boot family. If one is missing, its test is skipped.

use std::cell::RefCell;
use std::collections::HashSet;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use trapline::probed::Session;
use trapline::probed::scripts::Facts;
use trapline_harness::{self as harness, each};
use trapline_probes::watch::{By, Watchpoint};
use trapline_script::Knowledge;
use trapline_tests::stock::{AtShell, at_shell};
use trapline_tests::{Run, assert_same};

/// The guests.
const STOCKS: [&str; 4] = ["debian/amd64", "debian/arm64", "debian/s390x", "debian/ppc64el"];
/// Guest time that is compared, in nanoseconds.
const PART: u64 = 40_000_000;
/// Starts, schedules and ends programs.
const TYPED: &[u8] = b"for n in 1 2 3; do cat /proc/version | wc; done; sleep 0.01; ls / | sort | head -n 2; exit 7\n";

/// One access: pc, time, address, size, whether it is a store.
type One = (u64, u64, u64, u64, bool);

/// The variables, with the number of their bytes that are watched.
const VARIABLES: [(&str, u64); 2] = [("jiffies_64", 8), ("init_task", 2048)];

fn ranges(session: &Session, name: &str) -> Vec<std::ops::Range<u64>> {
    let facts = Facts::of(session.kernel());
    let address = |variable: &str| facts.data(variable);
    VARIABLES
        .iter()
        .map(|(variable, len)| {
            let start = address(variable).unwrap_or_else(|| panic!("{name} has no {variable}"));
            start..start + len
        })
        .collect()
}

/// Runs the guest from its shell on.
fn part(stock: &AtShell, set_up: impl FnOnce(&mut Session)) -> (Session, Run) {
    let mut session = stock.session();
    set_up(&mut session);
    let machine = session.machine_mut();
    machine.take_console();
    machine.console_input(TYPED);
    machine.console_input_ends();
    let end = session.machine().now() + PART;
    let stop = session.run_until(end);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let run = Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() };
    (session, run)
}

/// BY-3: the run is the same, and every load and store of translated code is reported, in order. Further reports are
/// accesses by Unicorn's helpers.
fn reports_equal_brute_force(name: &'static str) {
    let stock = at_shell(name);
    let expected: Rc<RefCell<Vec<One>>> = Rc::default();
    let into = Rc::clone(&expected);
    let (_, plain) = part(&stock, |session| {
        let ranges = ranges(session, name);
        session.tell_each_access(Some(Box::new(move |access| {
            let (start, end) = (access.address, access.address.wrapping_add(access.size.into()));
            if ranges.iter().any(|range| start < range.end && end > range.start) {
                into.borrow_mut().push((access.pc, access.time, access.address, access.size.into(), access.is_write));
            }
        })));
    });
    let told: Arc<Mutex<Vec<One>>> = Arc::default();
    let mut watchpoints = Vec::new();
    let (mut session, watched) = part(&stock, |session| {
        for range in ranges(session, name) {
            let into = Arc::clone(&told);
            let watchpoint = Watchpoint::at(range).on_hit(move |hit| {
                let access = *hit.access();
                if access.by == By::Instruction {
                    into.lock().unwrap().push((hit.pc(), access.time, access.address, access.size, access.is_write));
                }
            });
            session.register_watchpoint(&watchpoint).expect("the variable can be watched");
            watchpoints.push(watchpoint);
        }
    });
    session.compare_watched();
    assert_same(name, &plain, &watched);
    let (told, expected) = (told.lock().unwrap(), expected.borrow());
    let places: HashSet<u64> = expected.iter().map(|one| one.0).collect();
    let (by_code, by_helpers): (Vec<One>, Vec<One>) = told.iter().partition(|one| places.contains(&one.0));
    println!("{name}: {} accesses, {} at other places", expected.len(), by_helpers.len());
    let first = by_code.iter().zip(expected.iter()).position(|(told, expected)| told != expected);
    assert_eq!(first, None, "{name}: {:x?} {:x?}", first.map(|at| by_code[at]), first.map(|at| expected[at]));
    assert_eq!(by_code.len(), expected.len(), "{name}");
    assert!(expected.len() > 1_000, "{name}: {}", expected.len());
    assert!(by_helpers.len() < expected.len(), "{name}: {:x?}", by_helpers.first());
    assert!(watchpoints.iter().all(|watchpoint| watchpoint.changed_unseen() == 0), "{name}: {watchpoints:?}");
}

fn main() -> ExitCode {
    harness::run([each!(STOCKS, reports_equal_brute_force)])
}
