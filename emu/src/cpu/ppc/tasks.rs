//! The running task on 64-bit PowerPC.

use super::state::PER_CPU;
use crate::cpu::View;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;

/// The running task: the pointer in the CPU's own area, which a register of the hypervisor's leads to; or the page of
/// the kernel stack where the kernel does not say.
pub fn current(view: &mut View) -> u64 {
    let area = view.trap.handle().live64(PER_CPU);
    let place = view.tasks.current;
    let found = place.and_then(|offset| view.read_number(area.wrapping_add(offset), 8).ok()).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}
