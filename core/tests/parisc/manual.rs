//! Runs single instructions and short programs of PA-RISC, and has the conditions by arithmetic of its own that follows the manual.

// Each test uses a part of it.
#![allow(dead_code)]

pub mod host;

pub use host::Machine;

use trapline_core::parisc::State;

pub const RAM: usize = 0x2000;
/// The address of the instruction.
pub const AT: u32 = 0x1000;
/// The address at which a delay slot goes on, and the target of branches forwards.
pub const TARGET: u32 = 0x1100;
/// The target of branches backwards.
pub const BEFORE: u32 = 0xf00;
/// Registers of the instruction.
pub const A: u32 = 4;
pub const B: u32 = 5;
pub const T: u32 = 6;
/// Numbers at which results change.
pub const VALUES: [u32; 10] =
    [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff, 0x0900_9900, 0x1234_5678, 0xf0f0_f0f0];

/// `ldi 1,register`.
pub fn mark(register: u32) -> u32 {
    0x0d << 26 | register << 16 | 2
}

/// Runs words at addresses, from [`AT`] on, until an exception, which is `break` where no word is. The state is prepared first.
pub fn run(words: &[(u32, u32)], prepare: impl Fn(&State)) -> Machine {
    let (mut core, mut machine) = Machine::new(RAM, ());
    for (at, word) in words {
        machine.ram.put(*at, *word);
    }
    core.state().line.count.set(i64::MIN / 2);
    core.state().go_to(AT);
    prepare(core.state());
    core.run(&mut machine);
    machine
}

/// Whether a condition holds: that of a sum or a difference whose exact signed value is `exact`. `is_below` is that of an unsigned
/// one: no carry, or a borrow.
pub fn holds(condition: u32, exact: i64, is_below: bool) -> bool {
    let value = exact as u32;
    let found = match condition & 7 {
        0 => false,
        1 => value == 0,
        2 => exact < 0,
        3 => exact < 0 || value == 0,
        4 => is_below,
        5 => is_below || value == 0,
        6 => i64::from(exact as i32) != exact,
        _ => value & 1 != 0,
    };
    found != (condition >= 8)
}

pub fn signed(value: u32) -> i64 {
    i64::from(value as i32)
}

/// A bit of a number, as the manual counts bits.
pub fn bit(value: u32, number: u32) -> u32 {
    value >> (31 - number) & 1
}

/// Whether a condition of shifts holds: never, =, <, OD, and negated.
pub fn shift_holds(condition: u32, value: u32) -> bool {
    let found = match condition & 3 {
        0 => false,
        1 => value == 0,
        2 => signed(value) < 0,
        _ => value & 1 != 0,
    };
    found != (condition >= 4)
}
