//! Gives an exception or interrupt to the guest: the core knows how its CPU enters a handler, with all that registers
//! then say.

use super::state::{INTERRUPT_LEVEL, TL, next_pc};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;

/// Interrupts by their levels.
const INTERRUPT: u32 = 0x40;

/// Gives the exception to the guest as the CPU would: where it stands, both of its places are known; in a delay slot whose
/// instruction has run elsewhere the exception has brought the second one with it.
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
