//! Decodes RISC-V instructions: length and control flow.
//!
//! The two lowest bits tell the length. Every halfword decodes; [`super::rules`] refuses those that no CPU has. Linux
//! takes encodings of 6 bytes and more for 4 bytes, and so do we, because no CPU with such instructions runs Linux.

use super::{COMPRESSED, LENGTH, Set};
use crate::insn::{Flow, Insn, Undecodable};

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(set: Set, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let truncated = Undecodable { address, truncated: true };
    let length = match bytes.first().ok_or(truncated)? & 3 {
        3 => LENGTH,
        _ => COMPRESSED,
    };
    let bytes = bytes.get(..length).ok_or(truncated)?;
    Ok(Insn::new(address, bytes, flow(set, address, word_of(bytes))))
}

/// The instruction as a number. The upper half of a compressed one is zero.
pub fn word(insn: &Insn) -> u32 {
    word_of(insn.bytes())
}

fn word_of(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b] => u32::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Instructions with `word & mask == value`, and their control flow.
struct FlowRow {
    mask: u32,
    value: u32,
    flow: fn(set: Set, address: u64, word: u32) -> Flow,
}

const fn row(mask: u32, value: u32, flow: fn(Set, u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, flow }
}

fn flow(set: Set, address: u64, word: u32) -> Flow {
    FLOWS.iter().find(|row| word & row.mask == row.value).map_or(Flow::Next, |row| (row.flow)(set, address, word))
}

const AUIPC: u32 = 0x17;
const JALR: u32 = 0x67;

const TRAP: fn(Set, u64, u32) -> Flow = |_, _, _| Flow::Trap;

/// The first row that matches decides.
#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    //  mask         value
    row(0xffff_ffff, 0x0000_0000, TRAP),                                                          // illegal by definition
    row(0x0000_e003, 0x0000_2001, compressed_call),                // c.jal, c.addiw
    row(0x0000_e003, 0x0000_a001, |set, at, word| Flow::Jump(moved(set, at, c_jump(word)))),      // c.j
    row(0x0000_c003, 0x0000_c001, |set, at, word| Flow::Branch(moved(set, at, c_branch(word)))),  // c.beqz, c.bnez
    row(0x0000_ffff, 0x0000_8002, TRAP),                                                          // c.jr of x0: reserved
    row(0x0000_f07f, 0x0000_8002, |_, _, word| by_register(0, register(word, 7))),                // c.jr
    row(0x0000_ffff, 0x0000_9002, TRAP),                                                          // c.ebreak
    row(0x0000_f07f, 0x0000_9002, |_, _, _| Flow::IndirectCall),                                  // c.jalr
    row(0x0000_007f, 0x0000_006f, jump),                           // jal
    row(0x0000_707f, 0x0000_0067, |_, _, word| by_register(register(word, 7), returns_by(word))), // jalr
    row(0x0000_007f, 0x0000_0067, TRAP),                                                          // reserved
    row(0x0000_607f, 0x0000_2063, TRAP),                                                          // reserved
    row(0x0000_007f, 0x0000_0063, |set, at, word| Flow::Branch(moved(set, at, branch(word)))),    // beq, bne, blt, bge, bltu, bgeu
    row(0xffff_ffff, 0x0000_0073, TRAP),                                                          // ecall
    row(0xffff_ffff, 0x0010_0073, TRAP),                                                          // ebreak
    row(0xffff_ffff, 0x0020_0073, TRAP),                                                          // uret
    row(0xffff_ffff, 0x1020_0073, TRAP),                                                          // sret
    row(0xffff_ffff, 0x3020_0073, TRAP),                                                          // mret
    row(0xffff_ffff, 0x7020_0073, TRAP),                                                          // mnret
    row(0xffff_ffff, 0x7b20_0073, TRAP),                                                          // dret
    row(0x0000_001f, 0x0000_001f, TRAP),                                                          // 6 bytes and more
];

/// The target of `jalr` behind the `auipc` that sets its base register.
pub fn far_target(set: Set, before: &Insn, insn: &Insn) -> Option<u64> {
    let (first, second) = (word(before), word(insn));
    let is_pair = first & 0x7f == AUIPC && second & 0x707f == JALR && register(first, 7) == register(second, 15);
    let upper = (first & 0xffff_f000) as i32;
    is_pair.then(|| moved(set, moved(set, before.address, upper), (second as i32) >> 20))
}

fn compressed_call(set: Set, address: u64, word: u32) -> Flow {
    match set {
        Set::Rv32 => Flow::Call(moved(set, address, c_jump(word))),
        Set::Rv64 => Flow::Next,
    }
}

fn jump(set: Set, address: u64, word: u32) -> Flow {
    let target = moved(set, address, far(word));
    if register(word, 7) == 0 { Flow::Jump(target) } else { Flow::Call(target) }
}

/// The control flow of a jump to the address in register `base`, which stores the return address in `link`.
fn by_register(link: u8, base: u8) -> Flow {
    match (link, base) {
        (0, 1) => Flow::Return,
        (0, _) => Flow::IndirectJump,
        _ => Flow::IndirectCall,
    }
}

/// The base register of `jalr` if the offset is 0, otherwise 0.
fn returns_by(word: u32) -> u8 {
    if word >> 20 == 0 { register(word, 15) } else { 0 }
}

/// The register number in five bits from bit `low` on.
pub(super) fn register(word: u32, low: u32) -> u8 {
    (word >> low & 31) as u8
}

/// The address at a distance.
pub(super) fn moved(set: Set, address: u64, distance: i32) -> u64 {
    set.cut(address.wrapping_add_signed(distance.into()))
}

/// Bits `low..low + bits` of the word, moved to bit `to`.
const fn part(word: u32, low: u32, bits: u32, to: u32) -> u32 {
    (word >> low & ((1 << bits) - 1)) << to
}

/// The signed number in the low `bits` bits.
const fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

/// The displacement of `c.j` and `c.jal`.
const fn c_jump(word: u32) -> i32 {
    let scattered = part(word, 12, 1, 11) | part(word, 11, 1, 4) | part(word, 9, 2, 8) | part(word, 8, 1, 10);
    signed(scattered | part(word, 7, 1, 6) | part(word, 6, 1, 7) | part(word, 3, 3, 1) | part(word, 2, 1, 5), 12)
}

/// The displacement of `c.beqz` and `c.bnez`.
const fn c_branch(word: u32) -> i32 {
    let scattered = part(word, 12, 1, 8) | part(word, 10, 2, 3) | part(word, 5, 2, 6);
    signed(scattered | part(word, 3, 2, 1) | part(word, 2, 1, 5), 9)
}

/// The displacement of `jal`.
const fn far(word: u32) -> i32 {
    signed(part(word, 31, 1, 20) | part(word, 21, 10, 1) | part(word, 20, 1, 11) | part(word, 12, 8, 12), 21)
}

/// The displacement of a conditional branch.
const fn branch(word: u32) -> i32 {
    signed(part(word, 31, 1, 12) | part(word, 25, 6, 5) | part(word, 8, 4, 1) | part(word, 7, 1, 11), 13)
}

#[cfg(test)]
mod tests;
