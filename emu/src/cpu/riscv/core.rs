//! The kinds of cores for RISC-V: SiFive's U54 and U34, with the extensions of RV64GC and RV32GC.

use super::state;
use crate::boot::Kernel;
use crate::unicorn::cpus::riscv;
use crate::unicorn::kinds::{CoreKind, Library};
use unicorn_engine_sys::RegisterRISCV;

/// The 64-bit core.
pub static WIDE: CoreKind = kind(&riscv::WIDE, 44, state::WIDE.pc);
/// The 32-bit core.
pub static NARROW: CoreKind = kind(&riscv::NARROW, 34, state::NARROW.pc);

const fn kind(library: &'static Library, physical_bits: u32, live_pc: usize) -> CoreKind {
    CoreKind {
        library,
        own: None,
        model: None,
        physical_bits,
        turned_round: false,
        encode_pc: |_, pc| pc,
        live_pc,
        has_next_pc: false,
        live_general: (0, state::GENERAL),
        pc: || RegisterRISCV::PC.into(),
    }
}

/// The only CPU model of the kernel's width.
pub fn of(kernel: &Kernel) -> &'static str {
    if kernel.arch.isa().word == 8 { "sifive-u54" } else { "sifive-u34" }
}
