//! The calling convention as Linux uses it, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::Assembler;
use crate::regs::Reg;

/// The link register. At a function's entry it holds the return address.
pub const LINK: Reg = r(14);
/// The stack pointer.
pub const SP: Reg = r(15);
/// The PSW mask without the condition code: interrupt masks, address translation, problem state.
pub const MASK: Reg = Reg(16);
/// The condition code, 0 to 3.
pub const CC: Reg = Reg(17);

/// The general register of that number. Numbers are the hardware's.
pub const fn r(number: u8) -> Reg {
    Reg(number & 15)
}

/// The ELF ABI. The caller reserves 160 bytes above the stack pointer, where the callee saves registers.
pub static ELF: Abi = Abi {
    sp: SP,
    result: r(2),
    arguments: &[r(2), r(3), r(4), r(5), r(6)],
    stack_arguments: 160,
    return_address: ReturnAddress::In(LINK),
    // Linux is compiled with packed stack frames: the saved registers end right below the back chain.
    link_slot: Some(136),
    narrow_code: 0x7fff_ffff,
    names: &NAMES,
    dwarf: |number| (number < 16).then_some(r(number as u8)),
    hidden: &[("cc", CC)],
    // The value of Linux's last jprobes (MAX_STACK_SIZE).
    jprobe_stack: 64,
    assembler: Assembler { zero: [Some(r(0)); 2], ..Assembler::USUAL },
    ..Abi::USUAL
};

/// The kernel's own names, in its order.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 16] = [
    ("r0", r(0)), ("r1", r(1)), ("r2", r(2)), ("r3", r(3)), ("r4", r(4)), ("r5", r(5)), ("r6", r(6)), ("r7", r(7)),
    ("r8", r(8)), ("r9", r(9)), ("r10", r(10)), ("r11", r(11)), ("r12", r(12)), ("r13", r(13)), ("r14", r(14)), ("r15", r(15)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Home, argument};
    use crate::s390::S390X;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        for (number, (name, reg)) in ELF.names.iter().enumerate() {
            assert_eq!((*name, usize::from(reg.0)), (&*alloc::format!("r{number}"), number));
        }
        assert_eq!(ELF.names.len(), 16);
    }

    /// DV-4: five arguments are in registers; the sixth is above the caller's 160 bytes.
    #[test]
    fn the_sixth_argument_is_on_the_stack() {
        let of = |number| argument(&S390X, &[], number).low;
        assert_eq!([0, 4].map(of), [2, 6].map(|reg| Home::Register(r(reg))));
        assert_eq!([5, 6].map(of), [160, 168].map(Home::Stack));
    }
}
