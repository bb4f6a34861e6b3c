//! How each event arrives: the core's callback turned into a [`Trap`]. The pc is that of the instruction, also of a
//! system call.

use super::state::{
    CALL_LENGTH, CONTROL_RECORDING, EXECUTED, LETS_IN, MASK, PROBLEM, PROGRAM_CODE, PROGRAM_LENGTH, RECORDS, RECORDS_FETCHES,
};
use super::window;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use crate::unicorn::s390::LEFT_TO_US;
use crate::unicorn::surgery::CoreState;

/// What the core reports: a system call.
pub const SYSTEM_CALL: u32 = 2;
/// A program interruption of any kind.
pub const PROGRAM: u32 = 3;

// Program interruptions: these are an exception's number. A system call's is `CALL`.
/// No instruction of this CPU.
pub const OPERATION: u32 = 1;
/// An instruction has run that is to be recorded.
pub const RECORDED: u32 = 0x80;
/// A system call.
pub const CALL: u32 = 0x100;

/// Those after which the PSW is that of the instruction itself, which is to be done again.
const NULLIFIES: &[u32] = &[0x10, 0x11, 0x1c, 0x38, 0x39, 0x3a, 0x3b];
/// Of these an address says where.
const OF_AN_ADDRESS: &[u32] = &[0x04, 0x10, 0x11, 0x38, 0x39, 0x3a, 0x3b];
const PAGE: u64 = !0xfff;
/// Bytes of the longest instruction, less one.
const REST: u64 = 5;

/// What an exception's callback reports. The detail of a program interruption or a system call is the length of the
/// instruction.
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
        // What EXECUTE executes is not at the pc.
        OPERATION if length == 2 && in_kernel(handle) => Trap { kind: TrapKind::Breakpoint, exception, pc, resume: pc },
        RECORDED => Trap { kind: TrapKind::Step, exception, pc, resume: pc },
        _ => {
            let fetch = length == 2 && OF_AN_ADDRESS.contains(&code) && is_of_code(handle, ram, pc);
            Trap { kind: TrapKind::Exception, exception: Exception { fetch, ..exception }, pc, resume: pc }
        }
    }
}

/// Whether the page that could not be accessed is the instruction's own: no data is in that, for it has been fetched.
fn is_of_code(handle: &Handle, ram: &Ram, pc: u64) -> bool {
    let page = window::fault_address(handle, ram) & PAGE;
    page == pc & PAGE || page == pc.wrapping_add(REST) & PAGE
}

/// Whether the old PSW of such a program interruption is that of its instruction.
pub fn is_nullifying(code: u32) -> bool {
    NULLIFIES.contains(&code)
}

/// Never comes on this ISA.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception { detail: 2, ..Exception::of(OPERATION) }, pc, resume: pc }
}

/// No program runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live64(MASK) & PROBLEM == 0
}

/// None is let in.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MASK) & LETS_IN == 0
}

/// Whether one can be taken: not between EXECUTE and what it executes.
pub fn can_be_interrupted(handle: &Handle, _: &mut CoreState) -> bool {
    !interrupts_off(handle) && handle.live64(EXECUTED) == 0
}

/// The guest steps its own code: a trap comes behind the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(MASK) & RECORDS != 0 && handle.live64(CONTROL_RECORDING) & RECORDS_FETCHES != 0
}
