//! The kind of core that z/Architecture runs on.

use super::state;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::s390::LIBRARY;
use unicorn_engine_sys::RegisterS390X;

/// The library's own model: what a guest finds of it is told by instructions that are ours to answer, so no other would
/// be another one.
pub static CORE: CoreKind = CoreKind {
    library: &LIBRARY,
    model: Some(QEMU),
    physical_bits: 32,
    turned_round: false,
    encode_pc: |_, pc| pc,
    live_pc: state::PC,
    has_next_pc: false,
    live_general: (state::REGS, state::GENERAL),
    pc: || RegisterS390X::PC.into(),
};

/// By the number in the library's list.
const QEMU: i32 = 36;
