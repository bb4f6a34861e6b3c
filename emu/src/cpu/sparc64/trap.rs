//! Converts the core's callback into a [`Trap`]. `unicorn/translator/sparc64/own.h` makes sure that pc and npc are correct.

use super::state::{CANRESTORE, CANSAVE, CLEANWIN, OTHERWIN, WSTATE, in_kernel};
use super::window;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_isa::sparc64::abi::WINDOWS;
use trapline_isa::sparc64::slot;

/// A fetch from a page that this privilege may not execute.
const FETCH_REFUSED: u32 = 0x08;
/// An illegal instruction.
pub const ILLEGAL: u32 = 0x10;
/// `save` would go to a register window with another address space's data.
const CLEAN_WINDOW: u32 = 0x24;
/// A miss in the instruction TLB. Four trap numbers belong to it.
pub const FETCH_MISS: u32 = 0x64;
/// A register window must be spilled to the stack, or filled from it.
const SPILL: u32 = 0x80;
const FILL: u32 = 0xc0;
/// The window belongs to another address space than the running one.
const OF_OTHERS: u32 = 0x20;
/// The trap number of `ta 0`.
const TRAP: u32 = 0x100;

/// The trap number of a breakpoint instruction.
const fn number(word: u32) -> u32 {
    TRAP + (word & 0x7f)
}

const BREAK: u32 = number(slot::BREAK);
const STEP_END: u32 = number(slot::STEP_END);
const OLD_BREAK: u32 = number(slot::OLD_BREAK);
const BREAK_SAVE: u32 = number(slot::BREAK_SAVE);
const BREAK_RESTORE: u32 = number(slot::BREAK_RESTORE);
const BREAK_FLUSH: u32 = number(slot::BREAK_FLUSH);

/// Converts an exception. A breakpoint may replace an instruction on register windows whose own trap is due: then that
/// trap is reported instead. The guest handles it, repeats the instruction, and the probe is hit then. A copy in the
/// probe window may have left privileged mode just before its breakpoint.
pub fn trap(cpu: &TrapContext, vector: u32) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    let due = match vector {
        BREAK | STEP_END | OLD_BREAK => None,
        BREAK_SAVE => save_raises(&handle),
        BREAK_RESTORE => (handle.live32(CANRESTORE) == 0).then(|| FILL | window_handler(&handle)),
        BREAK_FLUSH => flush_raises(&handle),
        _ => return exception(vector, pc),
    };
    match due {
        _ if !in_kernel(&handle) && !window::is_shown_at(&handle, pc) => exception(vector, pc),
        Some(due) => exception(due, pc),
        None => Trap { kind: TrapKind::Breakpoint, exception: Exception::of(vector), pc, resume: pc },
    }
}

fn exception(vector: u32, pc: u64) -> Trap {
    let fetch = matches!(vector, FETCH_REFUSED | FETCH_MISS..0x68);
    Trap { kind: TrapKind::Exception, exception: Exception { fetch, ..Exception::of(vector) }, pc, resume: pc }
}

fn save_raises(handle: &Handle) -> Option<u32> {
    if handle.live32(CANSAVE) == 0 {
        return Some(SPILL | window_handler(handle));
    }
    (handle.live32(CLEANWIN) == handle.live32(CANRESTORE)).then_some(CLEAN_WINDOW)
}

fn flush_raises(handle: &Handle) -> Option<u32> {
    (u64::from(handle.live32(CANSAVE)) != WINDOWS - 2).then(|| SPILL | window_handler(handle))
}

/// The part of a trap number that selects the spill or fill handler: by WSTATE's three bits for the own address space,
/// or its three for others.
fn window_handler(handle: &Handle) -> u32 {
    let chosen = handle.live32(WSTATE);
    if handle.live32(OTHERWIN) != 0 { OF_OTHERS | (chosen & 0x38) >> 1 } else { (chosen & 7) << 2 }
}

/// The trap for an invalid instruction. On this ISA the core raises an exception instead, so nothing calls this.
pub fn invalid(cpu: &TrapContext) -> Trap {
    exception(ILLEGAL, cpu.handle().pc())
}
