//! Delivers an exception or interrupt to the guest. Unicorn's own function enters the handler and sets the registers.

use super::state::{INTERRUPT_LEVEL, TL, next_pc};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;

/// The trap number of interrupt level 0.
const INTERRUPT: u32 = 0x40;

/// Delivers the exception to the guest as the CPU would, with both pc and npc. For an instruction in a delay slot that
/// ran in the window, `detail` is the npc.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    let next = match exception.delayed {
        true => exception.detail,
        false if handle.pc() == resume => next_pc(&handle),
        false => resume.wrapping_add(4),
    };
    let vector = if exception.external { INTERRUPT + INTERRUPT_LEVEL } else { exception.vector };
    if cpu.enter_trap(vector, resume, next) {
        return Ok(());
    }
    let level = handle.live32(TL);
    Err(Shutdown {
        why: format!("exception {vector:#x} at trap level {level} could not be delivered: the CPU has no higher level"),
    })
}
