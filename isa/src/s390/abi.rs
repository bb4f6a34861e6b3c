//! The calling convention as the kernel uses it, and the registers by number and name.

use crate::abi::{Abi, ReturnAddress};
use crate::entry::Pointers;
use crate::regs::Reg;

/// A function's return address, at its entry.
pub const LINK: Reg = r(14);
/// The stack pointer.
pub const SP: Reg = r(15);
/// The mask of the PSW without the condition code: what is allowed, how addresses are translated, and whose code it is.
pub const MASK: Reg = Reg(16);
/// The condition code: 0 to 3.
pub const CC: Reg = Reg(17);

/// The general register of that number; the hardware's numbers are ours.
pub const fn r(number: u8) -> Reg {
    Reg(number & 15)
}

/// Above the stack pointer that a function finds are 160 bytes of its caller's in which it may keep registers.
pub static ELF: Abi = Abi {
    sp: SP,
    result: r(2),
    second_result: None,
    arguments: &[r(2), r(3), r(4), r(5), r(6)],
    stack_arguments: 160,
    aligned_pairs: false,
    return_address: ReturnAddress::In(LINK),
    // Linux packs its frames: the registers lie right below the chain.
    link_slot: Some(136),
    pointers: Pointers::Code(None),
    names: &NAMES,
    hidden: &[("cc", CC)],
    // MAX_STACK_SIZE of Linux's last jprobes.
    jprobe_stack: 64,
    stack_size: 16384,
};

/// Those of the kernel's own table, in its order.
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

    /// DV-4: five arguments have registers, and the sixth is above the caller's 160 bytes.
    #[test]
    fn the_sixth_argument_is_on_the_stack() {
        let of = |number| argument(&S390X, &[], number).low;
        assert_eq!([0, 4].map(of), [2, 6].map(|reg| Home::Register(r(reg))));
        assert_eq!([5, 6].map(of), [160, 168].map(Home::Stack));
    }
}
