//! SPARC V9, 64 bits, big-endian: words of 4 bytes. Tables of (mask, value) rows decode them.
//!
//! The CPU has two program counters: pc, and npc for the instruction after it. A branch changes npc, so the instruction
//! in its delay slot still runs. Here branch and delay slot are two instructions, as in the manual. A branch is
//! emulated and says where execution continues behind its slot, which runs in place. The instruction in a slot can be
//! probed by itself, because at the hit npc tells where the branch leads.
//!
//! Each function has a register window. `save` and `restore` raise a spill or fill exception if the next window is not
//! in the CPU. This exception must come before the hit, so a breakpoint over such an instruction has a number of its
//! own ([`slot::BREAK_SAVE`]).

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::Linux;
use crate::mem::ByteOrder;
use crate::plan::{Errno, Patch};

/// Bytes in every instruction.
pub const LENGTH: usize = 4;

/// Names of signals, by number. SPARC has numbers of its own.
const SIGNALS: &[&str] = &[
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGEMT",
    "SIGFPE",
    "SIGKILL",
    "SIGBUS",
    "SIGSEGV",
    "SIGSYS",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGURG",
    "SIGSTOP",
    "SIGTSTP",
    "SIGCONT",
    "SIGCHLD",
    "SIGTTIN",
    "SIGTTOU",
    "SIGIO",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGPWR",
    "SIGUSR1",
    "SIGUSR2",
];

/// The table of 64-bit SPARC.
pub static SPARC64: Isa = Isa {
    arch: Arch::Sparc64,
    order: ByteOrder::Big,
    longest: LENGTH,
    breakpoint: slot::BREAKPOINT,
    breakpoint_over: |insn| Patch::of(slot::breakpoint_over(insn)),
    is_breakpoint: |_, bytes| slot::is_breakpoint(bytes),
    linux: Linux { boundary_errno: Errno::EILSEQ, signals: SIGNALS, ..Linux::USUAL },
    switches_stacks: &["__switch_to", "switch_to"],
    abi: &abi::ELF,
    decode: decode::decode,
    plan: rules::plan,
    check_context: rules::check_context,
    in_delay_slot: rules::in_delay_slot,
    rows: rules::ROWS,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, _| match what {
        Emulation::Sparc64(what) => emulate::emulate(what, insn, regs),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
    ..Isa::USUAL
};
