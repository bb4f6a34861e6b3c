//! The standard calling convention as Linux uses it, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// The return address at a function's entry.
pub const RA: Reg = Reg(1);
/// The stack pointer.
pub const SP: Reg = Reg(2);
/// The thread pointer. While the kernel runs it is the running task.
pub const TP: Reg = Reg(4);
/// The first temporary. ftrace's calls use it as their link register.
pub const T0: Reg = Reg(5);
/// The frame pointer.
pub const FP: Reg = Reg(8);
/// The first argument and the result.
pub const A0: Reg = Reg(10);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(32);
/// The register `sstatus`.
pub const STATUS: Reg = Reg(33);
/// The register `stval`: the address or the instruction of the last exception.
pub const BAD_ADDRESS: Reg = Reg(34);
/// The register `scause`.
pub const CAUSE: Reg = Reg(35);
/// The first argument of a system call. Equals [`A0`] outside of system calls.
pub const FIRST_ARGUMENT: Reg = Reg(36);

/// The first floating-point register. All 32 and then `fcsr` follow. They have no names.
pub const F0: Reg = Reg(64);

/// The general register of that number. Number 0 reads as zero and is never set.
pub const fn x(number: u8) -> Reg {
    Reg(number & 31)
}

/// The calling convention of 64-bit kernels.
pub static LP64: Abi = FACTS;

/// The calling convention of 32-bit kernels. A value of 64 bits may start in any register; its result is in a0 and a1.
pub static ILP32: Abi = Abi { second_result: Some(x(11)), splits_pairs: true, stack_size: 8192, ..FACTS };

const FACTS: Abi = Abi {
    sp: SP,
    result: A0,
    arguments: &[x(10), x(11), x(12), x(13), x(14), x(15), x(16), x(17)],
    return_address: ReturnAddress::In(RA),
    #[rustfmt::skip]
    names: &[
        ("epc", PC), ("ra", RA), ("sp", SP), ("gp", x(3)), ("tp", TP), ("t0", T0), ("t1", x(6)), ("t2", x(7)),
        ("s0", FP), ("s1", x(9)), ("a0", A0), ("a1", x(11)), ("a2", x(12)), ("a3", x(13)), ("a4", x(14)), ("a5", x(15)),
        ("a6", x(16)), ("a7", x(17)), ("s2", x(18)), ("s3", x(19)), ("s4", x(20)), ("s5", x(21)), ("s6", x(22)), ("s7", x(23)),
        ("s8", x(24)), ("s9", x(25)), ("s10", x(26)), ("s11", x(27)), ("t3", x(28)), ("t4", x(29)), ("t5", x(30)), ("t6", x(31)),
        ("status", STATUS), ("badaddr", BAD_ADDRESS), ("cause", CAUSE), ("orig_a0", FIRST_ARGUMENT),
    ],
    // Stack arguments belong to the caller, and Linux's jprobes saved none (JP-1).
    jprobe_stack: 0,
    assembler: Assembler { register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// `x0` to `x31`, and the names that only assemblers know.
fn named(name: &str) -> Option<Part> {
    let register = match name {
        "zero" => Some(x(0)),
        "fp" => Some(FP),
        _ => numbered(name, "x", 32).map(x),
    };
    register.map(Part::lowest)
}

#[cfg(test)]
mod tests {
    use super::super::{RISCV32, RISCV64};
    use super::*;
    use crate::call::{Home, Type, argument};
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        let names: Vec<&str> = LP64.names.iter().map(|(name, _)| *name).collect();
        assert_eq!(names[..10], ["epc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"]);
        assert_eq!(names[32..], ["status", "badaddr", "cause", "orig_a0"]);
        assert!(LP64.names[1..32].iter().map(|(_, reg)| reg.0).eq(1..32), "the hardware's numbers, without x0");
        assert_eq!((LP64.register("zero"), LP64.register("fp"), LP64.register("pc")), (None, None, None));
    }

    /// DV-4: eight arguments are in registers; the ninth is the first word at the stack pointer. On 32 bits a wide value
    /// may be split between the last register and the stack.
    #[test]
    fn the_ninth_argument_is_on_the_stack() {
        let at = |number| argument(&RISCV64, &[], number).low;
        assert_eq!([0, 7].map(at), [10, 17].map(|reg| Home::Register(Reg(reg))));
        assert_eq!([8, 9].map(at), [Home::Stack(0), Home::Stack(8)]);
        let (word, wide) = (Type::Word, Type::Unsigned(8));
        let types = [word, wide, word, word, word, word, wide, word, word, wide];
        let at = |number| {
            let value = argument(&RISCV32, &types, number);
            (value.low, value.high)
        };
        assert_eq!(at(1), (Home::Register(x(11)), Some(Home::Register(x(12)))), "no register is left out");
        assert_eq!(at(6), (Home::Register(x(17)), Some(Home::Stack(0))));
        assert_eq!(at(9), (Home::Stack(16), Some(Home::Stack(20))), "a word stays unused in front");
    }
}
