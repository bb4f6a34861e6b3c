//! Converts the core's exception into a [`Trap`].

use super::state::in_kernel;
use crate::cpu::{Exception, Trap, TrapKind};
use crate::unicorn::engine::TrapContext;
use trapline_core::ia64::{isr, vector};
use trapline_isa::ia64::slot::is_probes;

/// An illegal instruction.
pub const ILLEGAL: u32 = vector::GENERAL;

/// Converts an exception. Every break of the kernel is a breakpoint, because a jprobe's handler may end at one with any number.
/// The bundle of a hit counts as the last completed one (`cr.iipa`), because the copy in the window does
/// not. If the copy raises an exception itself, the instruction has not completed, and the bundle before it counts again.
pub fn trap(cpu: &TrapContext, vector: u32) -> Trap {
    let handle = cpu.handle();
    let pc = handle.pc();
    let mut trap = Trap::of(cpu, vector);
    let Some(state) = handle.ia64() else { return trap };
    let is_breakpoint = vector == vector::BREAK && in_kernel(&handle);
    let is_hit = is_breakpoint && is_probes(state.fault_number.get());
    let [start, len, _] = [0, 1, 2].map(|number| state.window[number].get());
    match (is_hit, pc.wrapping_sub(start) < len) {
        (true, false) => {
            state.before_hit.set(state.last.get());
            state.last.set(state.ip());
        }
        (false, true) => state.last.set(state.before_hit.get()),
        _ => {}
    }
    if is_breakpoint {
        trap.kind = TrapKind::Breakpoint;
    }
    trap.exception = Exception { fetch: state.fault_status.get() & isr::X != 0, ..Exception::of(vector) };
    trap
}
