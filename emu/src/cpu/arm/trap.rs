//! How each event arrives: the core's callbacks turned into a [`Trap`], with the quirks of docs/unicorn.md taken out.

use super::state::{self, CPSR_IRQ_MASKED, MASKS, SYNDROME, USER};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;

/// An undefined instruction; the core has no number for it here.
pub const UNDEFINED: u32 = 1;
/// SVC.
pub const SYSTEM_CALL: u32 = 2;
/// An instruction could not be fetched.
pub const FETCH_ABORT: u32 = 3;
/// Memory could not be accessed.
pub const DATA_ABORT: u32 = 4;
/// BKPT, which the guest sees as a fetch abort.
pub const DEBUG: u32 = 7;
/// HVC.
pub const HYPERVISOR_CALL: u32 = 11;
/// SMC.
pub const MONITOR_CALL: u32 = 13;

/// Left in the register of the reported syndrome after each exception: hints are reported as undefined instructions
/// are, but without writing it.
const PARKED: u32 = 0xffff_fffe;

/// What an exception's callback reports. Status and address stay where the core keeps them until the exception is
/// delivered.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = handle.pc();
    let exception = Exception { fetch: vector == FETCH_ABORT, ..Exception::of(vector) };
    let kind = match vector {
        HYPERVISOR_CALL | MONITOR_CALL => TrapKind::FirmwareCall,
        // It ends copies of Thumb code.
        DEBUG if in_kernel(&handle) => TrapKind::Breakpoint,
        _ => TrapKind::Exception,
    };
    park(cpu);
    Trap { kind, exception, pc: resume, resume }
}

/// An undefined instruction: the breakpoint is one. WFE and YIELD arrive here too, with the pc behind them.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    let kind = match handle.live32(SYNDROME) {
        PARKED => TrapKind::Hint,
        _ if in_kernel(&handle) => TrapKind::Breakpoint,
        _ => TrapKind::Exception,
    };
    park(cpu);
    Trap { kind, exception: Exception::of(UNDEFINED), pc, resume: pc }
}

/// From here on a hint can be told from an undefined instruction.
#[inline]
pub fn park(cpu: &TrapContext) {
    cpu.set_live32(SYNDROME, PARKED);
}

/// Code of a mode above the user's runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    state::mode(handle) != USER
}

/// CPSR.I is set.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MASKS) & CPSR_IRQ_MASKED != 0
}
