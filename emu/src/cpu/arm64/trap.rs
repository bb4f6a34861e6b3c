//! Converts the core's callbacks into a [`Trap`], corrected for the quirks in docs/unicorn.md.

use super::state::{
    self, CPSR_THUMB, DAIF, MDSCR_EL1, PSTATE_DEBUG_MASKED, PSTATE_EL, PSTATE_IRQ_MASKED, PSTATE_REST, PSTATE_STEP, SYNDROME,
};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};

/// An undefined or trapped instruction.
pub const UNDEFINED: u32 = 1;
/// A system call (SVC).
pub const SYSTEM_CALL: u32 = 2;
/// A failed fetch.
pub const FETCH_ABORT: u32 = 3;
/// A failed data access.
pub const DATA_ABORT: u32 = 4;
/// A breakpoint (BRK).
pub const BREAKPOINT: u32 = 7;
/// A hypervisor call (HVC).
pub const HYPERVISOR_CALL: u32 = 11;
/// A monitor call (SMC).
pub const MONITOR_CALL: u32 = 13;

const INSN: u64 = 4;
/// The length of SVC in Thumb code.
const THUMB_INSN: u64 = 2;

/// The syndrome's bit for an instruction of 32 bits. Unicorn sets it for Thumb's BKPT, which has 16.
const LONG: u32 = 1 << 25;

/// The syndrome of a single-step within EL1: its class, a 32-bit instruction, valid ISS, the step's status.
const STEP: u32 = 0x33 << 26 | 1 << 25 | 1 << 24 | 0x22;
/// The bit of that syndrome for an exclusive load.
const STEP_EXCLUSIVE: u32 = 1 << 6;
/// The place of a syndrome's class, and the class of a breakpoint in a debug register. Its last bit says whether the level is the
/// same.
const CLASS: u32 = 26;
const BREAKPOINT_CLASS: u32 = 0x30;
/// MDSCR_EL1: single-step is enabled, and debug exceptions within EL1.
const DEBUG_STEPS: u64 = 1 | 1 << 13;

/// Converts an exception. Its syndrome and address stay in the core's state until delivery.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    if vector == BREAKPOINT && in_kernel(&handle) {
        let pc = handle.pc();
        return Trap { kind: TrapKind::Breakpoint, exception: Exception::of(vector), pc, resume: pc };
    }
    let narrow = state::is_narrow(&handle);
    if narrow {
        cpu.show_narrow();
        if vector == BREAKPOINT && is_thumb(&handle) {
            cpu.set_live32(SYNDROME, handle.live32(SYNDROME) & !LONG);
        }
    }
    let resume = handle.pc();
    let exception = Exception { fetch: vector == FETCH_ABORT && !is_own_breakpoint(&handle), ..Exception::of(vector) };
    match vector {
        HYPERVISOR_CALL | MONITOR_CALL => Trap { kind: TrapKind::FirmwareCall, exception, pc: resume.wrapping_sub(INSN), resume },
        UNDEFINED if is_step(&handle) => Trap { kind: TrapKind::Step, exception, pc: resume, resume },
        SYSTEM_CALL => {
            let len = if narrow && is_thumb(&handle) { THUMB_INSN } else { INSN };
            Trap { kind: TrapKind::Exception, exception, pc: resume.wrapping_sub(len), resume }
        }
        _ => Trap { kind: TrapKind::Exception, exception, pc: resume, resume },
    }
}

/// Whether a 32-bit program runs Thumb code.
fn is_thumb(handle: &Handle) -> bool {
    u64::from(handle.live32(PSTATE_REST)) & CPSR_THUMB != 0
}

/// Whether the reported fetch abort is a breakpoint in the guest's own debug registers. The fetch itself succeeded.
fn is_own_breakpoint(handle: &Handle) -> bool {
    handle.live32(SYNDROME) >> CLASS & !1 == BREAKPOINT_CLASS
}

/// Whether the reported exception is a single-step. The core reports it like an undefined instruction, with another
/// syndrome.
fn is_step(handle: &Handle) -> bool {
    handle.live32(SYNDROME) & !STEP_EXCLUSIVE == STEP
}

/// Whether the guest single-steps its own code and the next instruction has not run yet.
pub fn stepping(handle: &Handle) -> bool {
    let masked = handle.live64(DAIF) & PSTATE_DEBUG_MASKED != 0;
    handle.live32(PSTATE_REST) & PSTATE_STEP != 0 && !masked && handle.system(MDSCR_EL1) & DEBUG_STEPS == DEBUG_STEPS
}

/// Does what the core does after a single-stepped instruction, for one that the engine computed.
pub fn step(cpu: &TrapContext) -> Exception {
    cpu.set_live32(PSTATE_REST, cpu.handle().live32(PSTATE_REST) & !PSTATE_STEP);
    cpu.set_live32(SYNDROME, STEP);
    Exception::of(UNDEFINED)
}

/// Re-arms single-step if the dropped exception was a step: the guest's next instruction is still to be stepped.
pub fn forget(cpu: &TrapContext, exception: &Exception) {
    if exception.vector == UNDEFINED && is_step(&cpu.handle()) {
        cpu.set_live32(PSTATE_REST, cpu.handle().live32(PSTATE_REST) | PSTATE_STEP);
    }
}

/// Converts an invalid instruction. This core reports them as exceptions, so this is not expected to be called.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(UNDEFINED), pc, resume: pc }
}

/// Whether the CPU is above EL0.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    u64::from(handle.live32(PSTATE_REST)) & PSTATE_EL != 0
}

/// Whether PSTATE.I is set.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(DAIF) & PSTATE_IRQ_MASKED != 0
}
