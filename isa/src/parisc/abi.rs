//! The calling convention as Linux uses it, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// The processor status word with the nullify bit and the carry bits, as an interruption would save it now.
pub const PSW: Reg = Reg(32);
/// The front of the queue as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(33);
/// The back of the queue: the address of the instruction after the one at the pc.
pub const NPC: Reg = Reg(34);
/// The address space of the front of the queue.
pub const SPACE: Reg = Reg(35);
/// The address space of the back of the queue.
pub const NEXT_SPACE: Reg = Reg(36);
/// The privilege level of the front of the queue.
pub const LEVEL: Reg = Reg(37);
/// The privilege level of the back of the queue.
pub const NEXT_LEVEL: Reg = Reg(38);
/// The shift amount, control register 11.
pub const SAR: Reg = Reg(39);
/// Control register 27: the thread pointer of programs.
pub const CR27: Reg = Reg(48);
/// Control register 30: the running task.
pub const CR30: Reg = Reg(49);
/// The instruction that raised the last interruption.
pub const IIR: Reg = Reg(50);
/// The space of the data address of the last interruption.
pub const ISR: Reg = Reg(51);
/// The data address of the last interruption.
pub const IOR: Reg = Reg(52);
/// The PSW that the last interruption saved.
pub const IPSW: Reg = Reg(53);
/// The front of the queue that the last interruption saved, with the privilege level in its low bits.
pub const SAVED_PC: Reg = Reg(54);
/// The back of the queue that the last interruption saved, with the privilege level in its low bits.
pub const SAVED_NPC: Reg = Reg(55);
/// The spaces that the last interruption saved: front and back.
pub const SAVED_SPACES: [Reg; 2] = [Reg(56), Reg(57)];
/// Copies of r1, r8, r9, r16, r17, r24 and r25 at the last interruption.
pub const SHADOWS: [Reg; 7] = [Reg(58), Reg(59), Reg(60), Reg(61), Reg(62), Reg(63), Reg(64)];
/// The registers that have such a copy.
pub const SHADOWED: [Reg; 7] = [r(1), r(8), r(9), r(16), r(17), r(24), r(25)];

/// The return pointer.
pub const RP: Reg = r(2);
/// The link register of millicode and of far calls.
pub const MRP: Reg = r(31);
/// The stack pointer. The stack grows upwards.
pub const SP: Reg = r(30);

/// The general register of that number. Number 0 reads as zero and is never set.
pub const fn r(number: u8) -> Reg {
    Reg(number & 31)
}

/// The space register of that number.
pub const fn sr(number: u8) -> Reg {
    Reg(40 + (number & 7))
}

/// The first four argument words are in registers. The caller's frame has room for them too, so the fifth is 52 bytes
/// below the stack pointer.
pub static ELF: Abi = Abi {
    sp: SP,
    result: r(28),
    second_result: Some(r(29)),
    arguments: &[r(26), r(25), r(24), r(23)],
    stack_arguments: -52,
    stack_grows_up: true,
    aligned_pairs: true,
    return_address: ReturnAddress::In(RP),
    names: &NAMES,
    hidden: &[],
    // Linux has no jprobes that save stack here.
    jprobe_stack: 0,
    assembler: Assembler { register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// The register that a program's assembler calls `r26` and so on.
fn named(name: &str) -> Option<Part> {
    numbered(name, "r", 32).map(|number| Part::lowest(r(number)))
}

/// The kernel's own names, in its order. The kernel keeps the PSW in the place of r0.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 53] = [
    ("gr0", PSW), ("gr1", r(1)), ("gr2", r(2)), ("gr3", r(3)), ("gr4", r(4)), ("gr5", r(5)), ("gr6", r(6)), ("gr7", r(7)),
    ("gr8", r(8)), ("gr9", r(9)), ("gr10", r(10)), ("gr11", r(11)), ("gr12", r(12)), ("gr13", r(13)), ("gr14", r(14)),
    ("gr15", r(15)), ("gr16", r(16)), ("gr17", r(17)), ("gr18", r(18)), ("gr19", r(19)), ("gr20", r(20)), ("gr21", r(21)),
    ("gr22", r(22)), ("gr23", r(23)), ("gr24", r(24)), ("gr25", r(25)), ("gr26", r(26)), ("gr27", r(27)), ("gr28", r(28)),
    ("gr29", r(29)), ("gr30", r(30)), ("gr31", r(31)),
    ("sr0", sr(0)), ("sr1", sr(1)), ("sr2", sr(2)), ("sr3", sr(3)), ("sr4", sr(4)), ("sr5", sr(5)), ("sr6", sr(6)), ("sr7", sr(7)),
    ("iasq0", SPACE), ("iasq1", NEXT_SPACE), ("iaoq0", PC), ("iaoq1", NPC),
    ("cr27", CR27), ("ksp", SP), ("kpc", PC), ("sar", SAR), ("iir", IIR), ("isr", ISR), ("ior", IOR), ("ipsw", IPSW),
    // Our own name.
    ("cr30", CR30),
];

#[cfg(test)]
mod tests {
    use super::super::PARISC;
    use super::*;
    use crate::call::{Home, Type, argument, result};
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        let names: Vec<&str> = ELF.names.iter().map(|(name, _)| *name).collect();
        let general = (0..32).map(|number| alloc::format!("gr{number}")).chain((0..8).map(|number| alloc::format!("sr{number}")));
        assert_eq!(names[..40], general.collect::<Vec<_>>());
        assert_eq!(names[40..44], ["iasq0", "iasq1", "iaoq0", "iaoq1"]);
        assert_eq!(names[44..52], ["cr27", "ksp", "kpc", "sar", "iir", "isr", "ior", "ipsw"]);
        assert_eq!((ELF.register("gr26"), ELF.register("r26")), (Some(r(26)), None));
    }

    /// DV-4: four argument words are in registers; the others are below each other on a stack that grows upwards.
    #[test]
    fn the_fifth_argument_is_on_the_stack() {
        let at = |number| argument(&PARISC, &[], number).low;
        assert_eq!([0, 3].map(at), [26, 23].map(|reg| Home::Register(Reg(reg))));
        assert_eq!([4, 5].map(at), [Home::Stack(-52), Home::Stack(-56)]);
    }

    /// DV-4: a value of 64 bits starts at an even word, and its low word is the first one.
    #[test]
    fn a_pair_has_its_low_word_first() {
        let of = |types: &[Type], number| {
            let value = argument(&PARISC, types, number);
            (value.low, value.high)
        };
        let (wide, register) = (Type::Signed(8), |number| Home::Register(r(number)));
        assert_eq!(of(&[wide], 0), (register(26), Some(register(25))));
        assert_eq!(of(&[Type::Word, wide], 1), (register(24), Some(register(23))));
        assert_eq!(of(&[wide, Type::Word, wide], 2), (Home::Stack(-52), Some(Home::Stack(-56))));
        let value = result(&PARISC, wide);
        assert_eq!((value.low, value.high), (register(29), Some(register(28))));
    }
}
