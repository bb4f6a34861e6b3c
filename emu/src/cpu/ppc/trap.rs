//! How each event arrives: the core's callbacks turned into a [`Trap`]. Whatever it is, the core has added 4 to the pc.

use super::state::{DAR, ERROR_CODE, MSR, MSR_EE, MSR_IR, MSR_PR, MSR_SE};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;

/// Data could not be accessed.
pub const DATA: u32 = 2;
/// An instruction could not be fetched.
pub const FETCH: u32 = 3;
/// A program interrupt: a trap, a privileged or an illegal instruction.
pub const PROGRAM: u32 = 6;
/// A system call, or a call of the hypervisor: of the firmware.
pub const SYSTEM_CALL: u32 = 8;
/// A stepped instruction has run.
pub const TRACE: u32 = 68;
/// What no CPU has, in the hypervisor's state.
pub const EMULATION: u32 = 96;

/// Bytes of an instruction.
pub const INSN: u64 = 4;
/// Of a program interrupt's error code: which it is.
pub const PROGRAM_KIND: u32 = !15;
/// It is a trap.
pub const PROGRAM_TRAP: u32 = 0x40;

/// What an exception's callback reports. The core's pc is put to where the instruction is.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let behind = handle.pc();
    let pc = behind.wrapping_sub(INSN);
    cpu.set_pc(pc);
    let error = handle.live32(ERROR_CODE);
    // Of all others it is what the last one of these has left.
    let has_error = matches!(vector, FETCH | PROGRAM | SYSTEM_CALL);
    let exception = Exception { fetch: vector == FETCH, error: has_error.then_some(error), ..Exception::of(vector) };
    match vector {
        PROGRAM if error & PROGRAM_KIND == PROGRAM_TRAP && in_kernel(&handle) => {
            Trap { kind: TrapKind::Breakpoint, exception, pc, resume: pc }
        }
        // Of the firmware, by a hypervisor that runs untranslated.
        SYSTEM_CALL if error == 1 && handle.live64(MSR) & (MSR_PR | MSR_IR) == 0 => {
            Trap { kind: TrapKind::FirmwareCall, exception, pc, resume: behind }
        }
        SYSTEM_CALL => Trap { kind: TrapKind::Exception, exception, pc, resume: behind },
        TRACE => Trap { kind: TrapKind::Step, exception, pc, resume: pc },
        _ => Trap { kind: TrapKind::Exception, exception, pc, resume: pc },
    }
}

/// No program runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_PR == 0
}

/// Interrupts are not taken.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_EE == 0
}

/// The guest steps its own code: a trap comes behind the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    handle.live64(MSR) & MSR_SE != 0
}

/// This kind of core reports what is no instruction as an exception; should it ever not, it is one.
pub fn invalid(cpu: &TrapContext) -> Trap {
    let pc = cpu.handle().pc();
    Trap { kind: TrapKind::Exception, exception: Exception::of(EMULATION), pc, resume: pc }
}

/// The exception never happened. The core keeps no trace of it but the address of an access.
pub fn forget(cpu: &TrapContext, _image: &mut CoreState, exception: &Exception, before: u64) {
    if exception.vector == DATA {
        cpu.set_live64(DAR, before);
    }
}
