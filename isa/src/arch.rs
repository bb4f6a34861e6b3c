//! Which ISAs there are, and the table of facts and functions that each one is to the rest of the house.

use crate::abi::Abi;
use crate::detour::Detour;
use crate::entry::Entry;
use crate::insn::{Insn, Progress, Undecodable};
use crate::linux::Linux;
use crate::mem::{ByteOrder, Fault, Memory};
use crate::plan::{Copy, Plan, Policy, Refusal, Rule, Tail, Then};
use crate::region::Surroundings;
use crate::regs::{Reg, Registers};
use core::ops::Range;

/// An instruction set in one word size and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// 32-bit x86.
    I386,
    /// 64-bit x86.
    X86_64,
    /// 32-bit ARM in A32 code.
    Arm,
    /// 32-bit ARM in Thumb code (T16 and T32).
    Thumb2,
    /// AArch64.
    Arm64,
    /// 32-bit PowerPC.
    Ppc,
    /// 64-bit PowerPC, the high byte first (ELFv1).
    Ppc64,
    /// 64-bit PowerPC, the low byte first (ELFv2).
    Ppc64le,
    /// z/Architecture.
    S390x,
    /// 32-bit MIPS, the high byte first.
    Mips,
    /// 32-bit MIPS, the low byte first.
    Mipsel,
    /// 64-bit MIPS, the high byte first.
    Mips64,
    /// 64-bit MIPS, the low byte first.
    Mips64el,
    /// SPARC V9.
    Sparc64,
}

impl Arch {
    /// Every ISA that is built in.
    #[rustfmt::skip]
    pub const ALL: &'static [Arch] = &[
        Arch::I386, Arch::X86_64, Arch::Arm, Arch::Thumb2, Arch::Arm64, Arch::Ppc, Arch::Ppc64, Arch::Ppc64le,
        Arch::S390x,
        Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el,
        Arch::Sparc64,
    ];

    /// The name that people type: `tiny/x86_64`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::I386 => "i386",
            Arch::X86_64 => "x86_64",
            Arch::Arm => "arm",
            Arch::Thumb2 => "thumb2",
            Arch::Arm64 => "arm64",
            Arch::Ppc => "ppc",
            Arch::Ppc64 => "ppc64",
            Arch::Ppc64le => "ppc64le",
            Arch::S390x => "s390x",
            Arch::Mips => "mips",
            Arch::Mipsel => "mipsel",
            Arch::Mips64 => "mips64",
            Arch::Mips64el => "mips64el",
            Arch::Sparc64 => "sparc64",
        }
    }

    /// The ISA of that name.
    pub fn from_name(name: &str) -> Option<Arch> {
        Arch::ALL.iter().copied().find(|arch| arch.name() == name)
    }

    /// Its table.
    #[inline]
    pub fn isa(self) -> &'static Isa {
        match self {
            Arch::I386 => &crate::x86::I386,
            Arch::X86_64 => &crate::x86::X86_64,
            Arch::Arm => &crate::arm::ARM,
            Arch::Thumb2 => &crate::arm::THUMB2,
            Arch::Arm64 => &crate::arm64::ARM64,
            Arch::Ppc => &crate::ppc::PPC,
            Arch::Ppc64 => &crate::ppc::PPC64,
            Arch::Ppc64le => &crate::ppc::PPC64LE,
            Arch::S390x => &crate::s390::S390X,
            Arch::Mips => &crate::mips::MIPS,
            Arch::Mipsel => &crate::mips::MIPSEL,
            Arch::Mips64 => &crate::mips::MIPS64,
            Arch::Mips64el => &crate::mips::MIPS64EL,
            Arch::Sparc64 => &crate::sparc64::SPARC64,
        }
    }
}

/// A computed instruction as its ISA has decoded it once, at registration. Nobody else looks into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulation {
    /// In A32 or Thumb.
    Arm(crate::arm::emulate::Computation),
    /// In A64.
    Arm64(crate::arm64::emulate::Computation),
    /// In any set of MIPS.
    Mips(crate::mips::emulate::Computation),
    /// In any set of PowerPC.
    Ppc(crate::ppc::emulate::Computation),
    /// In z/Architecture.
    S390(crate::s390::emulate::Computation),
    /// In SPARC V9.
    Sparc64(crate::sparc64::emulate::Computation),
    /// Of 32 bits or 64.
    X86(crate::x86::emulate::Computation),
    /// All that there is to know stands in its bytes.
    AsWritten,
}

