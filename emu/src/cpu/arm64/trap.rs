//! How each event arrives: the core's callbacks turned into a [`Trap`], with the quirks of docs/unicorn.md taken out.

use super::state::{DAIF, MDSCR_EL1, PSTATE_DEBUG_MASKED, PSTATE_EL, PSTATE_IRQ_MASKED, PSTATE_REST, PSTATE_STEP, SYNDROME};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;

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

/// The syndrome of a step through code of EL1 itself: the class, a long instruction, behind one that has run.
const STEP: u32 = 0x33 << 26 | 1 << 25 | 1 << 24 | 0x22;
/// In it: that was an exclusive load.
const STEP_EXCLUSIVE: u32 = 1 << 6;
/// MDSCR_EL1: steps, and debug exceptions within EL1.
const DEBUG_STEPS: u64 = 1 | 1 << 13;

/// What an exception's callback reports. Syndrome and address stay where the core keeps them until the exception is
/// delivered.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = handle.pc();
    let exception = Exception { fetch: vector == FETCH_ABORT, ..Exception::of(vector) };
    match vector {
        BREAKPOINT if in_kernel(&handle) => Trap { kind: TrapKind::Breakpoint, exception, pc: resume, resume },
        HYPERVISOR_CALL | MONITOR_CALL => Trap { kind: TrapKind::FirmwareCall, exception, pc: resume.wrapping_sub(INSN), resume },
        UNDEFINED if is_step(&handle) => Trap { kind: TrapKind::Step, exception, pc: resume, resume },
        SYSTEM_CALL => Trap { kind: TrapKind::Exception, exception, pc: resume.wrapping_sub(INSN), resume },
        _ => Trap { kind: TrapKind::Exception, exception, pc: resume, resume },
    }
}

/// The core reports steps as it does undefined instructions; the syndrome tells.
fn is_step(handle: &Handle) -> bool {
    handle.live32(SYNDROME) & !STEP_EXCLUSIVE == STEP
}

/// The guest steps its own code, and the next instruction has not run yet.
pub fn stepping(handle: &Handle) -> bool {
    let masked = handle.live64(DAIF) & PSTATE_DEBUG_MASKED != 0;
    handle.live32(PSTATE_REST) & PSTATE_STEP != 0 && !masked && handle.system(MDSCR_EL1) & DEBUG_STEPS == DEBUG_STEPS
}

/// What the core does behind an instruction that it has executed itself in that state.
pub fn step(cpu: &TrapContext) -> Exception {
    cpu.set_live32(PSTATE_REST, cpu.handle().live32(PSTATE_REST) & !PSTATE_STEP);
    cpu.set_live32(SYNDROME, STEP);
    Exception::of(UNDEFINED)
}

/// A step that was none of the guest's: the next instruction is still to be stepped.
pub fn forget(cpu: &TrapContext, exception: &Exception) {
    if exception.vector == UNDEFINED && is_step(&cpu.handle()) {
        cpu.set_live32(PSTATE_REST, cpu.handle().live32(PSTATE_REST) | PSTATE_STEP);
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
