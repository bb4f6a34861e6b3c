//! MIPS, 32 and 64 bits, both byte orders, releases 1 and 2. All four variants share the tables of (mask, value) rows.
//! microMIPS and MIPS16 code is not supported: its addresses are odd and therefore refused.
//!
//! A branch and the instruction in its delay slot are one instruction of 8 bytes here, because that is how they run.
//! The branch is emulated; the copy is that of the delay slot's instruction. A [`Set`] tells the four variants apart;
//! each has its own table.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
mod entries;
pub mod rules;
pub mod slot;

use crate::abi::Abi;
use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::detour::Detour;
use crate::linux::Linux;
use crate::mem::ByteOrder;
use crate::plan::Patch;
use crate::rows::Rows;

/// Names of signals, by number. MIPS has numbers of its own.
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

/// Bytes in an instruction without its delay slot.
pub const LENGTH: usize = 4;

/// A variant of MIPS: width of registers and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// 32-bit big-endian.
    Big32,
    /// 32-bit little-endian.
    Little32,
    /// 64-bit big-endian.
    Big64,
    /// 64-bit little-endian.
    Little64,
}

impl Set {
    /// All four variants.
    pub const ALL: [Set; 4] = [Set::Big32, Set::Little32, Set::Big64, Set::Little64];

    /// Whether registers have 64 bits.
    pub const fn is_64(self) -> bool {
        matches!(self, Set::Big64 | Set::Little64)
    }

    /// The byte order of memory.
    pub const fn order(self) -> ByteOrder {
        match self {
            Set::Big32 | Set::Big64 => ByteOrder::Big,
            Set::Little32 | Set::Little64 => ByteOrder::Little,
        }
    }

    /// The word in 4 bytes of memory; 0, which is `nop`, if there are not exactly 4.
    pub fn word(self, bytes: &[u8]) -> u32 {
        self.order().word(bytes)
    }

    /// The bytes of a word in memory.
    pub const fn bytes(self, word: u32) -> [u8; LENGTH] {
        self.order().word_bytes(word)
    }

    /// An address, truncated to the width of registers.
    pub const fn cut(self, address: u64) -> u64 {
        if self.is_64() { address } else { address & 0xffff_ffff }
    }

    /// A register's value as a signed number.
    pub const fn signed(self, value: u64) -> i64 {
        if self.is_64() { value as i64 } else { value as i32 as i64 }
    }

    /// The table of this variant.
    pub const fn isa(self) -> &'static Isa {
        match self {
            Set::Big32 => &MIPS,
            Set::Little32 => &MIPSEL,
            Set::Big64 => &MIPS64,
            Set::Little64 => &MIPS64EL,
        }
    }
}

/// The table of 32-bit big-endian kernels.
pub static MIPS: Isa = isa::<Big32>();
/// The table of 32-bit little-endian kernels.
pub static MIPSEL: Isa = isa::<Little32>();
/// The table of 64-bit big-endian kernels.
pub static MIPS64: Isa = isa::<Big64>();
/// The table of 64-bit little-endian kernels.
pub static MIPS64EL: Isa = isa::<Little64>();

/// The differences between the four tables.
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
        breakpoint: V::BREAKPOINT,
        breakpoint_over: |_| Patch::of(V::BREAKPOINT),
        is_breakpoint: |_, bytes| slot::is_breakpoint(V::SET, bytes),
        // The previous word shows whether an address is in a delay slot, so no walk from the function's start is
        // needed.
        variable_length: false,
        linux: Linux { signals: SIGNALS, ..Linux::USUAL },
        switches_stacks: entries::NOT_CALLED,
        abi: V::ABI,
        decode: |address, bytes| decode::decode(V::SET, address, bytes),
        plan: |insn, policy| rules::plan(V::SET, insn, policy),
        check_context: |insn, policy, function, around| rules::check_context(V::SET, insn, policy, function, around),
        rows: Rows {
            example: |row, free| rules::example(V::SET, row, free),
            of: |insn| rules::number_of(V::SET, insn),
            flags: &[("r0", 0, 0)],
            ..Rows::NONE
        },
        rules: rules::RULES,
        copy: |insn, at, tail| slot::copy(V::SET, insn, at, tail),
        emulate: |what, insn, regs, _| match what {
            Emulation::Mips(what) => Ok(emulate::emulate(V::SET, what, insn, regs)),
            _ => Err(not_ours(insn)),
        },
        detour: Some(V::DETOUR),
        ..Isa::USUAL
    }
}
