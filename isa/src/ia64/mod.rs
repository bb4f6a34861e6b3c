//! IA-64 (Itanium), little-endian: bundles of 16 bytes with three instructions each.
//!
//! The decoder and the disassembler know every instruction of the manual. [`rules`] decides which ones may be probed, and
//! [`slot`] makes breakpoints and copies, and [`emulate`] executes what cannot run in a copy.
//!
//! A probe may stand in every slot of a bundle. Its breakpoint has the instruction's predicate, so an instruction that does
//! nothing is not hit, and changes no bit of the other slots.
//!
//! There is no jump optimisation. A long branch fills a whole bundle, so it would displace the instructions of three slots. No
//! branch leads to slot 1 or 2, but `rfi` does: a load in slot 1 that misses the TLB, or an interrupt there, returns to that slot.
//! In place of the displaced instructions it would find the middle of the long branch. The text does not show which
//! instructions are never interrupted, so no such jump can be proved to be safe.

pub mod abi;
pub mod bundle;
pub mod decode;
pub mod disasm;
pub mod emulate;
pub mod fields;
pub mod insn;
pub mod names;
pub mod op;
pub mod prologue;
pub mod rows;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Isa, not_ours};
use crate::plan::Then;

/// The table of IA-64.
pub static IA64: Isa = Isa {
    arch: Arch::Ia64,
    longest: insn::LONGEST,
    alignment: 2,
    group: bundle::BUNDLE,
    named_by: insn::of_linux,
    breakpoint: slot::BREAKPOINT,
    breakpoint_over: slot::breakpoint_over,
    in_group: Some(slot::in_group),
    is_breakpoint: slot::is_breakpoint,
    switches_stacks: &["ia64_switch_to", "__switch_to", "__switch_to_asm"],
    abi: &abi::ELF,
    decode: insn::decode,
    plan: rules::plan,
    rows: rows::ROWS,
    rules: rules::RULES,
    copy: slot::copy_of,
    no_detour: "a jump would fill a bundle, and a fault or an interrupt in slot 1 or 2 would return into its middle",
    emulate: |_, insn, regs, _| match insn::operation(insn) {
        Some(what) if emulate::emulate(&what, regs) => Ok(Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    ..Isa::USUAL
};
