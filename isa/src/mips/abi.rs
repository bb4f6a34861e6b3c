//! The o32 and n64 calling conventions as Linux uses them, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::entry::Pointers;
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// The stack pointer. General registers have the hardware's numbers.
pub const SP: Reg = Reg(29);
/// In the kernel: pointer to the running task's `thread_info`.
pub const GP: Reg = Reg(28);
/// The return address, at a function's entry.
pub const RA: Reg = Reg(31);
/// Status: interrupt enable, CPU mode, usable coprocessors.
pub const STATUS: Reg = Reg(32);
/// The high half of a product, or a remainder.
pub const HI: Reg = Reg(33);
/// The low half of a product, or a quotient.
pub const LO: Reg = Reg(34);
/// The address of the last access that faulted.
pub const BADVADDR: Reg = Reg(35);
/// Cause: the reason for the last exception, and whether it was in a delay slot.
pub const CAUSE: Reg = Reg(36);
/// The exception program counter, used as the pc's name. Equals [`crate::regs::Registers::pc`].
pub const EPC: Reg = Reg(37);

/// The general register of that number.
pub const fn r(number: u8) -> Reg {
    Reg(number & 31)
}

/// o32. A 64-bit argument uses a pair of registers with an even first number. The caller reserves stack space for the
/// four arguments in registers, which the callee may use.
pub static O32: Abi = Abi {
    second_result: Some(r(3)),
    arguments: &[r(4), r(5), r(6), r(7)],
    stack_arguments: 16,
    aligned_pairs: true,
    splits_pairs: false,
    stack_size: 8192,
    ..N64_FACTS
};

/// n64.
pub static N64: Abi = N64_FACTS;

const N64_FACTS: Abi = Abi {
    sp: SP,
    result: r(2),
    arguments: &[r(4), r(5), r(6), r(7), r(8), r(9), r(10), r(11)],
    return_address: ReturnAddress::In(RA),
    // The kernel is not position-independent, so functions do not need their own address.
    pointers: Pointers::Code(None),
    names: &NAMES,
    // The value of Linux (MAX_JPROBES_STACK_SIZE).
    jprobe_stack: 128,
    assembler: Assembler { register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// `4` of `$4`, and names by their use that o32 and n64 share.
fn named(name: &str) -> Option<Part> {
    let number = match name {
        "gp" => Some(28),
        "sp" => Some(29),
        "fp" | "s8" => Some(30),
        "ra" => Some(31),
        _ => numbered(name, "", 32),
    };
    number.map(|number| Part::lowest(r(number)))
}

/// The kernel's own names, in its order.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 38] = [
    ("r0", r(0)), ("r1", r(1)), ("r2", r(2)), ("r3", r(3)), ("r4", r(4)), ("r5", r(5)), ("r6", r(6)), ("r7", r(7)), ("r8", r(8)),
    ("r9", r(9)), ("r10", r(10)), ("r11", r(11)), ("r12", r(12)), ("r13", r(13)), ("r14", r(14)), ("r15", r(15)), ("r16", r(16)),
    ("r17", r(17)), ("r18", r(18)), ("r19", r(19)), ("r20", r(20)), ("r21", r(21)), ("r22", r(22)), ("r23", r(23)), ("r24", r(24)),
    ("r25", r(25)), ("r26", r(26)), ("r27", r(27)), ("r28", GP), ("r29", SP), ("r30", r(30)), ("r31", RA), ("c0_status", STATUS),
    ("hi", HI), ("lo", LO), ("c0_badvaddr", BADVADDR), ("c0_cause", CAUSE), ("c0_epc", EPC),
];

#[cfg(test)]
mod tests {
    use super::super::Set;
    use super::*;
    use crate::call::{Home, Type, argument};
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        for abi in [&O32, &N64] {
            let names: Vec<&str> = abi.names.iter().map(|(name, _)| *name).collect();
            let general: Vec<_> = (0..32).map(|number| alloc::format!("r{number}")).collect();
            assert_eq!(names[..32], general);
            assert_eq!(names[32..], ["c0_status", "hi", "lo", "c0_badvaddr", "c0_cause", "c0_epc"]);
            assert!(abi.names.iter().enumerate().all(|(number, (_, reg))| usize::from(reg.0) == number));
        }
    }

    /// DV-4: o32 passes four words in registers, n64 eight; then the stack. An o32 pair starts at an even register, and
    /// the byte order decides which half is first.
    #[test]
    fn arguments_are_in_registers_and_then_on_the_stack() {
        let at = |set: Set, number| argument(set.isa(), &[], number).low;
        for set in [Set::Big32, Set::Little32] {
            assert_eq!([3, 4, 5].map(|number| at(set, number)), [Home::Register(r(7)), Home::Stack(16), Home::Stack(20)]);
        }
        for set in [Set::Big64, Set::Little64] {
            assert_eq!([7, 8, 9].map(|number| at(set, number)), [Home::Register(r(11)), Home::Stack(0), Home::Stack(8)]);
        }
        let pair = |set: Set| {
            let found = argument(set.isa(), &[Type::Word, Type::Unsigned(8)], 1);
            (found.low, found.high)
        };
        assert_eq!(pair(Set::Little32), (Home::Register(r(6)), Some(Home::Register(r(7)))), "r5 stays unused");
        assert_eq!(pair(Set::Big32), (Home::Register(r(7)), Some(Home::Register(r(6)))));
        assert_eq!(pair(Set::Little64), (Home::Register(r(5)), None));
    }
}
