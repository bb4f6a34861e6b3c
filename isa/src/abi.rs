//! A calling convention as data: the registers of arguments, results and return addresses, and the names of registers.

use crate::entry::Pointers;
use crate::operand::Assembler;
use crate::regs::Reg;

/// The calling convention of one ISA's kernels.
#[derive(Debug)]
pub struct Abi {
    /// The stack pointer.
    pub sp: Reg,
    /// The register that holds a function's result.
    pub result: Reg,
    /// The register of the high or low half of a result that needs two words; `None` if results never do.
    pub second_result: Option<Reg>,
    /// The registers of the first argument words, in order.
    pub arguments: &'static [Reg],
    /// Offset of the first argument that is passed on the stack, from the stack pointer at the function's entry.
    pub stack_arguments: i64,
    /// The stack grows upwards, as on PA-RISC: the words of arguments have descending addresses, and the low word of a pair
    /// comes first.
    pub stack_grows_up: bool,
    /// An argument of two words starts at an even word number; the word before it may stay unused.
    pub aligned_pairs: bool,
    /// An argument of two words may have its low word in the last register and its high word on the stack. On the stack
    /// alone it starts at an even word.
    pub splits_pairs: bool,
    /// The place of the return address at a function's entry.
    pub return_address: ReturnAddress,
    /// Offset from the stack pointer at entry to the word of the caller's frame where functions save the link register.
    /// `None`: functions save it in their own frame, or the call has pushed the return address.
    pub link_slot: Option<u64>,
    /// The distance in bytes from the address that a call stores to the return address.
    pub link_offset: u64,
    /// The bits of the link register that are an address in a 32-bit program on a 64-bit kernel. On z/Architecture its
    /// highest bit is the addressing mode.
    pub narrow_code: u64,
    /// The convention of 32-bit programs on a 64-bit kernel, where their registers have other uses. Its registers have this
    /// convention's numbers.
    pub narrow: Option<&'static Abi>,
    /// Whether functions also return by popping the pc, with any value in the link register. Behind the return pad's jump
    /// the link register then holds the return address instead.
    pub pops_pc: bool,
    /// The representation of a function pointer.
    pub pointers: Pointers,
    /// Registers by the names of the kernel's `pt_regs` tables (`%di` without `%`), in the kernel's order.
    pub names: &'static [(&'static str, Reg)],
    /// The register with a number of DWARF; `None` for those that `pt_regs` does not have.
    pub dwarf: fn(u16) -> Option<Reg>,
    /// Registers that kernel code changes but `pt_regs` does not name, such as a separate condition code.
    pub hidden: &'static [(&'static str, Reg)],
    /// Bytes of stack that a jprobe saves and restores.
    pub jprobe_stack: usize,
    /// Bytes of the largest kernel stack, a power of two. Bounds `$stackN`.
    pub stack_size: u64,
    /// The greatest alignment of a number in a structure, in bytes. It is 4 on i386, where a 64-bit number may follow a
    /// 32-bit one without a gap.
    pub most_aligned: u64,
    /// Whether a bit field without a name gives its structure the alignment of its type, as one with a name does. It does
    /// on ARM and AArch64 (AAPCS).
    pub unnamed_bits_align: bool,
    /// The way in which its assembler writes operands.
    pub assembler: Assembler,
}

/// The place of the return address at a function's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnAddress {
    /// In the stack word at the stack pointer: the call pushed it.
    OnStack,
    /// In a link register.
    In(Reg),
}

impl Abi {
    /// The values that most conventions have. An ISA's table gives its registers and the fields that differ, so that a
    /// new field does not change the other tables.
    pub const USUAL: Abi = Abi {
        sp: Reg(0),
        result: Reg(0),
        second_result: None,
        arguments: &[],
        stack_arguments: 0,
        stack_grows_up: false,
        aligned_pairs: false,
        splits_pairs: false,
        return_address: ReturnAddress::OnStack,
        link_slot: None,
        link_offset: 0,
        narrow_code: u64::MAX,
        narrow: None,
        pops_pc: false,
        pointers: Pointers::Code(None),
        names: &[],
        dwarf: |number| (number < 32).then_some(Reg(number as u8)),
        hidden: &[],
        jprobe_stack: 64,
        stack_size: 16384,
        most_aligned: 8,
        unnamed_bits_align: false,
        assembler: Assembler::USUAL,
    };

    /// The name of the register with a number of DWARF, as event lines have it behind the `%`.
    pub fn dwarf_name(&self, number: u16) -> Option<&'static str> {
        let reg = (self.dwarf)(number)?;
        self.names.iter().find(|(_, known)| *known == reg).map(|(name, _)| *name)
    }

    /// The register with that name, given without the `%`.
    pub fn register(&self, name: &str) -> Option<Reg> {
        self.names.iter().find(|(known, _)| *known == name).map(|(_, reg)| *reg)
    }
}
