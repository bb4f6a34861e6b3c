//! A bpftrace script on a guest, from Rust: compiles it for a kernel, attaches it to a session, and prints its maps at
//! the end.
//!
//! ```text
//! cargo run -p trapline --example script_example [KERNEL [SCRIPT]]
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_script::Options;

/// The limit of guest time in nanoseconds; the tiny kernels need less.
const LONGEST: u64 = 1_000_000_000;
/// Counts the bytes that each task reads, and their distribution over calls.
const SCRIPT: &str = "kretprobe:vfs_read { @bytes[comm] = sum(retval); @sizes = hist(retval); }";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kernel = arguments.next().unwrap_or("tiny/x86_64".into());
    let script = arguments.next().unwrap_or(SCRIPT.into());
    show(&kernel, &script, &mut stdout().lock())
}

/// Runs a kernel (a built-in one or a file) with the script, and writes the script's output.
pub fn show(kernel: &str, script: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let kernel = match trapline_images::find(kernel) {
        Some(builtin) => Kernel::from_bytes(builtin.bytes)?,
        None => Kernel::from_bytes(&std::fs::read(kernel)?)?,
    };
    let types = Facts::of(&kernel);
    let script = Script::compile(script, &types, &Options::default())
        .map_err(|errors| errors.iter().map(|error| format!("{error}\n")).collect::<String>())?;
    let mut session = Session::new(kernel.clone(), &Config::default())?;
    let mut tracing = session.start_script(script, &How::default())?;
    let stop = session.trace_until(std::slice::from_mut(&mut tracing), LONGEST);
    session.end_script(&mut tracing);
    let (printed, warnings) = session.take_script_output(&tracing);
    out.write_all(&warnings)?;
    out.write_all(&printed)?;
    match stop {
        // `exit()` in the script is an end, too.
        Stop::PowerOff(0) | Stop::Attention => Ok(()),
        stop => Err(format!("the guest did not end by itself: {stop:?}").into()),
    }
}
