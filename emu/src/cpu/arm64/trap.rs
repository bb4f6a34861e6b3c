//! How each event arrives: the core's callbacks turned into a [`Trap`], with the quirks of docs/unicorn.md taken out.

use super::state::{DAIF, PSTATE_EL, PSTATE_IRQ_MASKED, PSTATE_REST};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::Image;

/// An undefined or trapped instruction.
pub const UNDEFINED: u32 = 1;
/// SVC.
pub const SYSTEM_CALL: u32 = 2;
/// An instruction could not be fetched.
pub const FETCH_ABORT: u32 = 3;
/// Memory could not be accessed.
pub const DATA_ABORT: u32 = 4;
/// BRK.
pub const BREAKPOINT: u32 = 7;
/// HVC.
pub const HYPERVISOR_CALL: u32 = 11;
/// SMC.
pub const MONITOR_CALL: u32 = 13;

const INSN: u64 = 4;

/// What an exception's callback reports. Syndrome and address stay where the core keeps them until the exception is delivered.
pub fn trap(cpu: &TrapContext, _image: &mut Image, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = handle.pc();
    let exception = Exception { fetch: vector == FETCH_ABORT, ..Exception::of(vector) };
    match vector {
        BREAKPOINT if in_kernel(&handle) => Trap { kind: TrapKind::Breakpoint, exception, pc: resume, resume },
        HYPERVISOR_CALL | MONITOR_CALL => Trap { kind: TrapKind::FirmwareCall, exception, pc: resume.wrapping_sub(INSN), resume },
        SYSTEM_CALL => Trap { kind: TrapKind::Exception, exception, pc: resume.wrapping_sub(INSN), resume },
        _ => Trap { kind: TrapKind::Exception, exception, pc: resume, resume },
    }
}

/// This kind of core reports undefined instructions as exceptions; should it ever not, it is one.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(UNDEFINED), pc, resume: pc }
}

/// Code of a level above the user's runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    u64::from(handle.live32(PSTATE_REST)) & PSTATE_EL != 0
}

/// PSTATE.I is set.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(DAIF) & PSTATE_IRQ_MASKED != 0
}
