//! Stock kernels that panic: the report after the machine has stopped.
//!
//! If a kernel is not on this computer, its test is skipped.

use std::process::ExitCode;
use trapline::Stop;
use trapline_harness::{self as harness, each, guests};
use trapline_probes::probe::Kretprobe;
use trapline_tests::stock::at_shell;

const LONG: u64 = 120_000_000_000;

/// DV-4, RP-1: the run ends with a panic, and the report has the call chain up to it, also through functions with
/// return probes.
fn a_panic_report_has_the_call_chain(name: &'static str) {
    let stock = at_shell(name);
    assert!(stock.kernel.symbols.address_of("write_sysrq_trigger").is_some(), "{name} cannot be asked to panic");
    let mut session = stock.session();
    let followed = ["vfs_write", "write_sysrq_trigger"].map(|function| Kretprobe::at(function).handler(|_| ()));
    for probe in &followed {
        session.register_kretprobe(probe).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    session.machine_mut().console_input(b"echo c >/proc/sysrq-trigger\n");
    let stop = session.run_until(LONG);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    assert!(console.contains("Kernel panic - not syncing"), "{name}: {stop:?} {console}");
    assert!(matches!(stop, Stop::Panic(_)), "{name}: {stop:?}");
    let report = session.report();
    assert!(!report.are_guessed && report.registers.len() > 8, "{name}: {report:?}");
    // The calls begin with the innermost one, as in the guest's own trace. The return pad must not appear.
    let mut callers = report.calls.iter().map(|(_, caller)| caller.as_str());
    for function in ["panic+", "__handle_sysrq", "write_sysrq_trigger+", "vfs_write+", "ksys_write+"] {
        assert!(callers.any(|caller| caller.starts_with(function)), "{name}: {function} {:?}", report.calls);
    }
}

fn main() -> ExitCode {
    harness::run([each!(guests::stock(), a_panic_report_has_the_call_chain)])
}
