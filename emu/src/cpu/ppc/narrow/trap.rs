//! How each event arrives: the core's callbacks turned into a [`Trap`]. Whatever it is, the core has added 4 to the pc.

use super::state::{DAR, ERROR_CODE, MSR, MSR_EE, MSR_PR, MSR_SE};
use crate::cpu::ppc::trap::{DATA, EMULATION, FETCH, INSN, PROGRAM, PROGRAM_KIND, PROGRAM_TRAP, SYSTEM_CALL, TRACE};
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;

/// What an exception's callback reports. The core's pc is put to where the instruction is.
pub fn trap(cpu: &TrapContext, _image: &mut CoreState, vector: u32) -> Trap {
    let handle = cpu.handle();
    let behind = handle.pc();
    let pc = behind.wrapping_sub(INSN) & 0xffff_ffff;
    cpu.set_pc(pc);
    let error = handle.live32(ERROR_CODE);
    // The core has one number for what no CPU has, and the hypervisor's is meant; here there is none.
    let vector = if vector == EMULATION { PROGRAM } else { vector };
    // Of all others it is what the last one of these has left.
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

/// No program runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    state(handle) & MSR_PR == 0
}

/// Interrupts are not taken.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    state(handle) & MSR_EE == 0
}

/// The guest steps its own code: a trap comes behind the next instruction.
pub fn stepping(handle: &Handle) -> bool {
    state(handle) & MSR_SE != 0
}

/// This kind of core reports what is no instruction as an exception; should it ever not, it is one.
pub fn invalid(cpu: &TrapContext) -> Trap {
    const NO_INSTRUCTION: u32 = 0x21;
    let pc = cpu.handle().pc();
    let exception = Exception { error: Some(NO_INSTRUCTION), ..Exception::of(PROGRAM) };
    Trap { kind: TrapKind::Exception, exception, pc, resume: pc }
}

/// The exception never happened. The core keeps no trace of it but the address of an access.
pub fn forget(cpu: &TrapContext, _image: &mut CoreState, exception: &Exception, before: u64) {
    if exception.vector == DATA {
        cpu.set_live32(DAR, before as u32);
    }
}
