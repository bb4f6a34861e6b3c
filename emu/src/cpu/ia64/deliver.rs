//! Delivers an exception or interrupt to the guest.

use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_core::ia64::vector;

/// The external interrupt of the board.
const BOARD: u8 = 0x30;

/// Delivers the exception as the CPU would. Its details are in the core's state, where the core has noted them.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    let Some(state) = handle.ia64() else {
        return Err(Shutdown { why: "this core has no state of IA-64".into() });
    };
    cpu.set_pc(resume);
    if exception.external {
        state.raise(BOARD);
        state.interrupt(vector::EXTERNAL);
    } else {
        state.interrupt(exception.vector);
    }
    Ok(())
}
