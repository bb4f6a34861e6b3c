//! Delivers an exception or interrupt to the guest as the CPU would: to supervisor mode, through stvec.

use super::state::{self, EXTERNAL, SOFTWARE, TIMER};
use super::trap::{BREAKPOINT, FETCH_FAULT, LOAD_FAULT, LOAD_MISALIGNED, STORE_FAULT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    if exception.external {
        cpu.enter_riscv_handler(interrupt(&handle), true, resume, 0);
        return Ok(());
    }
    let value = match exception.vector {
        0 | 1 | LOAD_MISALIGNED..8 | FETCH_FAULT | LOAD_FAULT | STORE_FAULT => {
            state::places(&handle).word(&handle, |places| places.fault_address)
        }
        BREAKPOINT => resume,
        // The manual allows 0 for an illegal instruction.
        _ => 0,
    };
    cpu.enter_riscv_handler(exception.vector, false, resume, value);
    Ok(())
}

/// The interrupt to take, by the manual's priorities. A board without pins has external interrupts only.
fn interrupt(handle: &Handle) -> u32 {
    let places = state::places(handle);
    let taken = places.word(handle, |places| places.pending) & places.word(handle, |places| places.enabled);
    [EXTERNAL, SOFTWARE, TIMER].into_iter().find(|number| taken >> number & 1 != 0).unwrap_or(EXTERNAL)
}
