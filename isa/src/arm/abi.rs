//! The AAPCS as Linux uses it, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// The stack pointer. General registers have the hardware's numbers.
pub const SP: Reg = Reg(13);
/// The link register. At a function's entry it holds the return address, with bit 0 set in Thumb code.
pub const LR: Reg = Reg(14);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(15);
/// The CPSR: flags, IT state, interrupt masks, Thumb bit, mode.
pub const CPSR: Reg = Reg(16);
/// `ORIG_r0` of Linux's `pt_regs`; no CPU register.
pub const ORIG_R0: Reg = Reg(17);

/// The first of 32 vector registers of 8 bytes. Not in `pt_regs`.
pub const D0: Reg = Reg(64);

/// The general register of that number.
pub const fn r(number: u8) -> Reg {
    Reg(number & 15)
}

/// The calling convention of the kernel.
pub static AAPCS: Abi = BASE;

pub(crate) const BASE: Abi = Abi {
    sp: SP,
    result: r(0),
    second_result: Some(r(1)),
    arguments: &[r(0), r(1), r(2), r(3)],
    aligned_pairs: true,
    return_address: ReturnAddress::In(LR),
    pops_pc: true,
    #[rustfmt::skip]
    names: &[
        ("r0", r(0)), ("r1", r(1)), ("r2", r(2)), ("r3", r(3)), ("r4", r(4)), ("r5", r(5)), ("r6", r(6)), ("r7", r(7)), ("r8", r(8)),
        ("r9", r(9)), ("r10", r(10)), ("fp", r(11)), ("ip", r(12)), ("sp", SP), ("lr", LR), ("pc", PC), ("cpsr", CPSR), ("ORIG_r0", ORIG_R0),
    ],
    dwarf: |number| (number < 16).then_some(r(number as u8)),
    stack_size: 8192,
    unnamed_bits_align: true,
    assembler: Assembler { constant: Some('#'), register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// `r11` to `r15`, and the names that only assemblers know.
fn named(name: &str) -> Option<Part> {
    let number = match name {
        "sb" => Some(9),
        "sl" => Some(10),
        _ => numbered(name, "r", 16),
    };
    number.map(|number| Part::lowest(r(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// DV-4: `%REG` names are those of the kernel's own table, in its order, each with its own number.
    #[test]
    fn every_register_of_the_kernels_table_has_its_name() {
        let names: Vec<&str> = AAPCS.names.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.join(" "), "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 fp ip sp lr pc cpsr ORIG_r0");
        assert!(AAPCS.names.iter().enumerate().all(|(number, (_, reg))| usize::from(reg.0) == number));
        assert_eq!((AAPCS.register("lr"), AAPCS.register("r11")), (Some(LR), None));
    }
}
