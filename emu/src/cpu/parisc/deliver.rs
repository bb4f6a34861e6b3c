//! Delivers an exception or interrupt to the guest.

use crate::boards::bare::{BOARD_BIT, OWN_TIMER, TIMER_BIT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_core::parisc::number;

/// Delivers the exception as the CPU would, with the whole queue. For an instruction in a delay slot that ran in the window,
/// `detail` is the branch's target.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    let Some(state) = handle.parisc() else {
        return Err(Shutdown { why: "this core has no state of PA-RISC".into() });
    };
    if handle.pc() != resume || exception.delayed {
        cpu.set_pc(resume);
        if exception.delayed {
            cpu.set_next_pc(exception.detail);
        }
    }
    if exception.external {
        let pending = &state.control[number::EIRR];
        let bit = if exception.vector == OWN_TIMER { TIMER_BIT } else { BOARD_BIT };
        pending.set(pending.get() | bit);
        state.interrupt(number::EXTERNAL);
    } else {
        state.interrupt(exception.vector);
    }
    Ok(())
}
