//! The running task: %g6 points to per-CPU data with its address.

use super::state::get;
use crate::cpu::View;
use trapline_isa::mem::Memory;
use trapline_isa::sparc64::abi::r;

/// The running task's address, from the per-CPU data.
pub fn current(view: &mut View) -> u64 {
    let area = get(&view.trap.handle(), r(6), 0).wrapping_add(view.tasks.current.unwrap_or(0));
    view.read_number(area, view.isa.word).unwrap_or(0)
}
