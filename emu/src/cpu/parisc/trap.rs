//! Converts the core's exception into a [`Trap`].

use super::state::in_kernel;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::cpus::parisc::at;
use crate::unicorn::engine::TrapContext;
use trapline_core::parisc::number;
use trapline_isa::parisc::slot;

/// An illegal instruction.
pub const ILLEGAL: u32 = number::ILLEGAL;

/// Converts an exception. The second breakpoint behind a copy means that the copy has nullified the first: it is reported as
/// the first one, and the next instruction of the guest is nullified instead.
pub fn trap(cpu: &TrapContext, vector: u32) -> Trap {
    let handle = cpu.handle();
    let (pc, word) = (handle.pc(), handle.live32(at::WORD));
    let is_ours = vector == number::BREAK && in_kernel(&handle);
    let (kind, pc) = match word {
        slot::STEP_NULLIFIED if is_ours => {
            cpu.set_live32(at::NULLIFY, 1);
            (TrapKind::Breakpoint, pc.wrapping_sub(4))
        }
        _ if is_ours => (TrapKind::Breakpoint, pc),
        _ => (TrapKind::Exception, pc),
    };
    let fetch = matches!(vector, number::CODE_MISS | number::CODE_RIGHTS);
    Trap { kind, exception: Exception { fetch, ..Exception::of(vector) }, pc, resume: pc }
}
