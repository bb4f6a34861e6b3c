//! The calling convention as the kernel uses it, and the registers by number and name.
//!
//! Two registers are what the convention means and not what the hardware has: %sp points 2,047 bytes below the stack's
//! end, and %o7 holds where the call stands, 8 bytes in front of where it returns to. [`SP`] and [`RA`] are the end
//! itself and the place itself, whichever way they are used.

use crate::abi::{Abi, ReturnAddress};
use crate::entry::Pointers;
use crate::regs::Reg;

/// What %sp and %fp say is so far below what they mean.
pub const BIAS: u64 = 2047;
/// A function returns so far behind its call: behind the call's delay slot.
pub const BEHIND_CALL: u64 = 8;

/// The condition codes, the address space of loads and stores by default, the state of the CPU, and the window, as a
/// trap saves them, and as a return from it sets them.
pub const TSTATE: Reg = Reg(32);
/// The pc under its name. Reading it gives [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(33);
/// Where execution goes on behind the instruction at the pc.
pub const NPC: Reg = Reg(34);
/// The upper half of products and of what is divided, of 32 bits.
pub const Y: Reg = Reg(35);
/// The condition codes: those of 32 bits in the low four bits, those of 64 above.
pub const CCR: Reg = Reg(36);
/// Which window the CPU is in.
pub const CWP: Reg = Reg(37);
/// How many windows `save` may still open.
pub const CANSAVE: Reg = Reg(38);
/// How many `restore` may still go back to.
pub const CANRESTORE: Reg = Reg(39);
/// The end of the stack: %sp without its bias.
pub const SP: Reg = Reg(40);
/// Where a function returns to that has just been called: what %o7 means.
pub const RA: Reg = Reg(41);
/// Whether a program may use the floating-point unit, and what of it is in use.
pub const FPRS: Reg = Reg(42);
/// The state of the floating-point unit, its conditions among it.
pub const FSR: Reg = Reg(43);
/// How many traps are being handled, one inside the other.
pub const TL: Reg = Reg(44);
/// Where the innermost of them came.
pub const TPC: Reg = Reg(45);
/// Where execution was to go on behind that.
pub const TNPC: Reg = Reg(46);
/// What it has saved of the CPU's state, in the form of [`TSTATE`].
pub const TRAPPED: Reg = Reg(47);

/// How many windows the CPU has. `save` goes to the next one, the first being the one behind the last.
pub const WINDOWS: u64 = 8;

/// The general register of that number: %g0-%g7, %o0-%o7, %l0-%l7, %i0-%i7.
pub const fn r(number: u8) -> Reg {
    Reg(number & 31)
}

/// %o0 to %o7 of that number.
pub const fn o(number: u8) -> Reg {
    Reg(8 + (number & 7))
}

/// Above the end of the stack a caller keeps 16 words for its window and room for the six arguments that come in
/// registers; the others follow.
pub static ELF: Abi = Abi {
    sp: SP,
    result: o(0),
    second_result: None,
    arguments: &[o(0), o(1), o(2), o(3), o(4), o(5)],
    stack_arguments: 176,
    aligned_pairs: false,
    return_address: ReturnAddress::In(RA),
    link_slot: None,
    pointers: Pointers::Code(None),
    names: &NAMES,
    hidden: &HIDDEN,
    // Linux copied nothing here.
    jprobe_stack: 0,
    stack_size: 16384,
};

/// Those of the kernel's own table, in its order, and then some that it has not. It calls i0 to i7 what the probed code calls %o0 to %o7: a trap of the
/// kernel opens a window.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 37] = [
    ("g0", r(0)), ("g1", r(1)), ("g2", r(2)), ("g3", r(3)), ("g4", r(4)), ("g5", r(5)), ("g6", r(6)), ("g7", r(7)),
    ("i0", o(0)), ("i1", o(1)), ("i2", o(2)), ("i3", o(3)), ("i4", o(4)), ("i5", o(5)), ("i6", o(6)), ("i7", o(7)),
    ("tstate", TSTATE), ("pc", PC), ("npc", NPC), ("y", Y), ("lr", o(7)),
    // Ours: what the probed code calls %l0 to %l7, and %i0 to %i7, which are its arguments once it has opened its window.
    ("l0", r(16)), ("l1", r(17)), ("l2", r(18)), ("l3", r(19)), ("l4", r(20)), ("l5", r(21)), ("l6", r(22)), ("l7", r(23)),
    ("in0", r(24)), ("in1", r(25)), ("in2", r(26)), ("in3", r(27)), ("in4", r(28)), ("in5", r(29)), ("in6", r(30)), ("in7", r(31)),
];

/// All windows, and which of them is the current one: what runs in between opens and leaves some.
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

/// How many registers there are in all windows: each has 16 of its own.
pub const WINDOW_REGISTERS: usize = 16 * WINDOWS as usize;
/// The number of the first of them.
pub const FIRST_OF_WINDOWS: u8 = 64;

/// A register of any window, whichever is the current one, in an order that is the machine's own.
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

    /// DV-4: six registers, then the stack behind a window's 16 words and room for the six.
    #[test]
    fn the_seventh_argument_is_on_the_stack() {
        let at = |number| argument(&SPARC64, &[], number).low;
        assert_eq!([0, 5].map(at), [8, 13].map(|reg| Home::Register(Reg(reg))));
        assert_eq!([6, 7].map(at), [Home::Stack(176), Home::Stack(184)]);
    }
}
