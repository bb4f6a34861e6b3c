//! The running task: control register 30 has its address.

use super::state::get;
use crate::cpu::View;
use trapline_isa::parisc::abi::CR30;

/// The running task's address.
pub fn current(view: &mut View) -> u64 {
    get(&view.trap.handle(), CR30, 0)
}
