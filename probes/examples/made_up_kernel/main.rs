//! The engine without an emulator: a made-up kernel of two functions, whose owner implements the engine's traits
//! [`Guest`] and [`Cpu`] and passes a trap to the engine.
//!
//! ```text
//! cargo run -p trapline-probes --example made_up_kernel
//! ```
//!
//! A kernel can use the engine in the same way on itself. This example therefore also compiles without the standard
//! library, with a panic handler and an allocator of its own (`make freestanding`).
#![cfg_attr(freestanding, no_std, no_main)]
#![allow(unexpected_cfgs)] // only `make freestanding` sets it

extern crate alloc;

#[cfg(freestanding)]
mod freestanding;
mod kernel;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::{Kernel, StoppedCpu, WORK};
use trapline_isa::regs::Registers;
use trapline_probes::guest::{Answer, Guest};
use trapline_probes::probe::{Flow, Kprobe};
use trapline_probes::{Engine, Refusal};

/// Probes the function `work`, lets the CPU reach it once, and says what happened.
pub fn show() -> Result<String, Refusal> {
    let mut kernel = Kernel::new();
    let mut engine = Engine::new(kernel.isa(), kernel.cpus());
    let seen = Arc::new(AtomicU32::new(0));
    let handler_saw = Arc::clone(&seen);
    let probe = Kprobe::at("work").pre(move |hit| {
        handler_saw.store(hit.arg(0) as u32, Ordering::Relaxed);
        Flow::Continue
    });
    engine.register_kprobe(&mut kernel, &probe)?;
    let planted = kernel.byte(WORK);

    // The CPU calls work(42) and takes the breakpoint. The owner of the CPU passes the trap to the engine.
    let mut cpu = StoppedCpu::about_to_call(&mut kernel, WORK, 42);
    let answer = engine.breakpoint(&mut cpu);
    let pc = cpu.pc();

    engine.unregister_kprobe(&mut kernel, &probe);
    Ok(format!(
        "the probe put {planted:#04x} at {WORK:#x}; its handler saw the argument {} in {} hit; the trap was {}, and the CPU goes on at \
         {pc:#x}, in the probe window; without the probe the byte is {:#04x} again",
        seen.load(Ordering::Relaxed),
        probe.hits(),
        if answer == Answer::NotOurs { "not ours" } else { "ours" },
        kernel.byte(WORK),
    ))
}

#[cfg(not(freestanding))]
fn main() -> Result<(), Refusal> {
    println!("{}", show()?);
    Ok(())
}
