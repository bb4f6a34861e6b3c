//! Converts the core's callback into a [`Trap`]. The pc is that of the instruction, also for a system call.

use super::state::{
    CALL_LENGTH, CONTROL, CONTROL_RECORDING, EXECUTED, LETS_CHANNELS_IN, LETS_IN, MASK, PROBLEM, PROGRAM_CODE, PROGRAM_LENGTH,
    RECORDS, RECORDS_FETCHES,
};
use super::window;
use crate::boards::s390ccw::{EXTERNAL, channel_kinds};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::s390::LEFT_TO_US;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;

/// The core's number of a system call.
pub const SYSTEM_CALL: u32 = 2;
/// The core's number of a program interruption.
pub const PROGRAM: u32 = 3;

// Exception numbers: program interruption codes, and `CALL` for a system call.
/// No instruction of this CPU.
pub const OPERATION: u32 = 1;
/// A PER event: a single-stepped instruction has run.
pub const RECORDED: u32 = 0x80;
/// A system call.
pub const CALL: u32 = 0x100;

/// Nullifying interruptions: the old PSW has the address of the instruction, which will be repeated.
const NULLIFIES: &[u32] = &[0x10, 0x11, 0x1c, 0x38, 0x39, 0x3a, 0x3b];
/// Interruptions with a translation-exception address.
const OF_AN_ADDRESS: &[u32] = &[0x04, 0x10, 0x11, 0x38, 0x39, 0x3a, 0x3b];
const PAGE: u64 = !0xfff;
/// Length of the longest instruction, minus 1.
const REST: u64 = 5;

/// Converts an exception. `detail` is the length of the instruction.
pub fn trap(cpu: &TrapContext, _: &mut CoreState, ram: &Ram, vector: u32) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    match vector {
        LEFT_TO_US => Trap { kind: TrapKind::LeftToUs, exception: Exception::of(OPERATION), pc, resume: pc },
        SYSTEM_CALL => {
            let detail = u64::from(handle.live32(CALL_LENGTH));
            let exception = Exception { detail, ..Exception::of(CALL) };
            Trap { kind: TrapKind::Exception, exception, pc, resume: pc.wrapping_add(detail) }
        }
        _ => program(&handle, ram, pc),
    }
}

fn program(handle: &Handle, ram: &Ram, pc: u64) -> Trap {
    let (code, length) = (handle.live32(PROGRAM_CODE), handle.live32(PROGRAM_LENGTH));
    let exception = Exception { detail: length.into(), ..Exception::of(code) };
    match code {
        // An instruction executed by EXECUTE is not at the pc, so it is not a breakpoint.
        OPERATION if length == 2 && in_kernel(handle) => Trap { kind: TrapKind::Breakpoint, exception, pc, resume: pc },
        RECORDED => Trap { kind: TrapKind::Step, exception, pc, resume: pc },
        _ => {
            let fetch = length == 2 && OF_AN_ADDRESS.contains(&code) && is_of_code(handle, ram, pc);
            Trap { kind: TrapKind::Exception, exception: Exception { fetch, ..exception }, pc, resume: pc }
        }
    }
}

/// Whether the page that could not be accessed contains the instruction. Then the fetch failed, because a fetched
/// instruction's page is accessible for data, too.
fn is_of_code(handle: &Handle, ram: &Ram, pc: u64) -> bool {
    let page = window::fault_address(handle, ram) & PAGE;
    page == pc & PAGE || page == pc.wrapping_add(REST) & PAGE
}

/// Whether the old PSW of this program interruption has the address of the instruction itself.
pub fn is_nullifying(code: u32) -> bool {
    NULLIFIES.contains(&code)
}

/// The trap for an invalid instruction. On this ISA the core raises an exception instead, so nothing calls this.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception { detail: 2, ..Exception::of(OPERATION) }, pc, resume: pc }
}

/// Whether the CPU is in supervisor state.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live64(MASK) & PROBLEM == 0
}

/// Whether external and channel interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MASK) & (LETS_IN | LETS_CHANNELS_IN) == 0
}

/// The kinds of interrupts that the CPU accepts, as bits of the board ([`Board::pins`](crate::boards::Board::pins)).
pub fn accepted(handle: &Handle) -> u64 {
    let mask = handle.live64(MASK);
    let external = if mask & LETS_IN != 0 { EXTERNAL } else { 0 };
    let classes = if mask & LETS_CHANNELS_IN != 0 { enabled_classes(handle) } else { 0 };
    external | channel_kinds(classes)
}

/// The interruption subclasses of channels that control register 6 enables, a bit each from bit 0 on.
pub fn enabled_classes(handle: &Handle) -> u8 {
    const SUBCLASSES: u32 = 24;
    ((handle.live64(CONTROL + 8 * 6) >> SUBCLASSES) as u8).reverse_bits()
}

/// Whether an interrupt can be taken. It cannot between EXECUTE and the instruction that it executes.
pub fn can_be_interrupted(handle: &Handle, _: &mut CoreState) -> bool {
    !interrupts_off(handle) && handle.live64(EXECUTED) == 0
}

/// Whether the guest single-steps its own code, so that a trap follows the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(MASK) & RECORDS != 0 && handle.live64(CONTROL_RECORDING) & RECORDS_FETCHES != 0
}
