//! The kind of core that SPARC V9 runs on: the library's own choice, an UltraSPARC IV, with eight windows and five levels
//! of traps.

use super::state;
use crate::boot::Kernel;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::sparc64;
use unicorn_engine_sys::RegisterSPARC;

/// 64 bits.
pub static CORE: CoreKind = CoreKind {
    library: &sparc64::LIBRARY,
    model: None,
    turned_round: false,
    // As many as an entry of its TLB has.
    physical_bits: 41,
    encode_pc: |_, pc| pc,
    live_pc: state::PC,
    has_next_pc: true,
    live_general: (0, state::GLOBALS),
    pc: || RegisterSPARC::PC.into(),
};

/// There is one.
pub fn of(_: &Kernel) -> &'static str {
    "UltraSPARC-IV"
}
