//! The running task on AArch64.

use super::state::STACK_EL0;
use crate::cpu::View;

/// The running task's address. In the kernel, SP_EL0 holds it.
pub fn current(view: &mut View) -> u64 {
    view.trap.handle().live64(STACK_EL0)
}
