//! SPARC V9, 64 bits, the high byte first: words of 4 bytes, found in tables of (mask, value) rows.
//!
//! A CPU has two places at which it runs: the pc, and the one behind it, npc. A branch changes npc, so that the
//! instruction behind it, in its delay slot, still runs. Here the two are two instructions, as the manual has them: a
//! branch is computed and says where execution goes on behind its slot, which runs where it stands; and what stands in
//! a slot can be probed by itself, for the CPU knows at the hit where the branch has led it.
//!
//! Each function has a window of registers, and `save` and `restore` raise an exception when the next one is not in the
//! CPU. A breakpoint over one of these says so ([`slot::BREAK_SAVE`]), for that exception comes before the hit.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::entry;
use crate::insn::Progress;
use crate::linux::{Linux, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::Errno;

/// Bytes of every instruction.
pub const LENGTH: usize = 4;

/// The names of signals as this architecture alone numbers them.
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

/// 64-bit kernels.
pub static SPARC64: Isa = Isa {
    arch: Arch::Sparc64,
    order: ByteOrder::Big,
    word: 8,
    longest: LENGTH,
    alignment: LENGTH as u64,
    pointer_bits: 0,
    breakpoint: slot::BREAKPOINT,
    breakpoint_over: slot::breakpoint_over,
    is_breakpoint: slot::is_breakpoint,
    variable_length: false,
    entry: entry::at_symbol,
    progress: |_| Progress::NONE,
    notes_place: |_| None,
    linux: Linux {
        pc_bias: 0,
        boundary_errno: Errno::EILSEQ,
        finds_boundaries: false,
        ftrace_carries: false,
        code_prefix: "",
        named_entry: entry::named_at_symbol,
        no_return_probes: &[],
        system_calls: SystemCalls::PLAIN,
        signals: SIGNALS,
        program: None,
    },
    switches_stacks: &["__switch_to", "switch_to"],
    abi: &abi::ELF,
    decode: decode::decode,
    plan: rules::plan,
    stands: rules::stands,
    in_delay_slot: rules::in_delay_slot,
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, _| match what {
        Emulation::Sparc64(what) => emulate::emulate(what, insn, regs),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR),
};
