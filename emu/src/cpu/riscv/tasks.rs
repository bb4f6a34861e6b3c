//! The running task on RISC-V.

use super::state::{get, places};
use crate::boot::Kernel;
use crate::cpu::{TaskPlace, View};
use trapline_isa::riscv::abi::TP;

/// The running task's address. The kernel has it in tp, and leaves it in sscratch while a program runs and until the first
/// instructions of a handler have exchanged the two.
pub fn current(view: &mut View) -> u64 {
    let handle = view.trap.handle();
    match places(&handle).word(&handle, |places| places.sscratch) {
        0 => get(&handle, TP, 0),
        task => task,
    }
}

/// Kernels without types are not known to exist for this ISA, so their code is not searched.
pub fn by_code(_: &Kernel) -> TaskPlace {
    TaskPlace::default()
}
