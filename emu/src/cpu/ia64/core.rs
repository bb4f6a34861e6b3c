//! The kind of core for IA-64: our own, a CPU with 16 translation registers and a TLB of 64 entries of each kind.

use crate::boot::Kernel;
use crate::unicorn::cpus::ia64::{self, at};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::own;

/// The core.
pub static CORE: CoreKind = CoreKind {
    library: &ia64::LIBRARY,
    own: Some(ia64::make),
    model: None,
    turned_round: false,
    physical_bits: 50,
    encode_pc: |_, pc| pc,
    live_pc: at::PC,
    has_next_pc: false,
    // A register that is set loses its NaT bit, so no register is set by its place alone.
    live_general: (0, 0),
    pc: own::no_number,
};

/// The only CPU model.
pub fn of(_: &Kernel) -> &'static str {
    "itanium2"
}
