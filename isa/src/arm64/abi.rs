//! The AAPCS64 as Linux uses it, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// The first argument and the result. Registers 0 to 30 have the hardware's numbers.
pub const X0: Reg = Reg(0);
/// The frame pointer.
pub const FP: Reg = Reg(29);
/// The link register. At a function's entry it holds the return address.
pub const LR: Reg = Reg(30);
/// The stack pointer in use; register 31 where an instruction means sp.
pub const SP: Reg = Reg(31);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(32);
/// PSTATE in the layout of SPSR_EL1: NZCV in bits 31 to 28, DAIF in bits 9 to 6.
pub const PSTATE: Reg = Reg(33);
/// Whether the top byte of an address is a tag, which branches remove (TBI): bit 0 for the lower half of the address
/// space, bit 1 for the upper half.
pub const TAGS: Reg = Reg(34);
/// The low half of v0. The low halves of v1 to v31 follow, then all high halves; see [`vector`].
pub const V0: Reg = Reg(64);

/// The general register of that number. 31 is sp here; instructions where it means zero are handled in
/// [`super::emulate`].
pub const fn x(number: u8) -> Reg {
    Reg(number & 31)
}

/// The two halves of a vector register, low half first.
pub const fn vector(number: u8) -> [Reg; 2] {
    let low = V0.0 + (number & 31);
    [Reg(low), Reg(low + 32)]
}

/// The calling convention of the kernel.
pub static AAPCS64: Abi = Abi {
    sp: SP,
    result: X0,
    arguments: &[x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7)],
    return_address: ReturnAddress::In(LR),
    narrow: Some(&AAPCS_OF_PROGRAMS),
    unnamed_bits_align: true,
    #[rustfmt::skip]
    names: &[
        ("x0", x(0)), ("x1", x(1)), ("x2", x(2)), ("x3", x(3)), ("x4", x(4)), ("x5", x(5)), ("x6", x(6)), ("x7", x(7)),
        ("x8", x(8)), ("x9", x(9)), ("x10", x(10)), ("x11", x(11)), ("x12", x(12)), ("x13", x(13)), ("x14", x(14)), ("x15", x(15)),
        ("x16", x(16)), ("x17", x(17)), ("x18", x(18)), ("x19", x(19)), ("x20", x(20)), ("x21", x(21)), ("x22", x(22)), ("x23", x(23)),
        ("x24", x(24)), ("x25", x(25)), ("x26", x(26)), ("x27", x(27)), ("x28", x(28)), ("x29", FP), ("x30", LR), ("sp", SP),
        ("pc", PC), ("pstate", PSTATE),
    ],
    // Stack arguments belong to the caller, and Linux's jprobes saved none (JP-1).
    jprobe_stack: 0,
    assembler: Assembler { constant: Some('#'), register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// The convention of 32-bit programs. R0 to R14 are the low halves of X0 to X14; bit 0 of R14 is set in Thumb code. While such
/// a program runs, [`SP`] has the value of R13.
static AAPCS_OF_PROGRAMS: Abi = Abi {
    sp: SP,
    result: X0,
    second_result: Some(x(1)),
    arguments: &[x(0), x(1), x(2), x(3)],
    aligned_pairs: true,
    return_address: ReturnAddress::In(x(14)),
    pops_pc: true,
    names: &[("sp", SP), ("pc", PC)],
    assembler: Assembler { constant: Some('#'), register: named_in_programs, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// `r0` to `r14`, and the names that only assemblers know.
fn named_in_programs(name: &str) -> Option<Part> {
    let number = match name {
        "sb" => Some(9),
        "sl" => Some(10),
        "fp" => Some(11),
        "ip" => Some(12),
        "lr" => Some(14),
        _ => numbered(name, "r", 15),
    };
    number.map(|number| Part::lowest(x(number)))
}

/// `w0` to `w30`, and the names that only assemblers know.
fn named(name: &str) -> Option<Part> {
    let register = match name {
        "fp" => Some(FP),
        "lr" => Some(LR),
        "wsp" => Some(SP),
        _ => numbered(name, "w", 31).map(x),
    };
    register.map(Part::lowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        let names: Vec<&str> = AAPCS64.names.iter().map(|(name, _)| *name).collect();
        let general: Vec<_> = (0..31).map(|number| alloc::format!("x{number}")).collect();
        assert_eq!(names[..31], general);
        assert_eq!(names[31..], ["sp", "pc", "pstate"]);
        assert_eq!((AAPCS64.register("x30"), AAPCS64.register("lr")), (Some(LR), None));
    }

    /// RP-1, JP-2: no two registers share a number.
    #[test]
    fn every_register_has_a_number_of_its_own() {
        let vectors = (0..32).flat_map(vector);
        let mut all: Vec<Reg> = AAPCS64.names.iter().map(|(_, reg)| *reg).chain(vectors).chain([TAGS]).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (99, 99));
    }
}
