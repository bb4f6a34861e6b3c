//! Delivers an exception or interrupt to the guest as the CPU would: to EL1, through its vector table.

use super::state::{FAULT_ADDRESS, IS_64_BIT, PSTATE_EL, PSTATE_ENTRY, PSTATE_NARROW, PSTATE_SP_EL, SPSR_EL1, SYNDROME, pstate};
use super::trap::{DATA_ABORT, FETCH_ABORT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM64;

// Offsets in the vector table, by the exception's origin and kind.
const FROM_EL1_SHARED_STACK: u64 = 0;
const FROM_EL1: u64 = 0x200;
const FROM_EL0: u64 = 0x400;
const FROM_NARROW_EL0: u64 = 0x600;
const INTERRUPT: u64 = 0x80;

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    let old = pstate(&handle);
    let from = match (old & (PSTATE_EL | PSTATE_NARROW), old & PSTATE_SP_EL) {
        (0, _) => FROM_EL0,
        (PSTATE_NARROW.., _) => FROM_NARROW_EL0,
        (_, 0) => FROM_EL1_SHARED_STACK,
        _ => FROM_EL1,
    };
    if from == FROM_NARROW_EL0 {
        // R13 was the stack pointer in use, and SP_EL0 keeps its value.
        cpu.write(RegisterARM64::SP, handle.read(RegisterARM64::SP_EL1));
        cpu.set_live32(IS_64_BIT, 1);
    } else if from != FROM_EL1 {
        // EL0's stack pointer was in use: save it and load EL1's.
        cpu.write(RegisterARM64::SP_EL0, handle.read(RegisterARM64::SP));
        cpu.write(RegisterARM64::SP, handle.read(RegisterARM64::SP_EL1));
    }
    if !exception.external {
        cpu.write(RegisterARM64::ESR_EL1, handle.live32(SYNDROME).into());
    }
    if !exception.external && matches!(exception.vector, FETCH_ABORT | DATA_ABORT) {
        cpu.write(RegisterARM64::FAR_EL1, handle.live64(FAULT_ADDRESS));
    }
    cpu.write(RegisterARM64::ELR_EL1, resume);
    cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    // Written last, because a write through the system-register interface makes the core re-evaluate PSTATE.
    cpu.set_system(SPSR_EL1, old);
    let kind = if exception.external { INTERRUPT } else { 0 };
    cpu.set_pc(handle.read(RegisterARM64::VBAR_EL1).wrapping_add(from + kind));
    Ok(())
}
