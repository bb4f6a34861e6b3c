//! PA-RISC 1.1 and 2.0 in 32-bit mode, big-endian: words of 4 bytes. Tables of (mask, value) rows decode them.
//!
//! The CPU has a queue of two program counters: front, the instruction that runs, and back, the one after it. A branch
//! changes what enters the queue behind back, so the instruction in its delay slot still runs. An instruction can
//! nullify the next one, in whatever place that is: the CPU then skips it. A probe on a nullified instruction is not hit.
//!
//! Branches are emulated. Any other instruction runs as a copy. Two breakpoints stand behind the copy of a step: if the
//! copy nullifies the first, the second one says so, and the machine nullifies the guest's next instruction instead
//! ([`slot::STEP_NULLIFIED`]).

pub mod abi;
pub mod decode;
pub mod detour;
pub mod disasm;
pub mod emulate;
pub mod fields;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::Linux;
use crate::mem::ByteOrder;
use crate::plan::Patch;

/// Bytes in every instruction.
pub const LENGTH: usize = 4;

/// Names of signals, by number. PA-RISC has HP-UX's numbers.
const SIGNALS: &[&str] = &[
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGSTKFLT",
    "SIGFPE",
    "SIGKILL",
    "SIGBUS",
    "SIGSEGV",
    "SIGXCPU",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGUSR1",
    "SIGUSR2",
    "SIGCHLD",
    "SIGPWR",
    "SIGVTALRM",
    "SIGPROF",
    "SIGIO",
    "SIGWINCH",
    "SIGSTOP",
    "SIGTSTP",
    "SIGCONT",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXFSZ",
    "SIGSYS",
];

/// The table of 32-bit PA-RISC.
pub static PARISC: Isa = Isa {
    arch: Arch::Parisc,
    word: 4,
    order: ByteOrder::Big,
    longest: LENGTH,
    breakpoint: slot::BREAKPOINT,
    breakpoint_over: |_| Patch::of(slot::BREAKPOINT),
    is_breakpoint: |_, bytes| slot::is_breakpoint(bytes),
    linux: Linux { signals: SIGNALS, ..Linux::USUAL },
    switches_stacks: &["__switch_to", "_switch_to", "_switch_to_ret", "switch_to"],
    abi: &abi::ELF,
    decode: decode::decode,
    far_target: decode::far_target,
    plan: rules::plan,
    check_context: rules::check_context,
    in_delay_slot: rules::in_delay_slot,
    rows: rules::ROWS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, _| match what {
        Emulation::Parisc(what) => emulate::emulate(what, insn, regs),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
    ..Isa::USUAL
};
