//! The kind of core that 32-bit ARM runs on.

use super::state::{self, CPSR_THUMB};
use crate::unicorn::arm::LIBRARY;
use crate::unicorn::bare::Program;
use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::Kind;
use unicorn_engine_sys::{Arch, Mode, RegisterARM};

/// Cortex-A8 in the library's list.
const MODEL: i32 = 15;

/// A core without a generic timer: that of the library reads the host's clock.
pub static CORE: Kind = Kind {
    library: &LIBRARY,
    model: MODEL,
    physical_bits: 32,
    encode_pc: pc_with_mode,
    live_pc: state::PC,
    live_general: (state::REGS, state::GENERAL),
    pc: || RegisterARM::PC.into(),
};

/// Bit 0 says that it is Thumb code; what the flags say now goes on.
fn pc_with_mode(handle: &Handle, pc: u64) -> u64 {
    pc & !1 | u64::from(handle.read(RegisterARM::CPSR) & CPSR_THUMB != 0)
}

/// Calls for a core without us.
pub static LOOP: Program = Program {
    library: (Arch::ARM, Mode::LITTLE_ENDIAN),
    registers: || [RegisterARM::PC.into(), RegisterARM::SP.into(), RegisterARM::R1.into()],
    pointer_bits: 0,
    // bl function; subs r1, r1, #1; bne back
    calls: &[0x3e, 0x00, 0x00, 0xeb, 0x01, 0x10, 0x51, 0xe2, 0xfc, 0xff, 0xff, 0x1a],
    nothing: &[0x00, 0x00, 0xa0, 0xe1, 0x1e, 0xff, 0x2f, 0xe1],
    breakpoint: &[0x70, 0x00, 0x20, 0xe1, 0x1e, 0xff, 0x2f, 0xe1],
    behind: 4,
};

/// The same in Thumb code.
pub static LOOP_IN_THUMB: Program = Program {
    pointer_bits: 1,
    // bl function; subs r1, #1; bne back
    calls: &[0x00, 0xf0, 0x7e, 0xf8, 0x01, 0x39, 0xfb, 0xd1],
    nothing: &[0x00, 0xbf, 0x70, 0x47],
    breakpoint: &[0x00, 0xbe, 0x70, 0x47],
    behind: 2,
    ..LOOP
};
