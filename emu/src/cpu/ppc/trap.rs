//! Converts the core's callbacks into a [`Trap`]. At every exception the core has added 4 to the pc.

use super::state::{DAR, ERROR_CODE, MSR, MSR_EE, MSR_IR, MSR_PR, MSR_SE};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};

/// A data storage fault.
pub const DATA: u32 = 2;
/// An instruction storage fault.
pub const FETCH: u32 = 3;
/// A program interrupt: a trap, or a privileged or illegal instruction.
pub const PROGRAM: u32 = 6;
/// A system call or, with level 1, a firmware call.
pub const SYSTEM_CALL: u32 = 8;
/// A single-step trace exception.
pub const TRACE: u32 = 68;
/// An emulation-assist interrupt: an invalid instruction in hypervisor state.
pub const EMULATION: u32 = 96;

/// Length of an instruction.
pub const INSN: u64 = 4;
/// The bits of a program interrupt's error code that say which kind it is.
pub const PROGRAM_KIND: u32 = !15;
/// The kind of a trap instruction.
pub const PROGRAM_TRAP: u32 = 0x40;

/// Converts an exception, and sets the core's pc to the instruction.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let behind = handle.pc();
    let pc = behind.wrapping_sub(INSN);
    cpu.set_pc(pc);
    let error = handle.live32(ERROR_CODE);
    // For other exceptions, the field holds the value of an earlier one.
    let has_error = matches!(vector, FETCH | PROGRAM | SYSTEM_CALL);
    let exception = Exception { fetch: vector == FETCH, error: has_error.then_some(error), ..Exception::of(vector) };
    match vector {
        PROGRAM if error & PROGRAM_KIND == PROGRAM_TRAP && in_kernel(&handle) => {
            Trap { kind: TrapKind::Breakpoint, exception, pc, resume: pc }
        }
        // A firmware call: `sc 1` in real mode.
        SYSTEM_CALL if error == 1 && handle.live64(MSR) & (MSR_PR | MSR_IR) == 0 => {
            Trap { kind: TrapKind::FirmwareCall, exception, pc, resume: behind }
        }
        SYSTEM_CALL => Trap { kind: TrapKind::Exception, exception, pc, resume: behind },
        TRACE => Trap { kind: TrapKind::Step, exception, pc, resume: pc },
        _ => Trap { kind: TrapKind::Exception, exception, pc, resume: pc },
    }
}

/// Whether the CPU is in a privileged state.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_PR == 0
}

/// Whether external interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_EE == 0
}

/// Whether the guest single-steps its own code, so that a trap follows the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_SE != 0
}

/// Converts an invalid instruction. This core reports them as exceptions, so this is not expected to be called.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(EMULATION), pc, resume: pc }
}

/// Removes a reported exception from the core's state: restores DAR, the only register that it changed.
pub fn forget(cpu: &TrapContext, _image: &mut CoreState, exception: &Exception, before: u64) {
    if exception.vector == DATA {
        cpu.set_live64(DAR, before);
    }
}
