//! The running task: application register `k6` has its address.

use super::state::get;
use crate::cpu::View;
use trapline_isa::ia64::abi::K6;

/// The running task's address.
pub fn current(view: &mut View) -> u64 {
    get(&view.trap.handle(), K6, 0)
}
