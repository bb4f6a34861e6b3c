//! Converts the core's callbacks into a [`Trap`], corrected for the quirks in docs/unicorn.md.

use super::state::*;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};

/// A debug exception. The other named vectors follow.
pub const DEBUG: u32 = 1;
/// A breakpoint (INT3).
pub const BREAKPOINT: u32 = 3;
/// An invalid opcode.
pub const INVALID_OPCODE: u32 = 6;
/// A double fault.
pub const DOUBLE_FAULT: u32 = 8;
/// An invalid task state segment.
pub const INVALID_TASK: u32 = 10;
/// A descriptor that is not present.
pub const NOT_PRESENT: u32 = 11;
/// A stack-segment fault.
pub const STACK_FAULT: u32 = 12;
/// A general-protection fault.
pub const PROTECTION: u32 = 13;
/// A page fault.
pub const PAGE_FAULT: u32 = 14;

/// The error code of a debug exception that is a fault. It is not given to the guest (`translator/x86/debug_points.h`).
const DEBUG_FAULT: u32 = 1;

/// Error code bit of a page fault: the page is present, so its rights forbid the access.
pub const FAULT_PRESENT: u32 = 1;
/// Error code bit of a page fault: the access was a write.
pub const FAULT_WRITE: u32 = 1 << 1;
/// Error code bit of a page fault: the access was a fetch. Only set with no-execute enabled.
pub const FAULT_FETCH: u32 = 1 << 4;

/// Converts an exception.
pub fn trap<const LONG: bool>(cpu: &TrapContext, _: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = pc::<LONG>(&handle);
    if vector == BREAKPOINT && in_kernel(&handle) {
        // The saved pc is behind the breakpoint. `CD 03` arrives here, too; the listener does not know its address.
        let exception = Exception { software: true, ..Exception::of(BREAKPOINT) };
        let pc = resume.wrapping_sub(1) & if LONG { u64::MAX } else { 0xffff_ffff };
        return Trap { kind: TrapKind::Breakpoint, exception, pc, resume };
    }
    let software = handle.live32(EXCEPTION_IS_INT) != 0;
    let error = (!software && has_error_code(vector)).then(|| handle.live32(ERROR_CODE));
    let fetch = vector == PAGE_FAULT && error.is_some_and(|code| code & FAULT_FETCH != 0);
    let exception = Exception { error, software, fetch, ..Exception::of(vector) };
    // A trap behind an instruction: a step, or a watchpoint of the guest's own. A breakpoint of its own is a fault.
    let is_trap = handle.live32(ERROR_CODE) != DEBUG_FAULT && handle.live64(DEBUG_STATUS) & DEBUG_TRAPS != 0;
    let is_step = vector == DEBUG && !software && is_trap;
    let kind = if is_step { TrapKind::Step } else { TrapKind::Exception };
    Trap { kind, exception, pc: resume, resume }
}

/// Whether the trap flag is set.
#[inline]
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(EFLAGS) & FLAG_TRAP != 0
}

/// Does what the core does after an instruction with the trap flag set, for one that the engine computed.
pub fn step(cpu: &TrapContext) -> Exception {
    cpu.set_live64(DEBUG_STATUS, cpu.handle().live64(DEBUG_STATUS) | DEBUG_STEP);
    Exception::of(DEBUG)
}

/// The pc. In 32-bit code, the core lets it overflow into the upper half.
#[inline]
pub fn pc<const LONG: bool>(handle: &Handle) -> u64 {
    let pc = handle.live64(EIP);
    if LONG { pc } else { pc & 0xffff_ffff }
}

/// Converts an undefined instruction, which the core reports in a callback of its own.
pub fn invalid<const LONG: bool>(cpu: &TrapContext) -> Trap {
    let pc = pc::<LONG>(&cpu.handle());
    Trap { kind: TrapKind::Exception, exception: Exception::of(INVALID_OPCODE), pc, resume: pc }
}

/// Whether the CPU pushes an error code with this vector.
pub fn has_error_code(vector: u32) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21)
}

/// Whether an interrupt can be taken: they are enabled, and no interrupt shadow is active.
pub fn interruptible(handle: &Handle, _: &mut CoreState) -> bool {
    !interrupts_off(handle) && handle.live32(HFLAGS) & HF_SHADOW == 0
}

/// Whether the CPU is at privilege level 0.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live32(SEGMENTS + SEGMENT_BYTES * CS) & 3 == 0
}

/// Whether IF is clear.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(EFLAGS) & FLAG_INTERRUPT == 0
}
