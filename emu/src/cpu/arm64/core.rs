//! The kinds of cores for AArch64, and overrides of their ID registers.

use super::state::{self, ID_MEMORY};
use crate::unicorn::cpus::arm64::LIBRARY;
use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::plain_hooks::Program;
use unicorn_engine_sys::{Arch, Mode, RegisterARM64};

/// A Cortex-A57. The machine handles its generic timer.
pub static CORE: CoreKind = kind(0);
/// A Cortex-A72.
pub static CORTEX_A72: CoreKind = kind(2);

/// The kind of core with this index in Unicorn's list of models.
const fn kind(model: i32) -> CoreKind {
    CoreKind {
        library: &LIBRARY,
        own: None,
        model: Some(model),
        physical_bits: 32,
        turned_round: false,
        encode_pc: |handle, pc| {
            if state::is_narrow(handle) {
                handle.take_state();
            }
            pc
        },
        live_pc: state::PC,
        has_next_pc: false,
        live_general: (state::REGS, state::GENERAL),
        pc: || RegisterARM64::PC.into(),
    }
}

/// ID_AA64MMFR0_EL1.TGran16: granules of 16 KiB are supported. Unicorn's page-table walk supports them on every model,
/// and kernels built for them would refuse to boot otherwise.
const PAGES_OF_16_KIB: u64 = 1 << 20;

/// The value of an ID register that overrides the core's.
pub fn register(handle: &Handle, number: u32) -> Option<u64> {
    (number == ID_MEMORY.number()).then(|| handle.system(ID_MEMORY) | PAGES_OF_16_KIB)
}

/// A loop of calls on a bare core, for the benches.
pub static LOOP: Program = Program {
    library: (Arch::ARM64, Mode::LITTLE_ENDIAN),
    registers: || [RegisterARM64::PC.into(), RegisterARM64::SP.into(), RegisterARM64::X1.into()],
    pointer_bits: 0,
    // bl function; subs w1, w1, #1; b.ne back
    calls: &[0x40, 0x00, 0x00, 0x94, 0x21, 0x04, 0x00, 0x71, 0xc1, 0xff, 0xff, 0x54],
    nothing: &[0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6],
    breakpoint: &[0x00, 0x00, 0x20, 0xd4, 0xc0, 0x03, 0x5f, 0xd6],
    behind: 4,
};
