//! A kprobe on `do_fork`: prints the place and some registers before and after the probed instruction, for each task
//! that the guest creates.
//!
//! ```text
//! cargo run -p trapline --example kprobe_example [KERNEL [SYMBOL]]
//! ```
//!
//! This is samples/kprobes/kprobe_example.c of Linux, run from outside the guest.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::mpsc;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_probes::probe::{Flow, Hit, Kprobe};

/// The limit of guest time in nanoseconds; the tiny kernels need less.
const LONGEST: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kernel = arguments.next().unwrap_or("tiny/x86_64".into());
    let symbol = arguments.next().unwrap_or("do_fork".into());
    show(&kernel, &symbol, &mut stdout().lock())
}

/// Runs a kernel (a built-in one or a file) with the probe, and writes a line for each run of a handler.
pub fn show(kernel: &str, symbol: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let kernel = match trapline_images::find(kernel) {
        Some(builtin) => Kernel::from_bytes(builtin.bytes)?,
        None => Kernel::from_bytes(&std::fs::read(kernel)?)?,
    };
    let mut session = Session::new(kernel, &Config::default())?;

    // Handlers run while the guest is stopped between two instructions, so they only queue lines, which are printed later.
    let (lines, said) = mpsc::channel();
    let before = lines.clone();
    let probe = Kprobe::at(symbol)
        .pre(move |hit| {
            let _ = before.send(format!("pre_handler:  {}", state(hit)));
            Flow::Continue
        })
        .post(move |hit| {
            let _ = lines.send(format!("post_handler: {}, handler flags {:#x}", state(hit), hit.flags()));
        });
    session.register_kprobe(&probe)?;
    writeln!(out, "planted kprobe at {symbol} ({:#x})", probe.address().unwrap_or_default())?;

    let stop = session.run_until(LONGEST);
    said.try_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    session.unregister_kprobe(&probe);
    writeln!(out, "kprobe at {symbol} unregistered after {} hits, {} missed", probe.hits(), probe.nmissed())?;
    match stop {
        Stop::PowerOff(0) => Ok(()),
        stop => Err(format!("the guest did not end by itself: {stop:?}").into()),
    }
}

/// The probe, its address, the pc, and the flags register, whose name depends on the ISA. Some ISAs have none.
fn state(hit: &Hit<'_>) -> String {
    let flags = ["flags", "cpsr", "pstate"].iter().find_map(|name| Some((name, hit.reg(name)?)));
    let flags = flags.map_or(String::new(), |(name, value)| format!(", {name} = {value:#x}"));
    format!("<{}> address = {:#x}, pc = {:#x}{flags}", hit.probe(), hit.address(), hit.pc())
}
