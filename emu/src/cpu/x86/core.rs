//! The kind of core for x86.

use super::state;
use crate::unicorn::cpus::x86::LIBRARY;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use unicorn_engine_sys::{Arch, Mode, RegisterX86};

/// The index of QEMU64 in Unicorn's list of models.
const MODEL: i32 = 0;

/// A 64-bit core; both widths run on it (docs/unicorn.md, "one core for both widths").
pub static CORE: CoreKind = CoreKind {
    library: &LIBRARY,
    own: None,
    model: Some(MODEL),
    physical_bits: 32,
    turned_round: false,
    encode_pc: |_, pc| pc,
    live_pc: state::EIP,
    has_next_pc: false,
    live_general: (state::REGS, state::GENERAL),
    pc: || RegisterX86::RIP.into(),
};

/// A loop of calls on a bare core, for the benches, in 64-bit code.
pub static LOOP_64: Program = Program {
    library: (Arch::X86, Mode::MODE_64),
    registers: || [RegisterX86::RIP.into(), RegisterX86::RSP.into(), RegisterX86::RCX.into()],
    pointer_bits: 0,
    // call function; dec ecx; jnz back
    calls: &[0xe8, 0xfb, 0x00, 0x00, 0x00, 0xff, 0xc9, 0x75, 0xf7],
    nothing: &[0x90, 0xc3],
    breakpoint: &[0xcc, 0xc3],
    behind: 0,
};

/// A loop of calls on a bare core, for the benches, in 32-bit code.
pub static LOOP_32: Program = Program {
    library: (Arch::X86, Mode::MODE_32),
    registers: || [RegisterX86::EIP.into(), RegisterX86::ESP.into(), RegisterX86::ECX.into()],
    ..LOOP_64
};
