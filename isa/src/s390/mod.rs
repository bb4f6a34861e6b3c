//! z/Architecture (s390x): instructions of 2, 4 and 6 bytes, the high byte first, known by an operation code of one or
//! two bytes.
//!
//! Kernels run in 64-bit mode, and what is computed here is what that mode does.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod fields;
pub mod opcodes;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, NO_DELAY_SLOTS, not_ours};
use crate::entry;
use crate::linux::{Linux, SIGNALS, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::{Errno, Then};

/// Bytes of the longest instruction.
pub const LONGEST: usize = 6;

/// What is so of it, and what Linux makes of that.
pub static S390X: Isa = Isa {
    arch: Arch::S390x,
    word: 8,
    order: ByteOrder::Big,
    longest: LONGEST,
    alignment: 2,
    pointer_bits: 0,
    breakpoint: &slot::PROBE,
    breakpoint_over: |_| &slot::PROBE,
    is_breakpoint: |bytes| bytes.starts_with(&slot::PROBE),
    variable_length: true,
    entry: entry::at_symbol,
    progress: decode::progress,
    notes_place: |_| None,
    linux: Linux {
        // The old PSW points behind the breakpoint.
        pc_bias: slot::PROBE.len() as u64,
        boundary_errno: Errno::EINVAL,
        finds_boundaries: true,
        ftrace_carries: true,
        code_prefix: "",
        named_entry: entry::named_at_symbol,
        no_return_probes: &[],
        system_calls: SystemCalls {
            prefix: "__s390x_sys_",
            // The first one is kept apart, for its register is also that of the result.
            arguments: Some([152, 48, 56, 64, 72, 80]),
            number: None,
            dispatcher: None,
        },
        signals: SIGNALS,
        program: None,
    },
    switches_stacks: &["__switch_to", "__switch_to_asm"],
    abi: &abi::ELF,
    decode: decode::decode,
    plan: rules::plan,
    stands: rules::stands,
    in_delay_slot: NO_DELAY_SLOTS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, mem| match what {
        Emulation::S390(what) => emulate::emulate(what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
};
