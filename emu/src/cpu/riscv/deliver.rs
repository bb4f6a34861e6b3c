//! Delivers an exception or interrupt to the guest as the CPU would: to supervisor mode, through stvec.

use super::state::{self, EXTERNAL, SOFTWARE, TIMER};
use super::trap::{BREAKPOINT, FETCH_FAULT, LOAD_FAULT, LOAD_MISALIGNED, STORE_FAULT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    if exception.external {
        // A board without pins has external interrupts only.
        if exception.detail != 0 {
            state::set_pending(cpu, exception.detail);
        }
        cpu.enter_riscv_handler(interrupt(&handle, exception.detail), true, resume, 0);
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

/// The interrupt to take among the pending ones, by the manual's priorities.
fn interrupt(handle: &Handle, signals: u64) -> u32 {
    let taken = signals & state::places(handle).word(handle, |places| places.enabled);
    [EXTERNAL, SOFTWARE, TIMER].into_iter().find(|number| taken >> number & 1 != 0).unwrap_or(EXTERNAL)
}
