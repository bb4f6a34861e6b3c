//! Converts the core's callback into a [`Trap`]. `unicorn/translator/mips/own.h` makes sure that the pc is correct.

use super::state::{CAUSE_PINS, FLAGS_BRANCH, FLAGS_PRIVILEGE, STATUS_MASK, interrupts_are_off};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::{Handle, InstructionContext, TrapContext};

/// An interrupt.
pub const INTERRUPT: u32 = 8;
/// A misaligned or forbidden address at a load or a fetch.
pub const ADDRESS_LOAD: u32 = 12;
/// A system call (SYSCALL).
pub const SYSTEM_CALL: u32 = 17;
/// A breakpoint (BREAK).
pub const BREAKPOINT: u32 = 18;
/// A reserved instruction.
pub const RESERVED: u32 = 20;
/// A TLB miss at a load or a fetch.
pub const TLB_LOAD: u32 = 26;

/// Converts an exception. One in a delay slot belongs to the branch, from which execution is repeated.
pub fn trap(cpu: &TrapContext, _: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let (pc, flags) = (handle.pc(), handle.at_place(Place::Flags));
    let delayed = flags & FLAGS_BRANCH != 0;
    cpu.set_place(Place::Flags, flags & !FLAGS_BRANCH);
    let fetch = matches!(vector, ADDRESS_LOAD | TLB_LOAD) && handle.at_place(Place::BadVAddr) == pc;
    let pc = if delayed { pc.wrapping_sub(4) & u64::MAX >> if handle.is_wide() { 0 } else { 32 } } else { pc };
    let kind = if vector == BREAKPOINT && !delayed && in_kernel(&handle) { TrapKind::Breakpoint } else { TrapKind::Exception };
    Trap { kind, exception: Exception { fetch, delayed, ..Exception::of(vector) }, pc, resume: pc }
}

/// The trap for an invalid instruction. On this ISA the core raises an exception instead, so nothing calls this.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(RESERVED), pc, resume: pc }
}

/// Whether the CPU is in kernel mode.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.at_place(Place::Flags) & FLAGS_PRIVILEGE == 0
}

/// Whether all interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    interrupts_are_off(handle.at_place(Place::Status))
}

/// Whether the interrupt mask accepts one of these pins, in Cause's layout.
pub fn lets_in(handle: &Handle, signals: u64) -> bool {
    handle.at_place(Place::Status) & STATUS_MASK & signals != 0
}

/// The value of Cause with these pins.
pub fn with_pins(cause: u64, signals: u64) -> u64 {
    cause & !CAUSE_PINS | signals & CAUSE_PINS
}

/// Writes the pins into Cause.
pub fn show_pins(cpu: &InstructionContext, signals: u64) {
    let handle = cpu.handle();
    let cause = with_pins(handle.at_place(Place::Cause), signals);
    cpu.set_live32(handle.place_of(Place::Cause), cause as u32);
}
