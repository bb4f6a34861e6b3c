//! Delivers an exception or interrupt to the guest. Unicorn's own function enters the handler and sets the registers.

use super::trap::{self, INTERRUPT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;

/// The pin for interrupts of a board without an interrupt controller.
const FIRST_PIN: u64 = 1 << 10;

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    if exception.external {
        let cause = cpu.handle().at_place(Place::Cause);
        let signals = if exception.detail == 0 { FIRST_PIN } else { exception.detail };
        cpu.set_place(Place::Cause, trap::with_pins(cause, signals));
        cpu.enter_handler(INTERRUPT, resume, false);
    } else {
        cpu.enter_handler(exception.vector, resume, exception.delayed);
    }
    Ok(())
}
