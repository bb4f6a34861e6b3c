//! The running task: a member of what gp points to in the kernel.

use super::state::get;
use crate::cpu::View;
use trapline_isa::mem::Memory;
use trapline_isa::mips::abi::GP;

/// The first word of the running task's `thread_info` is its address.
pub fn current(view: &mut View) -> u64 {
    let thread_info = get(&view.trap.handle(), GP, 0);
    view.read_number(thread_info, view.isa.word).unwrap_or(0)
}
