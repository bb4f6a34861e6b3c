//! 32-bit ARM: A32 and Thumb (T16, T32). Tables of (mask, value) rows decode both.
//!
//! A kernel is compiled to A32 or to Thumb throughout, so each has its own table: [`ARM`] and [`THUMB2`].

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::{Linux, Program};
use crate::plan::{Patch, Then};

/// An instruction set of 32-bit ARM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// A32: words of 4 bytes.
    A32,
    /// Thumb: one or two halfwords per instruction.
    Thumb,
}

impl Set {
    /// The value of the pc as an operand, minus the instruction's address.
    pub const fn bias(self) -> u32 {
        match self {
            Set::A32 => 8,
            Set::Thumb => 4,
        }
    }
}

/// Bytes in an A32 instruction, and in the longest Thumb instruction.
pub const LENGTH: usize = 4;

/// The table of kernels in A32 code.
pub static ARM: Isa = A32;

/// The table of kernels in Thumb code (CONFIG_THUMB2_KERNEL). Addresses do not have the Thumb bit.
///
/// A conditional branch that is not taken counts as a hit here, because the Thumb breakpoint has no condition. Linux
/// does not count it.
pub static THUMB2: Isa = Isa {
    arch: Arch::Thumb2,
    alignment: 2,
    pointer_bits: 1,
    breakpoint: &slot::THUMB_BREAKPOINT.to_le_bytes(),
    breakpoint_over: |insn| Patch::of(slot::thumb_breakpoint_over(insn)),
    is_breakpoint: |_, bytes| slot::is_thumb_breakpoint(bytes),
    variable_length: true,
    decode: decode::thumb,
    plan: |insn, policy| rules::plan(Set::Thumb, insn, policy),
    rows: rules::numbered(Set::Thumb),
    check_context: |insn, policy, function, around| rules::check_context(&THUMB2, insn, policy, function, around),
    copy: |insn, at, tail| slot::copy(Set::Thumb, insn, at, tail),
    emulate: |what, insn, regs, mem| match what {
        Emulation::Arm(what) => emulate::emulate(Set::Thumb, what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: None,
    ..A32
};

/// The value of [`ARM`]. It is a constant because [`THUMB2`] copies fields from it.
pub(crate) const A32: Isa = Isa {
    arch: Arch::Arm,
    word: 4,
    longest: LENGTH,
    breakpoint: &slot::BREAKPOINT.to_le_bytes(),
    breakpoint_over: |insn| Patch::of(slot::breakpoint_over(insn)),
    is_breakpoint: |_, bytes| slot::is_breakpoint(bytes),
    linux: Linux { program: Some(Program { below_top: 80, pc: 60, frame: None }), ..Linux::USUAL },
    switches_stacks: &["__switch_to", "__switch_to_asm", "ret_from_fork", "ret_from_exception"],
    abi: &abi::AAPCS,
    decode: decode::a32,
    plan: |insn, policy| rules::plan(Set::A32, insn, policy),
    rows: rules::numbered(Set::A32),
    check_context: |insn, policy, function, around| rules::check_context(&ARM, insn, policy, function, around),
    rules: rules::RULES,
    copy: |insn, at, tail| slot::copy(Set::A32, insn, at, tail),
    emulate: |what, insn, regs, mem| match what {
        Emulation::Arm(what) => emulate::emulate(Set::A32, what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
    ..Isa::USUAL
};
