//! The running task on 32-bit PowerPC: its address stands in the CPU's own area, whose physical address a special
//! register holds.

use super::state::PER_CPU;
use crate::cpu::View;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Registers;

/// The running task: the pointer in the CPU's own area; or the page of the kernel stack where the kernel does not say.
pub fn current(view: &mut View) -> u64 {
    let area = u64::from(view.trap.handle().live32(PER_CPU));
    let mut bytes = [0; 4];
    let found = view.tasks.current.filter(|offset| view.ram.read(area.wrapping_add(*offset), &mut bytes));
    let task = found.map(|_| ByteOrder::Big.number(&bytes)).filter(|task| *task != 0);
    task.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}
