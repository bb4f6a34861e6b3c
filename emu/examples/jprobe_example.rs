//! A jprobe on `do_fork`: prints the function's arguments for each task that the guest creates.
//!
//! ```text
//! cargo run -p trapline --example jprobe_example [KERNEL]
//! ```
//!
//! This is samples/kprobes/jprobe_example.c of earlier Linux, run from outside the guest.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::mpsc;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_isa::call::Type;
use trapline_probes::probe::Jprobe;

/// The limit of guest time in nanoseconds; the tiny kernels need less.
const LONGEST: u64 = 1_000_000_000;

/// `long do_fork(unsigned long clone_flags, unsigned long stack_start,`
/// `struct pt_regs *regs, unsigned long stack_size, ...)`
const DO_FORK: &[Type] = &[Type::Word, Type::Word, Type::Word, Type::Word];

fn main() -> Result<(), Box<dyn Error>> {
    let kernel = std::env::args().nth(1).unwrap_or("tiny/x86_64".into());
    show(&kernel, &mut stdout().lock())
}

/// Runs a kernel (a built-in one or a file) with the jprobe, and writes a line for each hit.
pub fn show(kernel: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let kernel = match trapline_images::find(kernel) {
        Some(builtin) => Kernel::from_bytes(builtin.bytes)?,
        None => Kernel::from_bytes(&std::fs::read(kernel)?)?,
    };
    let mut session = Session::new(kernel, &Config::default())?;

    let (lines, said) = mpsc::channel();
    let probe = Jprobe::at("do_fork").host(move |hit| {
        let [clone_flags, stack_start, _regs, stack_size] = [0, 1, 2, 3].map(|number| hit.typed_arg(DO_FORK, number));
        let line = format!("clone_flags = {clone_flags:#x}, stack_start = {stack_start:#x}, stack_size = {stack_size:#x}");
        let _ = lines.send(line);
        // A handler's changes are discarded: the function never sees them.
        hit.set_return_value(0);
    });
    session.register_jprobe(&probe)?;
    writeln!(out, "planted jprobe at {:#x}", probe.kprobe().address().unwrap_or_default())?;

    let stop = session.run_until(LONGEST);
    said.try_iter().try_for_each(|line| writeln!(out, "jprobe: {line}"))?;
    session.unregister_jprobe(&probe);
    writeln!(out, "jprobe unregistered after {} hits", probe.hits())?;
    match stop {
        Stop::PowerOff(0) => Ok(()),
        stop => Err(format!("the guest did not end by itself: {stop:?}").into()),
    }
}
