//! The kinds of cores for MIPS: a 24Kf for 32 bits, a generic release 2 core for 64 bits.

use super::state;
use crate::boot::Kernel;
use crate::unicorn::cpus::mips;
use crate::unicorn::kinds::{CoreKind, Library};
use crate::unicorn::plain_hooks::Program;
use trapline_isa::arch::Isa;
use unicorn_engine_sys::{Arch, Mode, RegisterMIPS};

const MODEL_24KF: i32 = 8;
const MODEL_64R2: i32 = 5;

/// The core for 32-bit big-endian kernels.
pub static BIG_32: CoreKind = kind(&mips::BIG_32, MODEL_24KF, state::PC_32);
/// The core for 32-bit little-endian kernels.
pub static LITTLE_32: CoreKind = kind(&mips::LITTLE_32, MODEL_24KF, state::PC_32);
/// The core for 64-bit big-endian kernels.
pub static BIG_64: CoreKind = kind(&mips::BIG_64, MODEL_64R2, state::PC_64);
/// The core for 64-bit little-endian kernels.
pub static LITTLE_64: CoreKind = kind(&mips::LITTLE_64, MODEL_64R2, state::PC_64);

const fn kind(library: &'static Library, model: i32, live_pc: usize) -> CoreKind {
    CoreKind {
        library,
        own: None,
        model: Some(model),
        turned_round: false,
        // Enough for the segments that need no TLB.
        physical_bits: 32,
        encode_pc: |_, pc| pc,
        live_pc,
        has_next_pc: false,
        live_general: (0, state::GENERAL),
        pc: || RegisterMIPS::PC.into(),
    }
}

/// The only CPU model of each width.
pub fn of(kernel: &Kernel) -> &'static str {
    let isa: &Isa = kernel.arch.isa();
    if isa.word == 8 { "MIPS64R2-generic" } else { "24Kf" }
}

/// `bal` to the function with the decrement in its delay slot; `bnez` back to it.
const CALLS: [u32; 4] = [0x0411_003f, 0x2508_ffff, 0x1500_fffd, 0];
/// An empty function: a nop, and `jr ra`.
const NOTHING: [u32; 4] = [0, 0x03e0_0008, 0, 0];
/// `syscall`. At every other exception, a bare Unicorn core loses the pc.
const TRAP: [u32; 4] = [0x0000_000c, 0x03e0_0008, 0, 0];

const fn bytes(words: [u32; 4], is_big: bool) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut at = 0;
    while at < 16 {
        let word = if is_big { words[at / 4].to_be_bytes() } else { words[at / 4].to_le_bytes() };
        bytes[at] = word[at % 4];
        at += 1;
    }
    bytes
}

const fn program(mode: Mode, calls: &'static [u8], nothing: &'static [u8], breakpoint: &'static [u8]) -> Program {
    let registers = || [RegisterMIPS::PC.into(), RegisterMIPS::SP.into(), RegisterMIPS::T0.into()];
    Program { library: (Arch::MIPS, mode), registers, pointer_bits: 0, calls, nothing, breakpoint, behind: 0 }
}

/// The loop of calls on a bare core, for the benches: 32 bits, big-endian.
pub static LOOP_BIG_32: Program = program(mips::MODE_BIG_32, &bytes(CALLS, true), &bytes(NOTHING, true), &bytes(TRAP, true));
/// The loop of calls on a bare core, 32 bits, little-endian.
pub static LOOP_LITTLE_32: Program =
    program(mips::MODE_LITTLE_32, &bytes(CALLS, false), &bytes(NOTHING, false), &bytes(TRAP, false));
/// The loop of calls on a bare core, 64 bits, big-endian.
pub static LOOP_BIG_64: Program = program(mips::MODE_BIG_64, &bytes(CALLS, true), &bytes(NOTHING, true), &bytes(TRAP, true));
/// The loop of calls on a bare core, 64 bits, little-endian.
pub static LOOP_LITTLE_64: Program =
    program(mips::MODE_LITTLE_64, &bytes(CALLS, false), &bytes(NOTHING, false), &bytes(TRAP, false));
