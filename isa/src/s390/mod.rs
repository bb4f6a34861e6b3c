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

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::{Linux, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::{Patch, Then};

/// Bytes in the longest instruction.
pub const LONGEST: usize = 6;

/// Code that switches stacks, and code that the CPU enters by itself: %r14 belongs to what it interrupted.
#[rustfmt::skip]
const ENTRIES: &[&str] = &[
    "__switch_to", "__switch_to_asm", "system_call", "ret_from_fork", "kernel_thread_starter", "pgm_check_handler",
    "ext_int_handler", "io_int_handler", "mcck_int_handler", "restart_int_handler", "stack_overflow", "psw_idle_exit", "sie_exit",
];

/// The table of s390x.
pub static S390X: Isa = Isa {
    arch: Arch::S390x,
    order: ByteOrder::Big,
    longest: LONGEST,
    alignment: 2,
    breakpoint: &slot::PROBE,
    breakpoint_over: |_| Patch::of(&slot::PROBE),
    is_breakpoint: |_, bytes| bytes.starts_with(&slot::PROBE),
    variable_length: true,
    progress: decode::progress,
    linux: Linux {
        // The old PSW points behind the breakpoint.
        pc_bias: slot::PROBE.len() as u64,
        finds_boundaries: true,
        ftrace_carries: true,
        system_calls: SystemCalls {
            prefix: "__s390x_sys_",
            // The first argument is saved separately (`orig_gpr2`), because r2 is also the result register.
            arguments: Some([152, 48, 56, 64, 72, 80]),
            number: None,
            dispatcher: None,
        },
        ..Linux::USUAL
    },
    switches_stacks: ENTRIES,
    abi: &abi::ELF,
    decode: decode::decode,
    plan: rules::plan,
    check_context: rules::check_context,
    rows: rules::ROWS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, mem| match what {
        Emulation::S390(what) => emulate::emulate(what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
    ..Isa::USUAL
};
