//! Converts the core's callbacks into a [`Trap`], corrected for the quirks in docs/unicorn.md.

use super::state::{self, CPSR_IRQ_MASKED, FAULT_STATUS, MASKS, SYNDROME, USER};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};

/// An undefined instruction. The core has no number for it.
pub const UNDEFINED: u32 = 1;
/// A system call (SVC).
pub const SYSTEM_CALL: u32 = 2;
/// A failed fetch.
pub const FETCH_ABORT: u32 = 3;
/// A failed data access.
pub const DATA_ABORT: u32 = 4;
/// A BKPT instruction, which the guest gets as a fetch abort.
pub const DEBUG: u32 = 7;
/// A hypervisor call (HVC).
pub const HYPERVISOR_CALL: u32 = 11;
/// A monitor call (SMC).
pub const MONITOR_CALL: u32 = 13;

/// The value that is written to the reported syndrome after each exception. The core reports hints like undefined
/// instructions, but without writing the syndrome, so this value remains.
const PARKED: u32 = 0xffff_fffe;

/// Converts an exception. Its status and address stay in the core's state until delivery.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let resume = handle.pc();
    let exception = Exception { fetch: vector == FETCH_ABORT && !is_own_breakpoint(&handle), ..Exception::of(vector) };
    let kind = match vector {
        HYPERVISOR_CALL | MONITOR_CALL => TrapKind::FirmwareCall,
        // A BKPT ends displaced copies of Thumb code.
        DEBUG if in_kernel(&handle) => TrapKind::Breakpoint,
        _ => TrapKind::Exception,
    };
    park(cpu);
    Trap { kind, exception, pc: resume, resume }
}

/// Whether the reported fetch abort is a breakpoint in the guest's own debug registers. The fetch itself succeeded. Its status
/// depends on the format of the page tables.
fn is_own_breakpoint(handle: &Handle) -> bool {
    const LONG_FORMAT: u32 = 1 << 9;
    let status = handle.live32(FAULT_STATUS);
    match status & LONG_FORMAT {
        0 => status & 0x40f == 2,
        _ => status & 0x3f == 0x22,
    }
}

/// Converts an undefined instruction. The breakpoint is one. WFE and YIELD arrive here, too, with the pc behind them.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    let kind = match handle.live32(SYNDROME) {
        PARKED => TrapKind::Hint,
        _ if in_kernel(&handle) => TrapKind::Breakpoint,
        _ => TrapKind::Exception,
    };
    park(cpu);
    Trap { kind, exception: Exception::of(UNDEFINED), pc, resume: pc }
}

/// Resets the reported syndrome, so that a hint can be recognised.
#[inline]
pub fn park(cpu: &TrapContext) {
    cpu.set_live32(SYNDROME, PARKED);
}

/// Whether the CPU is in a privileged mode.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    state::mode(handle) != USER
}

/// Whether CPSR.I is set.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MASKS) & CPSR_IRQ_MASKED != 0
}
