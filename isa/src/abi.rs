//! A calling convention as data: where arguments, results and return addresses lie, and what registers are called.

use crate::entry::Pointers;
use crate::regs::Reg;

/// How functions call each other on one ISA.
#[derive(Debug)]
pub struct Abi {
    /// The stack pointer.
    pub sp: Reg,
    /// The register that holds a function's result.
    pub result: Reg,
    /// The register that holds the other word of a result of two words.
    pub second_result: Option<Reg>,
    /// The registers of the first words of arguments, in order.
    pub arguments: &'static [Reg],
    /// How many bytes above the stack pointer, at a function's entry, the first argument lies that has no register.
    pub stack_arguments: i64,
    /// An argument of two words begins with a word of an even number.
    pub aligned_pairs: bool,
    /// Where a function finds its return address at its entry.
    pub return_address: ReturnAddress,
    /// Where in its caller's frame a function that saves this register saves it: so many bytes above the stack pointer
    /// that it is entered with. `None`: in its own frame, or it is on the stack anyway.
    pub link_slot: Option<u64>,
    /// What a pointer to a function is.
    pub pointers: Pointers,
    /// Names as in the kernel's register tables (`%di`), in that order.
    pub names: &'static [(&'static str, Reg)],
    /// Registers that code of the kernel changes and that have no name there, such as a condition code apart from them.
    pub hidden: &'static [(&'static str, Reg)],
    /// How many bytes of stack a jprobe saves and restores.
    pub jprobe_stack: usize,
    /// The largest kernel stack, a power of two: the bound of `$stackN`.
    pub stack_size: u64,
}

/// Where a function finds its return address at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnAddress {
    /// In the word at the stack pointer.
    OnStack,
    /// In a register.
    In(Reg),
}

impl Abi {
    /// The register of that name, without the `%`.
    pub fn register(&self, name: &str) -> Option<Reg> {
        self.names.iter().find(|(known, _)| *known == name).map(|(_, reg)| *reg)
    }
}
