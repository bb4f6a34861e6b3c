//! PowerPC, 32 bits, and 64 bits in both byte orders. All three variants share the tables of (mask, value) rows.
//!
//! A [`Set`] tells the variants apart; each has its own table: [`PPC`], [`PPC64`] and [`PPC64LE`].

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod linux;
pub mod rules;
pub mod slot;

use crate::abi::Abi;
use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::detour::Detour;
use crate::entry;
use crate::linux::Linux;
use crate::mem::ByteOrder;
use crate::plan::{Patch, Then};
use crate::rows::Rows;

/// Bytes in an instruction, and in each half of a prefixed one.
pub const LENGTH: usize = 4;

/// A variant of PowerPC: width of registers and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// 32-bit big-endian.
    Big32,
    /// 64-bit big-endian. Function pointers lead to descriptors (ELFv1).
    Big64,
    /// 64-bit little-endian. Functions have a global and a local entry (ELFv2).
    Little64,
}

/// The exceptions of 64-bit kernels; the code of each is called `data_access_common`, and for one entry `_virt` or `_real`.
#[rustfmt::skip]
const EXCEPTIONS: &[&str] = &[
    "system_reset", "machine_check", "machine_check_early", "machine_check_idle", "data_access", "data_access_slb",
    "instruction_access", "instruction_access_slb", "hardware_interrupt", "alignment", "program_check", "fp_unavailable",
    "decrementer", "hdecrementer", "doorbell_super", "single_step", "h_data_storage", "h_instr_storage", "emulation_assist",
    "hmi_exception", "hmi_exception_early", "h_doorbell", "h_virt_irq", "performance_monitor", "altivec_unavailable",
    "vsx_unavailable", "facility_unavailable", "h_facility_unavailable", "instruction_breakpoint", "denorm_exception",
    "altivec_assist", "soft_nmi",
];

/// Whether it is the code of an exception, or code that it jumps to.
fn is_entered_by_exceptions(name: &str) -> bool {
    let common = ["_virt", "_real"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    common.strip_suffix("_common").is_some_and(|name| EXCEPTIONS.contains(&name))
        || ["exc_virt_", "exc_real_", "tramp_virt_", "tramp_real_"].iter().any(|start| name.starts_with(start))
        || name == "load_up_vsx"
}

/// Code that switches stacks, and code that no call enters: the firmware returns to it, or an exception or a new task begins
/// there. A name with a dot is that of the code, not of the descriptor.
#[rustfmt::skip]
const ENTRIES: &[&str] = &[
    "__switch_to", "_switch", ".__switch_to", "._switch", "opal_return", "ret_from_fork", "ret_from_fork_scv",
    "ret_from_kernel_thread", "system_call_common", "system_call_common_real", "system_call_vectored_common",
    "system_call_vectored_sigill",
];

impl Set {
    /// Whether registers have 64 bits. Only then are there prefixed instructions.
    pub const fn is_64(self) -> bool {
        !matches!(self, Set::Big32)
    }

    /// The byte order of memory.
    pub const fn order(self) -> ByteOrder {
        match self {
            Set::Big32 | Set::Big64 => ByteOrder::Big,
            Set::Little64 => ByteOrder::Little,
        }
    }

    /// The word in 4 bytes of memory; 0, which is no instruction, if there are not exactly 4.
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

    /// The displacement from one address to another. 32-bit addresses wrap.
    pub const fn distance(self, from: u64, to: u64) -> i64 {
        let distance = to.wrapping_sub(from) as i64;
        if self.is_64() { distance } else { distance as i32 as i64 }
    }

    /// The table of this variant.
    pub const fn isa(self) -> &'static Isa {
        match self {
            Set::Big32 => &PPC,
            Set::Big64 => &PPC64,
            Set::Little64 => &PPC64LE,
        }
    }
}

/// The table of 32-bit kernels.
pub static PPC: Isa = isa::<Big32>();
/// The table of 64-bit big-endian kernels.
pub static PPC64: Isa = isa::<Big64>();
/// The table of 64-bit little-endian kernels.
pub static PPC64LE: Isa = isa::<Little64>();

/// The differences between the three tables.
trait Variant {
    const SET: Set;
    const ARCH: Arch;
    const ABI: &'static Abi;
    const BREAKPOINT: &'static [u8];
    const DETOUR: &'static Detour;
}

struct Big32;

impl Variant for Big32 {
    const SET: Set = Set::Big32;
    const ARCH: Arch = Arch::Ppc;
    const ABI: &'static Abi = &abi::SYSV;
    const BREAKPOINT: &'static [u8] = &slot::TRAP.to_be_bytes();
    const DETOUR: &'static Detour = &detour::BIG_32;
}

struct Big64;

impl Variant for Big64 {
    const SET: Set = Set::Big64;
    const ARCH: Arch = Arch::Ppc64;
    const ABI: &'static Abi = &abi::ELF_V1;
    const BREAKPOINT: &'static [u8] = &slot::TRAP.to_be_bytes();
    const DETOUR: &'static Detour = &detour::BIG_64;
}

struct Little64;

impl Variant for Little64 {
    const SET: Set = Set::Little64;
    const ARCH: Arch = Arch::Ppc64le;
    const ABI: &'static Abi = &abi::ELF_V2;
    const BREAKPOINT: &'static [u8] = &slot::TRAP.to_le_bytes();
    const DETOUR: &'static Detour = &detour::LITTLE_64;
}

const fn isa<V: Variant>() -> Isa {
    Isa {
        arch: V::ARCH,
        order: V::SET.order(),
        word: if V::SET.is_64() { 8 } else { 4 },
        longest: if V::SET.is_64() { 2 * LENGTH } else { LENGTH },
        breakpoint: V::BREAKPOINT,
        breakpoint_over: |_| Patch::of(V::BREAKPOINT),
        is_breakpoint: |_, bytes| slot::is_breakpoint(V::SET, bytes),
        entry: if matches!(V::SET, Set::Little64) { abi::local_entry } else { entry::at_symbol },
        linux: Linux {
            // Linux needs an ftrace call that saves all registers for this. ELFv1 kernels do not have one.
            ftrace_carries: !matches!(V::SET, Set::Big64),
            code_prefix: if matches!(V::SET, Set::Big64) { "." } else { "" },
            named_entry: if matches!(V::SET, Set::Little64) { abi::named_entry } else { entry::named_at_symbol },
            is_entered_by_exceptions,
            // The firmware returns in real mode and big-endian.
            in_other_modes: &["opal_return"],
            ..Linux::USUAL
        },
        switches_stacks: ENTRIES,
        abi: V::ABI,
        decode: |address, bytes| decode::decode(V::SET, address, bytes),
        plan: |insn, policy| rules::plan(V::SET, insn, policy),
        check_context: |insn, policy, function, around| rules::check_context(V::SET, insn, policy, function, around),
        rows: Rows {
            example: |row, free| rules::example(V::SET, row, free),
            of: |insn| rules::number_of(V::SET, insn),
            flags: &[],
            ..Rows::NONE
        },
        rules: rules::RULES,
        copy: |insn, at, tail| slot::copy(V::SET, insn, at, tail),
        emulate: |what, insn, regs, mem| match what {
            Emulation::Ppc(what) => emulate::emulate(V::SET, what, insn, regs, mem).map(|()| Then::Onwards),
            _ => Err(not_ours(insn)),
        },
        detour: Some(V::DETOUR),
        ..Isa::USUAL
    }
}
