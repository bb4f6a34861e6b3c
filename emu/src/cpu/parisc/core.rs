//! The kind of core for PA-RISC: our own, a CPU of version 1.1 with a TLB of 64 entries.

use crate::boot::Kernel;
use crate::unicorn::cpus::parisc::{self, at};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::own;

/// The 32-bit core.
pub static CORE: CoreKind = CoreKind {
    library: &parisc::LIBRARY,
    own: Some(parisc::make),
    model: None,
    turned_round: false,
    physical_bits: 32,
    encode_pc: |_, pc| pc,
    live_pc: at::FRONT,
    has_next_pc: true,
    live_general: (0, 32),
    pc: own::no_number,
};

/// The only CPU model.
pub fn of(_: &Kernel) -> &'static str {
    "pa-7100lc"
}
