//! Stock kernels that panic: the report after the machine has stopped.
//!
//! A kernel that is not on this computer has its test skipped.

use std::process::ExitCode;
use trapline_harness::{self as harness, each};
use trapline_probes::probe::Kretprobe;
use trapline_tests::stock::{at_shell, one_of_each};

const LONG: u64 = 120_000_000_000;

/// DV-4, RP-1: who called whom up to the panic, among them functions whose return addresses are taken.
fn a_kernel_that_has_panicked_stands_where_it_gave_up(name: &'static str) {
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
    let report = session.report();
    assert!(!report.are_guessed && report.registers.len() > 8, "{name}: {report:?}");
    // From the innermost on, and as the guest tells them: no return address of ours is among them.
    let mut callers = report.calls.iter().map(|(_, caller)| caller.as_str());
    for function in ["panic+", "__handle_sysrq", "write_sysrq_trigger+", "vfs_write+", "ksys_write+"] {
        assert!(callers.any(|caller| caller.starts_with(function)), "{name}: {function} {:?}", report.calls);
    }
}

fn main() -> ExitCode {
    harness::run([each!(one_of_each(), a_kernel_that_has_panicked_stands_where_it_gave_up)])
}
