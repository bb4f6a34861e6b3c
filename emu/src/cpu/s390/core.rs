//! The kind of core that z/Architecture runs on.

use super::state;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use crate::unicorn::s390::LIBRARY;
use unicorn_engine_sys::{Arch, Mode, RegisterS390X};

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

/// Calls for a core without us.
pub static LOOP: Program = Program {
    library: (Arch::S390X, Mode::BIG_ENDIAN),
    registers: || [RegisterS390X::PC.into(), RegisterS390X::R15.into(), RegisterS390X::R1.into()],
    pointer_bits: 0,
    // brasl %r14,function; brct %r1,back
    calls: &[0xc0, 0xe5, 0, 0, 0, 0x80, 0xa7, 0x16, 0xff, 0xfd],
    // nopr; br %r14
    nothing: &[0x07, 0x07, 0x07, 0xfe],
    breakpoint: &[0, 2, 0x07, 0xfe],
    behind: 2,
};