/// What [`Isa::emulate`] says to what another ISA has decoded: the CPU is left to run the copy.
pub const fn not_ours(insn: &Insn) -> Fault {
    Fault { address: insn.address, write: false }
}

/// The computation of one instruction on a stopped CPU.
pub type Emulate = fn(what: &Emulation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<Then, Fault>;

/// May an instruction of this function be probed among its neighbours?
pub type Stands = fn(insn: &Insn, policy: Policy, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal>;

/// What is computed of an instruction that stands in the delay slot of a branch that is another instruction; `None`: it
/// stands in none.
pub type InDelaySlot = fn(insn: &Insn, around: &mut dyn Surroundings) -> Option<Emulation>;

/// That of an ISA without delay slots, or in which a branch and what is in its slot are one instruction.
pub const NO_DELAY_SLOTS: InDelaySlot = |_, _| None;

/// One ISA as the engine and the machine see it: facts first, then functions. No one else asks which ISA it is.
pub struct Isa {
    /// Which ISA it is.
    pub arch: Arch,
    /// Bytes in a machine word.
    pub word: usize,
    /// In which order the bytes of a number lie in memory.
    pub order: ByteOrder,
    /// Bytes in the longest instruction.
    pub longest: usize,
    /// Every instruction begins at a multiple of this.
    pub alignment: u64,
    /// What a return address or a pointer to code has set that is no part of the address: 1 in Thumb code.
    pub pointer_bits: u64,
    /// A breakpoint that always traps.
    pub breakpoint: &'static [u8],
    /// What is written over the first byte(s) of a probed instruction. It has the instruction's condition, where
    /// instructions have one.
    pub breakpoint_over: fn(insn: &Insn) -> &'static [u8],
    /// Whether these bytes trap as a breakpoint does, ours or anyone's.
    pub is_breakpoint: fn(bytes: &[u8]) -> bool,
    /// Whether instructions have several lengths, so that boundaries must be found by decoding from a function's start.
    pub variable_length: bool,
    /// Where a function's entry is that is asked for by its symbol.
    pub entry: Entry,
    /// What Linux says of it.
    pub linux: Linux,
    /// Functions that return on another stack than they are called on, or not by the rules, in Linux for this ISA: beside
    /// Linux's own list, which is shorter, no return probe may stand there under [`crate::plan::Policy::Best`].
    pub switches_stacks: &'static [&'static str],
    /// Calling convention and register names.
    pub abi: &'static Abi,
    /// The registers that tell how far an instruction has come that interrupts can stop half-way.
    pub progress: fn(insn: &Insn) -> Progress,
    /// The register in which the CPU notes where this instruction has run, beside the pc: behind a copy the original's
    /// address belongs there.
    pub notes_place: fn(insn: &Insn) -> Option<Reg>,
    /// Decodes one instruction out of `bytes`, which may be longer than it.
    pub decode: fn(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable>,
    /// May it be probed, and how would it run?
    pub plan: fn(insn: &Insn, policy: Policy) -> Result<Plan, Refusal>,
    /// May it be probed where it stands: not between a load-exclusive and its store, for example?
    pub stands: Stands,
    /// How it runs where it stands in a delay slot. No jump replaces it there.
    pub in_delay_slot: InDelaySlot,
    /// Every rule by which instructions are refused.
    pub rules: &'static [&'static Rule],
    /// The copy that runs at `at` instead of at its own address, followed by `tail`.
    pub copy: fn(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal>,
    /// Computes an instruction instead of running it; sets the pc. On a fault nothing has changed.
    pub emulate: Emulate,
    /// How several instructions are replaced by one jump; `None` where that is not done.
    pub detour: Option<&'static Detour>,
}

impl Isa {
    /// The rule by which this refusal was given, if it is one of this ISA's.
    pub fn rule_of(&self, refusal: &Refusal) -> Option<&'static Rule> {
        self.rules.iter().copied().find(|rule| rule.errno == refusal.errno && rule.why == refusal.why)
    }
}

impl core::fmt::Debug for Isa {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Isa({})", self.arch.name())
    }
}
