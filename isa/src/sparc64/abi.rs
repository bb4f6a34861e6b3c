//! The calling convention as Linux uses it, and the numbers and names of registers.
//!
//! Two registers differ from the hardware's. %sp has a bias: it points 2,047 bytes below the end of the stack. %o7
//! holds the address of the call, 8 bytes before the return address. [`SP`] is the unbiased stack pointer and [`RA`]
//! the return address, for reads and for writes.

use crate::abi::{Abi, ReturnAddress};
use crate::operand::{Assembler, Part, numbered};
use crate::regs::Reg;

/// Stack end minus %sp, and frame minus %fp.
pub const BIAS: u64 = 2047;
/// Return address minus the call's address: the call and its delay slot.
pub const BEHIND_CALL: u64 = 8;

/// TSTATE as a trap would save it now: condition codes, ASI, processor state (PSTATE) and CWP.
pub const TSTATE: Reg = Reg(32);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(33);
/// npc: the address of the instruction after the one at the pc.
pub const NPC: Reg = Reg(34);
/// Y: the high half of 32-bit products and dividends.
pub const Y: Reg = Reg(35);
/// The condition codes: icc in the low four bits, xcc above.
pub const CCR: Reg = Reg(36);
/// The number of the current register window.
pub const CWP: Reg = Reg(37);
/// The number of windows that `save` can still use without a spill.
pub const CANSAVE: Reg = Reg(38);
/// The number of windows that `restore` can return to without a fill.
pub const CANRESTORE: Reg = Reg(39);
/// The stack pointer: %sp without its bias.
pub const SP: Reg = Reg(40);
/// The return address of a function that was just called: %o7 plus 8.
pub const RA: Reg = Reg(41);
/// FPRS: whether the floating-point unit is enabled, and which registers are dirty.
pub const FPRS: Reg = Reg(42);
/// FSR: the state of the floating-point unit with its condition codes.
pub const FSR: Reg = Reg(43);
/// The trap level: the number of nested traps.
pub const TL: Reg = Reg(44);
/// The pc of the innermost trap.
pub const TPC: Reg = Reg(45);
/// The npc of the innermost trap.
pub const TNPC: Reg = Reg(46);
/// The TSTATE that the innermost trap saved.
pub const TRAPPED: Reg = Reg(47);

/// The number of register windows; `save` in the last one continues with the first.
pub const WINDOWS: u64 = 8;

/// The general register of that number: %g0-%g7, %o0-%o7, %l0-%l7, %i0-%i7.
pub const fn r(number: u8) -> Reg {
    Reg(number & 31)
}

/// Register %o0 to %o7.
pub const fn o(number: u8) -> Reg {
    Reg(8 + (number & 7))
}

/// A caller's frame begins with 16 words for its window and six for the arguments in registers; stack arguments follow.
pub static ELF: Abi = Abi {
    sp: SP,
    result: o(0),
    arguments: &[o(0), o(1), o(2), o(3), o(4), o(5)],
    stack_arguments: 176,
    return_address: ReturnAddress::In(RA),
    link_offset: 8,
    names: &NAMES,
    // DWARF means the biased %sp and %fp, for which there is no name.
    dwarf: |number| (number < 32 && number != 14 && number != 30).then_some(r(number as u8)),
    hidden: &HIDDEN,
    // Linux's jprobes saved no stack on SPARC.
    jprobe_stack: 0,
    assembler: Assembler { register: named, ..Assembler::USUAL },
    ..Abi::USUAL
};

/// `o0`, `i0` and so on as programs use them: a probe in a program opens no window.
fn named(name: &str) -> Option<Part> {
    let groups = [("g", 0), ("o", 8), ("l", 16), ("i", 24)];
    let number = groups.iter().find_map(|(prefix, first)| Some(first + numbered(name, prefix, 8)?))?;
    Some(Part::lowest(r(number)))
}

/// The kernel's own names, in its order, then names of our own. The names i0 to i7 mean %o0 to %o7 of the probed code,
/// because a trap of the kernel opens a window.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 37] = [
    ("g0", r(0)), ("g1", r(1)), ("g2", r(2)), ("g3", r(3)), ("g4", r(4)), ("g5", r(5)), ("g6", r(6)), ("g7", r(7)),
    ("i0", o(0)), ("i1", o(1)), ("i2", o(2)), ("i3", o(3)), ("i4", o(4)), ("i5", o(5)), ("i6", o(6)), ("i7", o(7)),
    ("tstate", TSTATE), ("pc", PC), ("npc", NPC), ("y", Y), ("lr", o(7)),
    // Our own names: l0 to l7, and in0 to in7 for %i0 to %i7, which are the arguments after `save`.
    ("l0", r(16)), ("l1", r(17)), ("l2", r(18)), ("l3", r(19)), ("l4", r(20)), ("l5", r(21)), ("l6", r(22)), ("l7", r(23)),
    ("in0", r(24)), ("in1", r(25)), ("in2", r(26)), ("in3", r(27)), ("in4", r(28)), ("in5", r(29)), ("in6", r(30)), ("in7", r(31)),
];

/// The registers of all windows, and the window state: code between two saves may change them.
static HIDDEN: [(&str, Reg); HIDDEN_FIRST.len() + WINDOW_REGISTERS] = {
    let mut all = [("window", Reg(0)); HIDDEN_FIRST.len() + WINDOW_REGISTERS];
    let mut number = 0;
    while number < all.len() {
        all[number] = match number.checked_sub(HIDDEN_FIRST.len()) {
            None => HIDDEN_FIRST[number],
            Some(number) => ("window", in_windows(number as u8)),
        };
        number += 1;
    }
    all
};

const HIDDEN_FIRST: [(&str, Reg); 4] = [("ccr", CCR), ("cwp", CWP), ("cansave", CANSAVE), ("canrestore", CANRESTORE)];

/// The number of registers in all windows: 16 for each.
pub const WINDOW_REGISTERS: usize = 16 * WINDOWS as usize;
/// The number of the first window register.
pub const FIRST_OF_WINDOWS: u8 = 64;

/// A register of any window, by the machine's order, whatever the current window is.
pub const fn in_windows(number: u8) -> Reg {
    Reg(FIRST_OF_WINDOWS + number % WINDOW_REGISTERS as u8)
}

#[cfg(test)]
mod tests {
    use super::super::SPARC64;
    use super::*;
    use crate::call::{Home, argument};
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        let names: Vec<&str> = ELF.names.iter().map(|(name, _)| *name).collect();
        let general = (0..8).map(|number| alloc::format!("g{number}")).chain((0..8).map(|number| alloc::format!("i{number}")));
        assert_eq!(names[..16], general.collect::<Vec<_>>());
        assert_eq!(names[16..21], ["tstate", "pc", "npc", "y", "lr"]);
        assert!((0..16).all(|number| usize::from(ELF.names[number].1.0) == number), "the ones of the probed code");
    }

    /// DV-4: six arguments are in registers; stack arguments start behind the window's 16 words and space for the six.
    #[test]
    fn the_seventh_argument_is_on_the_stack() {
        let at = |number| argument(&SPARC64, &[], number).low;
        assert_eq!([0, 5].map(at), [8, 13].map(|reg| Home::Register(Reg(reg))));
        assert_eq!([6, 7].map(at), [Home::Stack(176), Home::Stack(184)]);
    }
}
