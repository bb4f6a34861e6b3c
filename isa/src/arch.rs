//! The list of ISAs, and the table of facts and functions by which the other crates use one ([`Isa`]).

use crate::abi::Abi;
use crate::detour::Detour;
use crate::entry::Entry;
use crate::insn::{Insn, LONGEST_GROUP, Progress, Undecodable};
use crate::linux::Linux;
use crate::mem::{ByteOrder, Fault, Memory};
use crate::plan::{Copy, Errno, Patch, Plan, Policy, Refusal, Rule, Tail, Then};
use crate::region::Surroundings;
use crate::regs::{Reg, Registers};
use crate::rows::Rows;
use core::ops::Range;

/// An instruction set with a word size and a byte order.
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
    /// 64-bit PowerPC, big-endian (ELFv1).
    Ppc64,
    /// 64-bit PowerPC, little-endian (ELFv2).
    Ppc64le,
    /// z/Architecture.
    S390x,
    /// 32-bit MIPS, big-endian.
    Mips,
    /// 32-bit MIPS, little-endian.
    Mipsel,
    /// 64-bit MIPS, big-endian.
    Mips64,
    /// 64-bit MIPS, little-endian.
    Mips64el,
    /// SPARC V9.
    Sparc64,
    /// RISC-V, 64 bits.
    Riscv64,
    /// RISC-V, 32 bits.
    Riscv32,
    /// PA-RISC, 32 bits.
    Parisc,
    /// IA-64.
    Ia64,
}

impl Arch {
    /// All ISAs.
    #[rustfmt::skip]
    pub const ALL: &'static [Arch] = &[
        Arch::I386, Arch::X86_64, Arch::Arm, Arch::Thumb2, Arch::Arm64, Arch::Ppc, Arch::Ppc64, Arch::Ppc64le,
        Arch::S390x,
        Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el,
        Arch::Sparc64,
        Arch::Riscv64, Arch::Riscv32,
        Arch::Parisc,
        Arch::Ia64,
    ];

    /// The name in image names and options, as in `tiny/x86_64`.
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
            Arch::Riscv64 => "riscv64",
            Arch::Riscv32 => "riscv32",
            Arch::Parisc => "parisc",
            Arch::Ia64 => "ia64",
        }
    }

    /// The ISA with that name.
    pub fn from_name(name: &str) -> Option<Arch> {
        Arch::ALL.iter().copied().find(|arch| arch.name() == name)
    }

    /// The table of this ISA.
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
            Arch::Riscv64 => &crate::riscv::RISCV64,
            Arch::Riscv32 => &crate::riscv::RISCV32,
            Arch::Parisc => &crate::parisc::PARISC,
            Arch::Ia64 => &crate::ia64::IA64,
        }
    }
}

/// A computed instruction, decoded once at registration. Only its own ISA reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulation {
    /// A32 or Thumb.
    Arm(crate::arm::emulate::Computation),
    /// An AArch64 instruction (A64).
    Arm64(crate::arm64::emulate::Computation),
    /// MIPS of any width and byte order.
    Mips(crate::mips::emulate::Computation),
    /// PA-RISC.
    Parisc(crate::parisc::emulate::Computation),
    /// PowerPC of any width and byte order.
    Ppc(crate::ppc::emulate::Computation),
    /// RISC-V of either width.
    Riscv(crate::riscv::emulate::Computation),
    /// z/Architecture.
    S390(crate::s390::emulate::Computation),
    /// SPARC V9.
    Sparc64(crate::sparc64::emulate::Computation),
    /// x86, 32 or 64 bits.
    X86(crate::x86::emulate::Computation),
    /// Nothing was decoded: [`Isa::emulate`] reads the instruction's bytes.
    AsWritten,
}

/// The fault that [`Isa::emulate`] returns for an `Emulation` of another ISA. The CPU then runs the copy instead.
pub const fn not_ours(insn: &Insn) -> Fault {
    Fault { address: insn.address, write: false }
}

