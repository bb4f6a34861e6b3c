//! Delivers an exception or interrupt to the guest as the CPU would: in the exception's mode, through the vectors.

use super::state::*;
use super::trap::{self, DATA_ABORT, DEBUG, FETCH_ABORT, SYSTEM_CALL};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM;

const HIGH_VECTORS: u64 = 0xffff_0000;
/// The fault status of a debug event, for BKPT.
const DEBUG_EVENT: u64 = 2;

/// The properties of an exception's entry.
struct Entry {
    mode: u64,
    vector: u64,
    /// The offset that is added to the return address in LR, in A32 and in Thumb code.
    link: [u64; 2],
    masks: u64,
}

fn entry_of(exception: &Exception) -> Entry {
    #[rustfmt::skip]
    let (mode, vector, link, masks) = match exception.vector {
        _ if exception.external     => (IRQ,        0x18, [4, 4], CPSR_ABORT_MASKED),
        SYSTEM_CALL                 => (SUPERVISOR, 0x08, [0, 0], 0),
        FETCH_ABORT | DEBUG         => (ABORT,      0x0c, [4, 4], CPSR_ABORT_MASKED),
        DATA_ABORT                  => (ABORT,      0x10, [8, 8], CPSR_ABORT_MASKED),
        _                           => (UNDEFINED,  0x04, [4, 2], 0),
    };
    Entry { mode, vector, link, masks }
}

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let handle = cpu.handle();
    let old = cpsr(&handle);
    let control = u64::from(handle.live32(CONTROL));
    let entry = entry_of(&exception);
    if !exception.external && matches!(exception.vector, FETCH_ABORT | DATA_ABORT) {
        let [status, address] = if exception.vector == DATA_ABORT { [DFSR, DFAR] } else { [IFSR, IFAR] };
        cpu.set_coprocessor(status, handle.live32(FAULT_STATUS).into());
        cpu.set_coprocessor(address, handle.live64(FAULT_ADDRESS) & 0xffff_ffff);
    }
    if !exception.external && exception.vector == DEBUG {
        cpu.set_coprocessor(IFSR, DEBUG_EVENT);
    }
    let mut new = old & !(CPSR_MODE | CPSR_THUMB | CPSR_IT_JAZELLE | CPSR_BIG_ENDIAN);
    new |= entry.mode | entry.masks | CPSR_IRQ_MASKED;
    if control & SCTLR_EXCEPTION_ENDIAN != 0 {
        new |= CPSR_BIG_ENDIAN;
    }
    if control & SCTLR_THUMB_EXCEPTIONS != 0 {
        new |= CPSR_THUMB;
    }
    // Written first, because it switches to the mode's banked stack pointer, link register and saved status.
    cpu.write(RegisterARM::CPSR, new);
    cpu.write(RegisterARM::SPSR, old);
    cpu.write(RegisterARM::LR, resume.wrapping_add(entry.link[usize::from(old & CPSR_THUMB != 0)]) & 0xffff_ffff);
    let base = if control & SCTLR_HIGH_VECTORS != 0 { HIGH_VECTORS } else { handle.coprocessor(VBAR) };
    trap::park(cpu);
    cpu.set_pc(base.wrapping_add(entry.vector) & 0xffff_ffff);
    Ok(())
}
