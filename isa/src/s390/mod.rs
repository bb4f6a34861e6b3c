//! z/Architecture (s390x): big-endian instructions of 2, 4 and 6 bytes with an operation code of one or two bytes.
//!
//! Kernels run in 64-bit addressing mode, and instructions are emulated as in that mode.

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
use crate::linux::{Linux, Release, SIGNALS, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::{Errno, Then};

/// Bytes in the longest instruction.
pub const LONGEST: usize = 6;

/// The table of s390x.
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
    address_register: |_| None,
    linux: Linux {
        // The old PSW points behind the breakpoint.
        releases: &[Release::V6_1],
        pc_bias: slot::PROBE.len() as u64,
        boundary_errno: Errno::EINVAL,
        finds_boundaries: true,
        ftrace_carries: true,
        code_prefix: "",
        named_entry: entry::named_at_symbol,
        no_return_probes: &[],
        system_calls: SystemCalls {
            prefix: "__s390x_sys_",
            // The first argument is saved separately (`orig_gpr2`), because r2 is also the result register.
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
    check_context: rules::check_context,
    in_delay_slot: NO_DELAY_SLOTS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, mem| match what {
        Emulation::S390(what) => emulate::emulate(what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
};
