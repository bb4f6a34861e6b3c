//! The kind of core for 32-bit PowerPC.

use super::state;
use crate::unicorn::cpus::ppc::{LIBRARY_32, MODE_32};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use unicorn_engine_sys::{Arch, RegisterPPC};

const MODEL_750: i32 = 184;

/// A PowerPC 750, version 3.1.
pub static CORE: CoreKind = CoreKind {
    library: &LIBRARY_32,
    own: None,
    model: Some(MODEL_750),
    physical_bits: 32,
    turned_round: false,
    encode_pc: |_, pc| pc,
    live_pc: state::PC,
    has_next_pc: false,
    live_general: (state::REGS, state::GENERAL),
    pc: || RegisterPPC::PC.into(),
};

/// A loop of calls on a bare core, for the benches.
pub static LOOP: Program = Program {
    library: (Arch::PPC, MODE_32),
    registers: || [RegisterPPC::PC.into(), RegisterPPC::R1.into(), RegisterPPC::R4.into()],
    pointer_bits: 0,
    // bl function; addic. r4, r4, -1; bne back
    calls: &[0x48, 0x00, 0x01, 0x01, 0x34, 0x84, 0xff, 0xff, 0x40, 0x82, 0xff, 0xf8],
    // nop; blr
    nothing: &[0x60, 0x00, 0x00, 0x00, 0x4e, 0x80, 0x00, 0x20],
    // trap; blr
    breakpoint: &[0x7f, 0xe0, 0x00, 0x08, 0x4e, 0x80, 0x00, 0x20],
    behind: 0,
};
