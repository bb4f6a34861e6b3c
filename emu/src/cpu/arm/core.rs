//! The kinds of cores for 32-bit ARM.

use super::state::{self, CPSR_THUMB};
use crate::boot::Kernel;
use crate::unicorn::cpus::arm::LIBRARY;
use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use unicorn_engine_sys::{Arch, Mode, RegisterARM};

/// Cortex-A8: its index in Unicorn's list of models, and its MIDR.
const CORTEX_A8: (i32, u32) = (15, 0x410f_c080);
/// Cortex-A15: its index in Unicorn's list of models, and its MIDR.
const CORTEX_A15: (i32, u32) = (17, 0x410f_c0f0);

/// A core without a generic timer, because Unicorn's generic timer reads the host's clock.
pub static CORE: CoreKind = CoreKind::cortex(CORTEX_A8.0);
/// A core with page tables in the long format. It has a generic timer, which our device trees do not mention.
pub static CORE_WITH_LONG_TABLES: CoreKind = CoreKind::cortex(CORTEX_A15.0);

/// The default CPU of a kernel, by the kernel's table of CPUs. (The last row of that table accepts any ARMv7 CPU, even if
/// the kernel needs features that not all of them have, so it is ignored.)
pub fn of(kernel: &Kernel) -> &'static str {
    let knows = |(_, number): (i32, u32)| rows(kernel).any(|(value, mask)| mask.count_ones() > 16 && number & mask == value);
    match !knows(CORTEX_A8) && knows(CORTEX_A15) {
        true => "cortex-a15",
        false => "cortex-a8",
    }
}

/// The value and mask of each row of that table.
fn rows(kernel: &Kernel) -> impl Iterator<Item = (u32, u32)> {
    const ROW: usize = 52;
    let address = |name| kernel.symbols.address_of(name).unwrap_or(0);
    let (start, end) = (address("__proc_info_begin"), address("__proc_info_end"));
    let numbers = move |at| {
        let mut row = [0; 8];
        kernel.read(at, &mut row).ok()?;
        let [value, mask] = [0, 4].map(|at| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]));
        Some((value, mask))
    };
    (start..end).step_by(ROW).map_while(numbers)
}

impl CoreKind {
    const fn cortex(model: i32) -> CoreKind {
        CoreKind {
            model: Some(model),
            library: &LIBRARY,
            own: None,
            physical_bits: 32,
            turned_round: false,
            encode_pc: pc_with_mode,
            live_pc: state::PC,
            has_next_pc: false,
            live_general: (state::REGS, state::GENERAL),
            pc: || RegisterARM::PC.into(),
        }
    }
}

/// The pc with bit 0 set in Thumb state, which Unicorn expects.
fn pc_with_mode(handle: &Handle, pc: u64) -> u64 {
    pc & !1 | u64::from(handle.read(RegisterARM::CPSR) & CPSR_THUMB != 0)
}

/// A loop of calls on a bare core, for the benches.
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

/// A loop of calls on a bare core, for the benches, in Thumb code.
pub static LOOP_IN_THUMB: Program = Program {
    pointer_bits: 1,
    // bl function; subs r1, #1; bne back
    calls: &[0x00, 0xf0, 0x7e, 0xf8, 0x01, 0x39, 0xfb, 0xd1],
    nothing: &[0x00, 0xbf, 0x70, 0x47],
    breakpoint: &[0x00, 0xbe, 0x70, 0x47],
    behind: 2,
    ..LOOP
};