/// Emulates one instruction on a stopped CPU; see [`Isa::emulate`].
pub type Emulate = fn(what: &Emulation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<Then, Fault>;

/// Decides whether an instruction may be probed, given the function around it; see [`Isa::check_context`].
pub type CheckContext =
    fn(insn: &Insn, policy: Policy, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal>;

/// The emulation of an instruction that is in the delay slot of a separate branch instruction; `None` if it is in no
/// delay slot.
pub type InDelaySlot = fn(insn: &Insn, around: &mut dyn Surroundings) -> Option<Emulation>;

/// The bytes of a group with the breakpoint of one of its instructions, or with that instruction itself; see [`Isa::in_group`].
pub type InGroup = fn(group: [u8; LONGEST_GROUP], insn: &Insn, has_breakpoint: bool) -> [u8; LONGEST_GROUP];

/// For ISAs without delay slots, and for ISAs that decode a branch and its delay slot as one instruction.
pub const NO_DELAY_SLOTS: InDelaySlot = |_, _| None;

/// The refusal by an ISA without instructions.
const NO_INSTRUCTIONS: Refusal = Refusal::new(Errno::EINVAL, "this ISA has no instructions");

/// One ISA, as the engine and the machine see it: first facts, then functions.
pub struct Isa {
    /// The ISA of this table.
    pub arch: Arch,
    /// Bytes in a machine word.
    pub word: usize,
    /// The byte order of data.
    pub order: ByteOrder,
    /// Bytes in the longest instruction.
    pub longest: usize,
    /// Addresses of instructions are multiples of this.
    pub alignment: u64,
    /// Bytes of an aligned group of instructions that are decoded together, a power of two: an IA-64 bundle. 1 if
    /// instructions are decoded one by one.
    pub group: u64,
    /// Bits of a code pointer or return address that are not part of the address: 1 in Thumb code.
    pub pointer_bits: u64,
    /// The address of the instruction that a user's address names. Linux names the slots of a bundle by their numbers.
    pub named_by: fn(address: u64) -> u64,
    /// A breakpoint instruction without a condition.
    pub breakpoint: &'static [u8],
    /// The breakpoint that replaces the first bytes of a probed instruction. It has that instruction's condition, on
    /// ISAs where instructions have conditions.
    pub breakpoint_over: fn(insn: &Insn) -> Patch,
    /// On ISAs whose instructions share bytes with others of their group: puts the breakpoint of an instruction, or the
    /// instruction itself, into the bytes of its group. No bit of the other instructions changes.
    pub in_group: Option<InGroup>,
    /// Whether the instruction at an address is a breakpoint, ours or another. `text` begins at [`Isa::group_start`] of the
    /// address.
    pub is_breakpoint: fn(address: u64, text: &[u8]) -> bool,
    /// Instructions have several lengths, so boundaries are found by decoding from the start of the function.
    pub variable_length: bool,
    /// The entry of a function, given its first bytes: behind a landing pad, for example.
    pub entry: Entry,
    /// Facts about Linux on this ISA.
    pub linux: Linux,
    /// Linux functions that return on another stack or break the calling convention, and code that no call enters.
    /// [`crate::plan::Policy::Best`] refuses return probes there, and on Linux's own, shorter list.
    pub switches_stacks: &'static [&'static str],
    /// The calling convention and the names of registers.
    pub abi: &'static Abi,
    /// The registers that show the progress of an instruction that an interrupt can suspend, such as `rep movs`.
    pub progress: fn(insn: &Insn) -> Progress,
    /// The register, other than the pc, in which the CPU stores the address of this instruction. After a copy has run,
    /// the engine writes the original's address there.
    pub address_register: fn(insn: &Insn) -> Option<Reg>,
    /// Decodes one instruction. `bytes` begins at [`Isa::group_start`] of its address, and may be longer than it.
    pub decode: fn(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable>,
    /// The fixed target of an indirect jump or call whose address the instruction before it builds from its own, as RISC-V's
    /// `auipc` and `jalr` do for a far call. `None` if the two are no such pair.
    pub far_target: fn(before: &Insn, insn: &Insn) -> Option<u64>,
    /// Decides whether an instruction may be probed, and how it runs, from the instruction alone.
    pub plan: fn(insn: &Insn, policy: Policy) -> Result<Plan, Refusal>,
    /// Decides whether an instruction may be probed at its place. It may not between a load-exclusive and its store,
    /// for example.
    pub check_context: CheckContext,
    /// The emulation to use if the instruction is in a delay slot. A jump never replaces an instruction in a delay slot.
    pub in_delay_slot: InDelaySlot,
    /// The rows of the table by which instructions are decided about, with examples.
    pub rows: Rows,
    /// Every rule by which this ISA refuses instructions.
    pub rules: &'static [&'static Rule],
    /// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
    pub copy: fn(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal>,
    /// Emulates an instruction and sets the pc. A fault leaves registers and memory unchanged.
    pub emulate: Emulate,
    /// The jumps and detours of optimised probes; `None` if this ISA has none.
    pub detour: Option<&'static Detour>,
    /// The reason why this ISA has no detours, for the refusal of a jump. Empty on ISAs that need none.
    pub no_detour: &'static str,
}

/// Code of Linux's tracers that is called between a function's caller and the function: it returns by the convention of the
/// compiler's profiling, with the function's own return address in another place. On every ISA.
pub const TRACER_CODE: &[&str] = &[
    "mcount",
    "_mcount",
    "._mcount",
    "__gnu_mcount_nc",
    "ftrace_stub",
    "ftrace_caller",
    "ftrace_caller_from_init",
    "ftrace_call",
    "ftrace_common",
    "ftrace_regs_caller",
    "ftrace_regs_caller_from_init",
    "ftrace_regs_call",
    "ftrace_graph_caller",
    "ftrace_graph_call",
    "ftrace_graph_regs_caller",
    "ftrace_graph_regs_call",
    "return_to_handler",
];

impl Isa {
    /// The facts that most ISAs have, and functions of an ISA without instructions. An ISA's table gives its name, its
    /// instructions and the fields that differ, so that a new field does not change the other tables.
    pub const USUAL: Isa = Isa {
        arch: Arch::ALL[0],
        word: 8,
        order: ByteOrder::Little,
        longest: 4,
        alignment: 4,
        group: 1,
        pointer_bits: 0,
        named_by: |address| address,
        breakpoint: &[],
        breakpoint_over: |_| Patch::of(&[]),
        in_group: None,
        is_breakpoint: |_, _| false,
        variable_length: false,
        entry: crate::entry::at_symbol,
        linux: Linux::USUAL,
        switches_stacks: &[],
        abi: &Abi::USUAL,
        progress: |_| Progress::NONE,
        address_register: |_| None,
        decode: |address, _| Err(Undecodable { address, truncated: false }),
        far_target: |_, _| None,
        plan: |_, _| Err(NO_INSTRUCTIONS),
        check_context: |_, _, _, _| Ok(()),
        in_delay_slot: NO_DELAY_SLOTS,
        rows: Rows::NONE,
        rules: &[],
        copy: |_, _, _| Err(NO_INSTRUCTIONS),
        emulate: |_, insn, _, _| Err(not_ours(insn)),
        detour: None,
        no_detour: "",
    };

    /// The start of the group of instructions that an address lies in; the address itself if there are no groups.
    #[inline]
    pub fn group_start(&self, address: u64) -> u64 {
        address & !(self.group - 1)
    }

    /// The end of the group of instructions that the byte in front of an address lies in; the address itself if there are no
    /// groups.
    #[inline]
    pub fn group_end(&self, address: u64) -> u64 {
        address.saturating_add(self.group - 1) & !(self.group - 1)
    }

    /// This ISA's rule that made the refusal, if one did.
    pub fn rule_of(&self, refusal: &Refusal) -> Option<&'static Rule> {
        self.rules.iter().copied().find(|rule| rule.errno == refusal.errno && rule.why == refusal.why)
    }
}

impl core::fmt::Debug for Isa {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Isa({})", self.arch.name())
    }
}
