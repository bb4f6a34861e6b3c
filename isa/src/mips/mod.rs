//! MIPS, in 32 and 64 bits and both byte orders, releases 1 and 2: words of 4 bytes, found in tables of (mask, value)
//! rows that are the same for all four. Code of microMIPS and MIPS16 is none of it: its addresses are odd, and so
//! refused.
//!
//! A branch and the instruction in its delay slot are one instruction of 8 bytes here: that is how they run. The branch
//! is computed, and the copy is that of the slot. What differs between the four is a [`Set`]; each has a table of its
//! own.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
mod entries;
pub mod rules;
pub mod slot;

use crate::abi::Abi;
use crate::arch::{Arch, Emulation, Isa, NO_DELAY_SLOTS, not_ours};
use crate::detour::Detour;
use crate::entry;
use crate::insn::Progress;
use crate::linux::{Linux, SystemCalls};
use crate::mem::ByteOrder;
use crate::plan::Errno;

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
    "SIGUSR1",
    "SIGUSR2",
    "SIGCHLD",
    "SIGPWR",
    "SIGWINCH",
    "SIGURG",
    "SIGIO",
    "SIGSTOP",
    "SIGTSTP",
    "SIGCONT",
    "SIGTTIN",
    "SIGTTOU",
    "SIGVTALRM",
    "SIGPROF",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Bytes of an instruction, and of what is in its delay slot.
pub const LENGTH: usize = 4;

/// How wide registers are, and in which order the bytes of a word stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// 32 bits, the high byte first.
    Big32,
    /// 32 bits, the low byte first.
    Little32,
    /// 64 bits, the high byte first.
    Big64,
    /// 64 bits, the low byte first.
    Little64,
}

impl Set {
    /// All four.
    pub const ALL: [Set; 4] = [Set::Big32, Set::Little32, Set::Big64, Set::Little64];

    /// Whether there are doublewords.
    pub const fn is_64(self) -> bool {
        matches!(self, Set::Big64 | Set::Little64)
    }

    /// In which order bytes lie in memory.
    pub const fn order(self) -> ByteOrder {
        match self {
            Set::Big32 | Set::Big64 => ByteOrder::Big,
            Set::Little32 | Set::Little64 => ByteOrder::Little,
        }
    }

    /// The word in 4 bytes of memory; 0, which does nothing, for any other number of bytes.
    pub fn word(self, bytes: &[u8]) -> u32 {
        self.order().word(bytes)
    }

    /// A word as it stands in memory.
    pub const fn bytes(self, word: u32) -> [u8; LENGTH] {
        self.order().word_bytes(word)
    }

    /// An address as a register holds it.
    pub const fn cut(self, address: u64) -> u64 {
        if self.is_64() { address } else { address & 0xffff_ffff }
    }

    /// The number in a register, with its sign.
    pub const fn signed(self, value: u64) -> i64 {
        if self.is_64() { value as i64 } else { value as i32 as i64 }
    }

    /// Its table.
    pub const fn isa(self) -> &'static Isa {
        match self {
            Set::Big32 => &MIPS,
            Set::Little32 => &MIPSEL,
            Set::Big64 => &MIPS64,
            Set::Little64 => &MIPS64EL,
        }
    }
}

/// 32-bit big-endian kernels.
pub static MIPS: Isa = isa::<Big32>();
/// 32-bit little-endian kernels.
pub static MIPSEL: Isa = isa::<Little32>();
/// 64-bit big-endian kernels.
pub static MIPS64: Isa = isa::<Big64>();
/// 64-bit little-endian kernels.
pub static MIPS64EL: Isa = isa::<Little64>();

/// What the tables of the four are made of.
trait Variant {
    const SET: Set;
    const ARCH: Arch;
    const BREAKPOINT: &'static [u8];
    const DETOUR: &'static Detour;
    const ABI: &'static Abi = if Self::SET.is_64() { &abi::N64 } else { &abi::O32 };
}

struct Big32;

impl Variant for Big32 {
    const SET: Set = Set::Big32;
    const ARCH: Arch = Arch::Mips;
    const BREAKPOINT: &'static [u8] = &slot::BREAK.to_be_bytes();
    const DETOUR: &'static Detour = &detour::BIG_32;
}

struct Little32;

impl Variant for Little32 {
    const SET: Set = Set::Little32;
    const ARCH: Arch = Arch::Mipsel;
    const BREAKPOINT: &'static [u8] = &slot::BREAK.to_le_bytes();
    const DETOUR: &'static Detour = &detour::LITTLE_32;
}

struct Big64;

impl Variant for Big64 {
    const SET: Set = Set::Big64;
    const ARCH: Arch = Arch::Mips64;
    const BREAKPOINT: &'static [u8] = &slot::BREAK.to_be_bytes();
    const DETOUR: &'static Detour = &detour::BIG_64;
}

struct Little64;

impl Variant for Little64 {
    const SET: Set = Set::Little64;
    const ARCH: Arch = Arch::Mips64el;
    const BREAKPOINT: &'static [u8] = &slot::BREAK.to_le_bytes();
    const DETOUR: &'static Detour = &detour::LITTLE_64;
}

const fn isa<V: Variant>() -> Isa {
    Isa {
        arch: V::ARCH,
        order: V::SET.order(),
        word: if V::SET.is_64() { 8 } else { 4 },
        longest: 2 * LENGTH,
        alignment: LENGTH as u64,
        pointer_bits: 0,
        breakpoint: V::BREAKPOINT,
        breakpoint_over: |_| V::BREAKPOINT,
        is_breakpoint: |bytes| slot::is_breakpoint(V::SET, bytes),
        // The word in front of an address says whether it lies in a delay slot: no walk from the function's start is
        // needed.
        variable_length: false,
        entry: entry::at_symbol,
        progress: |_| Progress::NONE,
        notes_place: |_| None,
        linux: Linux {
            pc_bias: 0,
            boundary_errno: Errno::EINVAL,
            finds_boundaries: false,
            ftrace_carries: false,
            code_prefix: "",
            named_entry: entry::named_at_symbol,
            no_return_probes: &[],
            system_calls: SystemCalls::PLAIN,
            signals: SIGNALS,
            program: None,
        },
        switches_stacks: entries::NOT_CALLED,
        abi: V::ABI,
        decode: |address, bytes| decode::decode(V::SET, address, bytes),
        plan: |insn, policy| rules::plan(V::SET, insn, policy),
        stands: |insn, policy, function, around| rules::stands(V::SET, insn, policy, function, around),
        in_delay_slot: NO_DELAY_SLOTS,
        rules: rules::RULES,
        copy: |insn, at, tail| slot::copy(V::SET, insn, at, tail),
        emulate: |what, insn, regs, _| match what {
            Emulation::Mips(what) => Ok(emulate::emulate(V::SET, what, insn, regs)),
            _ => Err(not_ours(insn)),
        },
        detour: Some(V::DETOUR),
    }
}
