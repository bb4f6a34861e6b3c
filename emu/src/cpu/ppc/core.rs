//! The kind of core for 64-bit PowerPC.

use super::state;
use crate::unicorn::cpus::ppc::LIBRARY;
use crate::unicorn::kinds::CoreKind;
use unicorn_engine_sys::RegisterPPC;

/// Unicorn's POWER10, which implements ISA 3.0 like a POWER9. It is Unicorn's default, and the only 64-bit model that
/// Unicorn can create.
pub static BIG: CoreKind = kind(false);
/// The POWER10 for little-endian guests. Unicorn's build is big-endian, and a bit of the CPU's state selects little-endian
/// accesses.
pub static LITTLE: CoreKind = kind(true);

const fn kind(turned_round: bool) -> CoreKind {
    CoreKind {
        library: &LIBRARY,
        own: None,
        model: None,
        physical_bits: 32,
        turned_round,
        encode_pc: |_, pc| pc,
        live_pc: state::PC,
        has_next_pc: false,
        live_general: (state::REGS, state::GENERAL),
        pc: || RegisterPPC::PC.into(),
    }
}
