//! Converts the core's callback into a [`Trap`]. `unicorn/translator/riscv/own.h` makes sure that pc and cause are correct.

use super::state::{self, in_kernel};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::TrapContext;
use trapline_isa::riscv::abi::x;

/// A fetch from memory that cannot be accessed.
const FETCH_ACCESS: u32 = 1;
/// An illegal instruction.
pub const ILLEGAL: u32 = 2;
/// A breakpoint (EBREAK).
pub const BREAKPOINT: u32 = 3;
/// A misaligned load. The causes from here on to 7 are failed loads and stores.
pub const LOAD_MISALIGNED: u32 = 4;
/// A system call (ECALL). The core reports it from every mode.
pub const SYSTEM_CALL: u32 = 8;
/// A page fault at a fetch.
pub const FETCH_FAULT: u32 = 12;
/// A page fault at a load.
pub const LOAD_FAULT: u32 = 13;
/// A page fault at a store or an atomic instruction.
pub const STORE_FAULT: u32 = 15;

/// ECALL has no compressed form.
const CALL_BYTES: u64 = 4;

/// The number in a7 of the firmware's remote fences. The calling hart may be among those that it names.
const REMOTE_FENCES: u64 = 0x5246_4e43;

/// Converts an exception. The kernel's own ECALL calls the firmware (SBI).
pub fn trap(cpu: &TrapContext, cause: u32) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    let exception = Exception { fetch: matches!(cause, FETCH_ACCESS | FETCH_FAULT), ..Exception::of(cause) };
    let (kind, resume) = match cause {
        BREAKPOINT if in_kernel(&handle) => (TrapKind::Breakpoint, pc),
        SYSTEM_CALL if in_kernel(&handle) => {
            if state::get(&handle, x(17), pc) == REMOTE_FENCES {
                cpu.fence_riscv();
            }
            (TrapKind::FirmwareCall, state::cut(&handle, pc.wrapping_add(CALL_BYTES)))
        }
        _ => (TrapKind::Exception, pc),
    };
    Trap { kind, exception, pc, resume }
}

/// The trap for an invalid instruction. On this ISA the core raises an exception instead, so nothing calls this.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(ILLEGAL), pc, resume: pc }
}
