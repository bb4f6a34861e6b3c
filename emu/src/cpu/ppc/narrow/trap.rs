//! Converts the core's callbacks into a [`Trap`]. At every exception the core has added 4 to the pc.

use super::state::{DAR, ERROR_CODE, MSR, MSR_EE, MSR_PR, MSR_SE};
use crate::cpu::ppc::trap::{DATA, EMULATION, FETCH, INSN, PROGRAM, PROGRAM_KIND, PROGRAM_TRAP, SYSTEM_CALL, TRACE};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};

/// Converts an exception, and sets the core's pc to the instruction.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let behind = handle.pc();
    let pc = behind.wrapping_sub(INSN) & 0xffff_ffff;
    cpu.set_pc(pc);
    let error = handle.live32(ERROR_CODE);
    // The core reports invalid instructions as the hypervisor's emulation assist, which this CPU does not have.
    let vector = if vector == EMULATION { PROGRAM } else { vector };
    // For other exceptions, the field holds the value of an earlier one.
    let has_error = matches!(vector, FETCH | PROGRAM | SYSTEM_CALL);
    let exception = Exception { fetch: vector == FETCH, error: has_error.then_some(error), ..Exception::of(vector) };
    match vector {
        PROGRAM if error & PROGRAM_KIND == PROGRAM_TRAP && in_kernel(&handle) => {
            Trap { kind: TrapKind::Breakpoint, exception, pc, resume: pc }
        }
        SYSTEM_CALL => Trap { kind: TrapKind::Exception, exception, pc, resume: behind },
        TRACE => Trap { kind: TrapKind::Step, exception, pc, resume: pc },
        _ => Trap { kind: TrapKind::Exception, exception, pc, resume: pc },
    }
}

fn state(handle: &Handle) -> u64 {
    handle.live32(MSR).into()
}

/// Whether the CPU is in a privileged state.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    state(handle) & MSR_PR == 0
}

/// Whether external interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    state(handle) & MSR_EE == 0
}

/// Whether the guest single-steps its own code, so that a trap follows the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    state(handle) & MSR_SE != 0
}

/// Converts an invalid instruction. This core reports them as exceptions, so this is not expected to be called.
pub fn invalid(cpu: &TrapContext) -> Trap {
    const NO_INSTRUCTION: u32 = 0x21;
    let pc = cpu.handle().pc();
    let exception = Exception { error: Some(NO_INSTRUCTION), ..Exception::of(PROGRAM) };
    Trap { kind: TrapKind::Exception, exception, pc, resume: pc }
}

/// Removes a reported exception from the core's state: restores DAR, the only register that it changed.
pub fn forget(cpu: &TrapContext, _image: &mut CoreState, exception: &Exception, before: u64) {
    if exception.vector == DATA {
        cpu.set_live32(DAR, before as u32);
    }
}
