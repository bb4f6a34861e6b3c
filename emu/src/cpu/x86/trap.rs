//! How each event arrives: the core's callbacks turned into a [`Trap`], with the quirks of docs/unicorn.md taken out.

use super::state::*;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;

/// Vectors with names.
pub const DEBUG: u32 = 1;
/// INT3.
pub const BREAKPOINT: u32 = 3;
/// Invalid opcode.
pub const INVALID_OPCODE: u32 = 6;
/// Double fault.
pub const DOUBLE_FAULT: u32 = 8;
/// Descriptor not present.
pub const NOT_PRESENT: u32 = 11;
/// Stack segment.
pub const STACK_FAULT: u32 = 12;
/// General protection.
pub const PROTECTION: u32 = 13;
/// Page fault.
pub const PAGE_FAULT: u32 = 14;

/// Error code bit of a page fault: the page is there, and its rights are wanting.
pub const FAULT_PRESENT: u32 = 1;
/// And another: it was a write.
pub const FAULT_WRITE: u32 = 1 << 1;
/// And another, where the CPU has it: an instruction was fetched.
pub const FAULT_FETCH: u32 = 1 << 4;

/// What an exception's callback reports.
pub fn trap<const LONG: bool>(cpu: &TrapContext, _: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = pc::<LONG>(&handle);
    if vector == BREAKPOINT && in_kernel(&handle) {
        // The saved pc is behind the byte; `CD 03` also arrives here, and is told apart by the listener not knowing its
        // address.
        let exception = Exception { software: true, ..Exception::of(BREAKPOINT) };
        let pc = resume.wrapping_sub(1) & if LONG { u64::MAX } else { 0xffff_ffff };
        return Trap { kind: TrapKind::Breakpoint, exception, pc, resume };
    }
    let software = handle.live32(EXCEPTION_IS_INT) != 0;
    let error = (!software && has_error_code(vector)).then(|| handle.live32(ERROR_CODE));
    let fetch = vector == PAGE_FAULT && error.is_some_and(|code| code & FAULT_FETCH != 0);
    let exception = Exception { error, software, fetch, ..Exception::of(vector) };
    let is_step = vector == DEBUG && handle.live64(DEBUG_STATUS) & DEBUG_STEP != 0;
    let kind = if is_step { TrapKind::Step } else { TrapKind::Exception };
    Trap { kind, exception, pc: resume, resume }
}

/// The trap flag is set.
#[inline]
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(EFLAGS) & FLAG_TRAP != 0
}

/// What the core does behind an instruction that it has executed itself with that flag set.
pub fn step(cpu: &TrapContext) -> Exception {
    cpu.set_live64(DEBUG_STATUS, cpu.handle().live64(DEBUG_STATUS) | DEBUG_STEP);
    Exception::of(DEBUG)
}

/// The pc; the core lets that of 32-bit code overflow into its upper half.
#[inline]
pub fn pc<const LONG: bool>(handle: &Handle) -> u64 {
    let pc = handle.live64(EIP);
    if LONG { pc } else { pc & 0xffff_ffff }
}

/// An undefined instruction, which the core reports in a callback of its own.
pub fn invalid<const LONG: bool>(cpu: &TrapContext) -> Trap {
    let pc = pc::<LONG>(&cpu.handle());
    Trap { kind: TrapKind::Exception, exception: Exception::of(INVALID_OPCODE), pc, resume: pc }
}

/// Vectors with which the CPU pushes an error code.
pub fn has_error_code(vector: u32) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21)
}

/// Interrupts are on and no instruction in front shadows them.
pub fn interruptible(handle: &Handle, _: &mut CoreState) -> bool {
    !interrupts_off(handle) && handle.live32(HFLAGS) & HF_SHADOW == 0
}

/// Code of privilege 0 runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live32(SEGMENTS + SEGMENT_BYTES * CS) & 3 == 0
}

/// IF is clear.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(EFLAGS) & FLAG_INTERRUPT == 0
}
