//! The kind of core that 64-bit PowerPC runs on.

use super::state;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ppc::LIBRARY;
use unicorn_engine_sys::RegisterPPC;

/// The library's POWER10, which knows the ISA 3.0 as a POWER9 does: its own choice, and the only one that it can make.
pub static BIG: CoreKind = kind(false);
/// The same for guests with the low byte first, which a bit of the core's state makes of it.
pub static LITTLE: CoreKind = kind(true);

const fn kind(turned_round: bool) -> CoreKind {
    CoreKind {
        library: &LIBRARY,
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
