//! AArch64: little-endian instructions of 4 bytes. Tables of (mask, value) rows decode them.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, NO_DELAY_SLOTS, not_ours};
use crate::entry;
use crate::insn::Progress;
use crate::linux::{Dispatcher, Linux, Program, Release, SIGNALS, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::{Errno, Then};

/// Bytes in every instruction.
pub const LENGTH: usize = 4;

/// The table of AArch64.
pub static ARM64: Isa = Isa {
    arch: Arch::Arm64,
    word: 8,
    order: ByteOrder::Little,
    longest: LENGTH,
    alignment: 4,
    pointer_bits: 0,
    breakpoint: &slot::PROBE.to_le_bytes(),
    breakpoint_over: |_| const { &slot::PROBE.to_le_bytes() },
    is_breakpoint: slot::is_breakpoint,
    variable_length: false,
    entry: entry::at_symbol,
    progress: |_| Progress::NONE,
    address_register: |_| None,
    linux: Linux {
        releases: &[Release::V6_1],
        pc_bias: 0,
        boundary_errno: Errno::EINVAL,
        finds_boundaries: false,
        ftrace_carries: false,
        code_prefix: "",
        named_entry: entry::named_at_symbol,
        no_return_probes: &[],
        system_calls: SystemCalls {
            prefix: "__arm64_sys_",
            arguments: Some([0, 8, 16, 24, 32, 40]),
            number: Some(280),
            dispatcher: Some(Dispatcher { name: "invoke_syscall", registers: 0, number: 1, returns: false }),
        },
        signals: SIGNALS,
        program: Some(Program { below_top: 336, pc: 256, frame: Some((232, "x29")) }),
    },
    switches_stacks: &["__switch_to", "cpu_switch_to"],
    abi: &abi::AAPCS64,
    decode: decode::decode,
    plan: rules::plan,
    check_context: rules::check_context,
    in_delay_slot: NO_DELAY_SLOTS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, mem| match what {
        Emulation::Arm64(what) => emulate::emulate(what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
};
