//! A return probe: prints the result and the duration of each call of a guest function.
//!
//! ```text
//! cargo run -p trapline --example kretprobe_example [KERNEL [SYMBOL]]
//! ```
//!
//! This is samples/kprobes/kretprobe_example.c of Linux, run from outside the guest. Like the original, it skips calls of the
//! idle task, keeps the time of its entry as the private data of a call, and follows at most 20 calls at a time.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::mpsc;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_probes::probe::{Flow, Kretprobe};

/// The limit of guest time in nanoseconds; the tiny kernels need less.
const LONGEST: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kernel = arguments.next().unwrap_or("tiny/x86_64".into());
    let symbol = arguments.next().unwrap_or("do_fork".into());
    show(&kernel, &symbol, &mut stdout().lock())
}

/// Runs a kernel (a built-in one or a file) with the return probe, and writes a line for each return.
pub fn show(kernel: &str, symbol: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let kernel = match trapline_images::find(kernel) {
        Some(builtin) => Kernel::from_bytes(builtin.bytes)?,
        None => Kernel::from_bytes(&std::fs::read(kernel)?)?,
    };
    let mut session = Session::new(kernel, &Config::default())?;

    let (lines, said) = mpsc::channel();
    let function = symbol.to_string();
    let probe = Kretprobe::at(symbol)
        .maxactive(20)
        .data_size(size_of::<u64>())
        .entry(|call| {
            if call.pid() == 0 {
                return Flow::Redirected;
            }
            let now = call.now();
            call.data().copy_from_slice(&now.to_le_bytes());
            Flow::Continue
        })
        .handler(move |call| {
            let (now, result) = (call.now(), call.return_value());
            let entered = call.data().try_into().map_or(now, u64::from_le_bytes);
            let _ = lines.send(format!("{function} returned {result} and took {} ns to execute", now - entered));
        });
    session.register_kretprobe(&probe)?;
    writeln!(out, "planted return probe at {symbol} ({:#x})", probe.kprobe().address().unwrap_or_default())?;

    let stop = session.run_until(LONGEST);
    said.try_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    session.unregister_kretprobe(&probe);
    writeln!(out, "return probe at {symbol} unregistered; missed probing {} instances of {symbol}", probe.nmissed())?;
    match stop {
        Stop::PowerOff(0) => Ok(()),
        stop => Err(format!("the guest did not end by itself: {stop:?}").into()),
    }
}
