//! The kind of core for SPARC V9: Unicorn's default, an UltraSPARC IV with eight register windows and five trap levels.

use super::state;
use crate::boot::Kernel;
use crate::unicorn::cpus::sparc64;
use crate::unicorn::kinds::CoreKind;
use unicorn_engine_sys::RegisterSPARC;

/// The 64-bit core.
pub static CORE: CoreKind = CoreKind {
    library: &sparc64::LIBRARY,
    own: None,
    model: None,
    turned_round: false,
    // The number of physical address bits in an entry of its TLB.
    physical_bits: 41,
    encode_pc: |_, pc| pc,
    live_pc: state::PC,
    has_next_pc: true,
    live_general: (0, state::GLOBALS),
    pc: || RegisterSPARC::PC.into(),
};

/// The only CPU model.
pub fn of(_: &Kernel) -> &'static str {
    "UltraSPARC-IV"
}
