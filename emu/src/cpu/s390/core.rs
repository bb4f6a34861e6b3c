//! The kind of core for z/Architecture.

use super::state;
use crate::unicorn::cpus::s390::LIBRARY;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use unicorn_engine_sys::{Arch, Mode, RegisterS390X};

/// Unicorn's own model. A guest identifies its CPU by instructions that the machine executes, so other models would not
/// differ.
pub static CORE: CoreKind = CoreKind {
    library: &LIBRARY,
    own: None,
    model: Some(QEMU),
    physical_bits: 32,
    turned_round: false,
    encode_pc: |_, pc| pc,
    live_pc: state::PC,
    has_next_pc: false,
    live_general: (state::REGS, state::GENERAL),
    pc: || RegisterS390X::PC.into(),
};

/// Its index in Unicorn's list of models.
const QEMU: i32 = 36;

/// A loop of calls on a bare core, for the benches.
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
