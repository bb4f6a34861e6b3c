//! How each event arrives: the core's callback turned into a [`Trap`]. `unicorn/translator/sparc64.h` has seen to it that
//! the pc and npc are right.

use super::state::{CANRESTORE, CANSAVE, CLEANWIN, OTHERWIN, WSTATE, in_kernel};
use super::window;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_isa::sparc64::abi::WINDOWS;
use trapline_isa::sparc64::slot;

/// A fetch of a page that this privilege may not run.
const FETCH_REFUSED: u32 = 0x08;
/// No instruction of this CPU.
pub const ILLEGAL: u32 = 0x10;
/// `save` would go to a window that still holds what another space has left there.
const CLEAN_WINDOW: u32 = 0x24;
/// The TLB of fetches has no fitting entry; four numbers are one.
pub const FETCH_MISS: u32 = 0x64;
/// A window is to be written to the stack; and to be read from it.
const SPILL: u32 = 0x80;
const FILL: u32 = 0xc0;
/// It belongs to another space than the one that runs.
const OF_OTHERS: u32 = 0x20;
/// `ta 0`, and so on.
const TRAP: u32 = 0x100;

/// The number of the exception of such a breakpoint.
const fn number(word: u32) -> u32 {
    TRAP + (word & 0x7f)
}

const BREAK: u32 = number(slot::BREAK);
const STEP_END: u32 = number(slot::STEP_END);
const OLD_BREAK: u32 = number(slot::OLD_BREAK);
const BREAK_SAVE: u32 = number(slot::BREAK_SAVE);
const BREAK_RESTORE: u32 = number(slot::BREAK_RESTORE);
const BREAK_FLUSH: u32 = number(slot::BREAK_FLUSH);

/// What an exception's callback reports. Where an instruction on windows is probed and its own exception is due, that
/// comes instead: the guest handles it, comes again, and is hit then. In the probe window a copy may just have given the
/// kernel's privilege up.
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

/// Which handler of windows: three bits for this space's, and three for another one's.
fn window_handler(handle: &Handle) -> u32 {
    let chosen = handle.live32(WSTATE);
    if handle.live32(OTHERWIN) != 0 { OF_OTHERS | (chosen & 0x38) >> 1 } else { (chosen & 7) << 2 }
}

/// Never comes on this ISA.
pub fn invalid(cpu: &TrapContext) -> Trap {
    exception(ILLEGAL, cpu.handle().pc())
}
