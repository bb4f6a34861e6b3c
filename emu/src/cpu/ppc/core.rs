//! The kind of core that 64-bit PowerPC runs on.

use super::state;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use crate::unicorn::ppc::LIBRARY;
use unicorn_engine_sys::{Arch, Mode, RegisterPPC};

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
        live_general: (state::REGS, state::GENERAL),
        pc: || RegisterPPC::PC.into(),
    }
}

/// Calls for a core without us, which starts with the high byte first.
pub static LOOP: Program = Program {
    library: (Arch::PPC, Mode(Mode::PPC64.0 | Mode::BIG_ENDIAN.0)),
    registers: || [RegisterPPC::PC.into(), RegisterPPC::R1.into(), RegisterPPC::R3.into()],
    pointer_bits: 0,
    // bl function; addic. r3, r3, -1; bne back
    calls: &[0x48, 0x00, 0x01, 0x01, 0x34, 0x63, 0xff, 0xff, 0x40, 0x82, 0xff, 0xf8],
    nothing: &[0x60, 0x00, 0x00, 0x00, 0x4e, 0x80, 0x00, 0x20],
    breakpoint: &[0x7f, 0xe0, 0x00, 0x08, 0x4e, 0x80, 0x00, 0x20],
    behind: 0,
};
