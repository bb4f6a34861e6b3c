//! The model of z/Architecture, after the Principles of Operation: the lowcore, and the exchange of PSWs.

use super::{Case, Changes, Numbers, RAISES, State, WAITS, bit, registers};
use crate::lab::{DATA, FREE, HANDLERS};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;

const LOWCORE: u64 = FREE;
const LOWCORE_BYTES: usize = 0x200;
// Bits of a PSW's mask.
const TRANSLATED: u64 = 1 << 58;
const CHECKS: u64 = 1 << 50;
const PROBLEM: u64 = 1 << 48;
const HOME: u64 = 3 << 46;
const CONDITION: u64 = 3 << 44;
const ARITHMETIC: u64 = 15 << 40;
const WIDTHS: [u64; 3] = [3 << 31, 1 << 31, 0];

/// The interruption: a supervisor call, a program interruption with its code, or one by an access, with the code and
/// whether it is a store.
#[derive(Clone, Copy)]
enum What {
    Call,
    Program(u64),
    Access(u64, bool),
}

/// An instruction that raises an interruption. An access uses the address in r4.
struct Raise {
    name: &'static str,
    bytes: &'static [u8],
    what: What,
    in_problem: bool,
}

const fn raise(name: &'static str, bytes: &'static [u8], what: What) -> Raise {
    Raise { name, bytes, what, in_problem: false }
}

const fn privileged(name: &'static str, bytes: &'static [u8]) -> Raise {
    Raise { name, bytes, what: What::Program(2), in_problem: true }
}

const SEGMENT: u64 = 0x10;
const PAGE: u64 = 0x11;

#[rustfmt::skip]
const RAISING: &[Raise] = &[
    raise("svc 0x37",   &[0x0a, 0x37],                   What::Call),
    raise("0000",       &[0x00, 0x00],                   What::Program(1)),
    raise("b2ff",       &[0xb2, 0xff, 0, 0],             What::Program(1)),
    raise("e3 .. ff",   &[0xe3, 0, 0, 0, 0, 0xff],       What::Program(1)),
    raise("dr odd",     &[0x1d, 0x35],                   What::Program(6)),
    raise("lpq odd",    &[0xe3, 0x30, 0x60, 0, 0, 0x8f], What::Program(6)),
    raise("dr by 0",    &[0x1d, 0x25],                   What::Program(9)),
    raise("dlgr by 0",  &[0xb9, 0x87, 0, 0x25],          What::Program(9)),
    privileged("ssm",   &[0x80, 0, 0x60, 0]),
    privileged("ptlb",  &[0xb2, 0x0d, 0, 0]),
    privileged("spx",   &[0xb2, 0x10, 0x60, 0]),
    privileged("stap",  &[0xb2, 0x12, 0x60, 0]),
    privileged("lpswe", &[0xb2, 0xb2, 0x60, 0]),
    privileged("lctlg", &[0xeb, 0x11, 0x60, 0, 0, 0x2f]),
    privileged("sigp",  &[0xae, 0x24, 0, 5]),
    privileged("diag",  &[0x83, 0x24, 0, 5]),
    privileged("servc", &[0xb2, 0x20, 0, 0x24]),
    raise("l",          &[0x58, 0x20, 0x40, 0],          What::Access(PAGE, false)),
    raise("lg",         &[0xe3, 0x20, 0x40, 0, 0, 0x04], What::Access(PAGE, false)),
    raise("st",         &[0x50, 0x20, 0x40, 0],          What::Access(PAGE, true)),
    raise("mvi",        &[0x92, 0x55, 0x40, 0],          What::Access(PAGE, true)),
    raise("lg far",     &[0xe3, 0x20, 0x40, 0, 0, 0x04], What::Access(SEGMENT, false)),
    raise("stg far",    &[0xe3, 0x20, 0x40, 0, 0, 0x24], What::Access(SEGMENT, true)),
];

fn psw(mask: u64, address: u64) -> Vec<u8> {
    [mask.to_be_bytes(), address.to_be_bytes()].concat()
}

/// Decodes a case.
pub fn case(numbers: &mut Numbers<'_>) -> Case {
    let Raise { name, bytes, what, in_problem } = numbers.pick(&RAISING.iter().collect::<Vec<_>>());
    let (name, what) = (*name, *what);
    let is_far = matches!(what, What::Access(SEGMENT, _));
    let is_store = matches!(what, What::Access(_, true));
    let width = numbers.pick(&WIDTHS);
    let mode = bit(numbers, HOME) | bit(numbers, CHECKS) | if *in_problem { PROBLEM } else { bit(numbers, PROBLEM) };
    let mask = TRANSLATED | mode | width | numbers.any() & (CONDITION | ARITHMETIC);
    let handler = TRANSLATED | bit(numbers, HOME) | numbers.any() & (CONDITION | ARITHMETIC) | WIDTHS[0];
    let nowhere = 8 * numbers.below(16) as u64 + if is_far { 0x0088_0000 } else { DATA + 0x3000 };
    let is_executed = numbers.one_in(4);
    let target = RAISES + 0x40;
    // ex 0,0(%r7), whose length is that of the interruption.
    let code = if is_executed { vec![0x44, 0x00, 0x70, 0x00] } else { bytes.to_vec() };
    let (length, operand) = (code.len() as u64, u64::from(bytes[1]));
    let model = move |before: &State| {
        let mut changes = Changes::default();
        let mut put = |at: u64, bytes: Vec<u8>| changes.memory.push((LOWCORE + at, bytes));
        let old = match what {
            What::Call => {
                put(0x88, ((length << 16 | operand) as u32).to_be_bytes().to_vec());
                0x140
            }
            What::Program(code) | What::Access(code, _) => {
                put(0x8c, ((length << 16 | code) as u32).to_be_bytes().to_vec());
                // The breaking-event address is kept as 0 (docs/unicorn.md).
                put(0x110, vec![0; 8]);
                0x150
            }
        };
        let is_nullified = matches!(what, What::Access(..));
        if is_nullified {
            let id = nowhere & !0xfff | if is_store { 0x400 } else { 0x800 } | mask >> 46 & 3;
            put(0xa8, id.to_be_bytes().to_vec());
        }
        put(old, psw(before["psw.mask"], if is_nullified { RAISES } else { RAISES + length }));
        changes.set("psw.mask", handler);
        changes.set("psw.addr", HANDLERS);
        changes
    };
    let own = [(Reg(4), nowhere), (Reg(5), 0), (Reg(6), DATA), (Reg(7), target)];
    Case {
        name: format!("{name}{}, mask {mask:016x}", if is_executed { " by ex" } else { "" }),
        // lpswe 0(%r6)
        front: vec![0xb2, 0xb2, 0x60, 0x00],
        front_registers: vec![(Reg(6), DATA)],
        registers: registers(Arch::S390x, numbers, &own),
        memory: vec![
            (DATA, psw(mask, WAITS)),
            (LOWCORE + 0x1c0, psw(handler, HANDLERS)),
            (LOWCORE + 0x1d0, psw(handler, HANDLERS)),
            (target, bytes.to_vec()),
        ],
        code,
        entry: RAISES,
        model: Box::new(model),
        written: Some((LOWCORE, LOWCORE_BYTES)),
    }
}
