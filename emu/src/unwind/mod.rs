//! How callers are found, kernel by kernel: one row for each ISA. By the kernel's own tables where it has any, by what its functions do first
//! on MIPS, by frames that point to one another where its code lays such, and otherwise not at all: then a stack is what its words may mean.

mod chain;
mod orc;
mod prologue;

use crate::boot::Kernel;
use chain::Chain;
use std::sync::Arc;
use trapline_isa::arch::Arch;
use trapline_probes::unwind::Unwind;

/// How one ISA's frames lead to one another.
#[rustfmt::skip]
const CHAINS: &[(Arch, Chain)] = &[
    // push %ebp; mov %esp,%ebp: behind the tracer's call of 5 bytes.
    (Arch::I386,  Chain { pointer: "bp",  link: None,        back: 4, entry: 5 }),
    // stp x29, x30, [sp, #-..]!; mov x29, sp: behind the tracer's two nops, and one more instruction that guards branches.
    (Arch::Arm64, Chain { pointer: "x29", link: Some("x30"), back: 8, entry: 12 }),
];

/// How callers are found in this kernel; `None`: nobody knows.
pub fn of(kernel: &Kernel) -> Option<Arc<dyn Unwind>> {
    if let Some(tables) = orc::Orc::of(kernel) {
        return Some(Arc::new(tables));
    }
    if let Some(functions) = prologue::Prologues::new(kernel) {
        return Some(Arc::new(functions));
    }
    // Others are built as people like.
    if !kernel.is_stock() {
        return None;
    }
    let (_, chain) = CHAINS.iter().find(|(arch, _)| *arch == kernel.arch)?;
    Some(Arc::new(chain::Chained::new(kernel, chain)?))
}
