//! AArch64: little-endian instructions of 4 bytes. Tables of (mask, value) rows decode them.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::{Dispatcher, Linux, Program, SystemCalls};
use crate::plan::{Patch, Then};

/// Bytes in every instruction.
pub const LENGTH: usize = 4;

/// The table of AArch64.
pub static ARM64: Isa = Isa {
    arch: Arch::Arm64,
    longest: LENGTH,
    breakpoint: &slot::PROBE.to_le_bytes(),
    breakpoint_over: |_| const { Patch::of(&slot::PROBE.to_le_bytes()) },
    is_breakpoint: |_, bytes| slot::is_breakpoint(bytes),
    linux: Linux {
        system_calls: SystemCalls {
            prefix: "__arm64_sys_",
            arguments: Some([0, 8, 16, 24, 32, 40]),
            number: Some(280),
            dispatcher: Some(Dispatcher { name: "invoke_syscall", registers: 0, number: 1, returns: false }),
        },
        program: Some(Program { below_top: 336, pc: 256, frame: Some((232, "x29")) }),
        ..Linux::USUAL
    },
    switches_stacks: &["__switch_to", "cpu_switch_to", "ret_from_fork"],
    abi: &abi::AAPCS64,
    decode: decode::decode,
    plan: rules::plan,
    check_context: rules::check_context,
    rows: rules::ROWS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, mem| match what {
        Emulation::Arm64(what) => emulate::emulate(what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
    ..Isa::USUAL
};
