//! The running task: its address lies in what %g6 points to in the kernel.

use super::state::get;
use crate::cpu::View;
use trapline_isa::mem::Memory;
use trapline_isa::sparc64::abi::r;

/// Its address lies in the area of the CPU.
pub fn current(view: &mut View) -> u64 {
    let area = get(&view.trap.handle(), r(6), 0).wrapping_add(view.tasks.current.unwrap_or(0));
    view.read_number(area, view.isa.word).unwrap_or(0)
}
