//! Decodes ARM instructions: length and control flow. Every word decodes; [`super::rules`] refuses those that no CPU
//! has.

use super::{LENGTH, Set};
use crate::insn::{Flow, Insn, Undecodable};

/// Decodes one A32 instruction at the start of `bytes`, which may be longer than it.
pub fn a32(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let bytes = bytes.get(..LENGTH).ok_or(Undecodable { address, truncated: true })?;
    Ok(Insn::new(address, bytes, flow(A32, address, word_of(Set::A32, bytes))))
}

/// Decodes one Thumb instruction. Ignores the Thumb bit of the address.
pub fn thumb(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let address = address & !1;
    let cut = Undecodable { address, truncated: true };
    let first = bytes.get(..2).ok_or(cut)?;
    let is_wide = word_of(Set::Thumb, first) >= WIDE;
    let (rows, bytes) = if is_wide { (T32, bytes.get(..LENGTH).ok_or(cut)?) } else { (T16, first) };
    Ok(Insn::new(address, bytes, flow(rows, address, word_of(Set::Thumb, bytes))))
}

/// First halfwords from this value on are followed by a second one.
const WIDE: u32 = 0xe800;

/// An instruction as a number, as the tables have it; 0 if its length is wrong for the set.
pub fn word(set: Set, insn: &Insn) -> u32 {
    word_of(set, insn.bytes())
}

/// In T32 the first halfword is the upper one.
fn word_of(set: Set, bytes: &[u8]) -> u32 {
    match (set, bytes) {
        (Set::A32, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        (Set::Thumb, &[a, b, c, d]) => u32::from_le_bytes([c, d, a, b]),
        (Set::Thumb, &[a, b]) => u16::from_le_bytes([a, b]).into(),
        _ => 0,
    }
}

/// Instructions with `word & mask == value`, and their control flow.
struct FlowRow {
    mask: u32,
    value: u32,
    flow: fn(address: u32, word: u32) -> Flow,
}

const fn row(mask: u32, value: u32, flow: fn(u32, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, flow }
}

/// The first row that matches decides.
fn flow(rows: &[FlowRow], address: u64, word: u32) -> Flow {
    rows.iter().find(|row| word & row.mask == row.value).map_or(Flow::Next, |row| (row.flow)(address as u32, word))
}

const NEXT: fn(u32, u32) -> Flow = |_, _| Flow::Next;
const TRAP: fn(u32, u32) -> Flow = |_, _| Flow::Trap;
const RETURN: fn(u32, u32) -> Flow = |_, _| Flow::Return;
const INDIRECT: fn(u32, u32) -> Flow = |_, _| Flow::IndirectJump;
const CALL_REGISTER: fn(u32, u32) -> Flow = |_, _| Flow::IndirectCall;

#[rustfmt::skip]
static A32: &[FlowRow] = &[
    //  mask         value
    row(0xfe00_0000, 0xfa00_0000, |at, word| Flow::Call(target_24(at, word) + u64::from(word >> 23 & 2))), // blx
    row(0xfe50_0000, 0xf810_0000, TRAP),                                          // rfe
    row(0xf000_0000, 0xf000_0000, NEXT),
    row(0x0fff_ffff, 0x012f_ff1e, RETURN),                                        // bx lr
    row(0x0ff0_00d0, 0x0120_0010, |_, word| if word >> 5 & 1 == 0 { Flow::IndirectJump } else { Flow::IndirectCall }), // bx, blx
    row(0x0ff0_00f0, 0x0120_0020, INDIRECT),                                      // bxj
    row(0x0f90_00f0, 0x0100_0070, TRAP),                                          // bkpt, hvc, smc
    row(0x0ff0_00f0, 0x0160_0060, TRAP),                                          // eret
    row(0x0f90_0080, 0x0100_0000, NEXT),                                          // mrs, msr, clz, qadd
    row(0x0e00_0090, 0x0000_0090, NEXT),                                          // multiply, extra load and store
    row(0x0f90_0090, 0x0100_0080, NEXT),                                          // halfword multiply
    row(0x0e10_f000, 0x0010_f000, TRAP),                                          // movs pc: return from an exception
    row(0x0fff_ffff, 0x01a0_f00e, RETURN),                                        // mov pc, lr
    row(0x0e00_f000, 0x0000_f000, INDIRECT),                                      // computed
    row(0x0f90_0000, 0x0300_0000, NEXT),                                          // movw, movt, hints, msr
    row(0x0e10_f000, 0x0210_f000, TRAP),
    row(0x0e00_f000, 0x0200_f000, INDIRECT),
    row(0x0ff0_00f0, 0x07f0_00f0, TRAP),                                          // udf
    row(0x0e00_0010, 0x0600_0010, NEXT),                                          // media
    row(0x0fff_ffff, 0x049d_f004, RETURN),                                        // ldr pc, [sp], #4
    row(0x0c50_f000, 0x0410_f000, INDIRECT),                                      // ldr pc
    row(0x0e50_8000, 0x0850_8000, TRAP),                                          // ldm ^ with pc
    row(0x0e1f_8000, 0x081d_8000, RETURN),                                        // ldm sp with pc
    row(0x0e1f_8000, 0x081b_8000, RETURN),                                        // ldm fp with pc
    row(0x0e10_8000, 0x0810_8000, INDIRECT),                                      // ldm with pc
    row(0x0f00_0000, 0x0b00_0000, |at, word| Flow::Call(target_24(at, word))),    // bl
    row(0xff00_0000, 0xea00_0000, |at, word| Flow::Jump(target_24(at, word))),    // b
    row(0x0f00_0000, 0x0a00_0000, |at, word| Flow::Branch(target_24(at, word))),  // b on a condition
    row(0x0f00_0000, 0x0f00_0000, TRAP),                                          // svc
];

#[rustfmt::skip]
static T16: &[FlowRow] = &[
    row(0xffff, 0x4770, RETURN),                                                  // bx lr
    row(0xff80, 0x4700, INDIRECT),                                                // bx
    row(0xff80, 0x4780, CALL_REGISTER),                                           // blx
    row(0xffff, 0x46f7, RETURN),                                                  // mov pc, lr
    row(0xfd87, 0x4487, INDIRECT),                                                // add pc, mov pc
    row(0xf500, 0xb100, |at, word| Flow::Branch(ahead(at, word >> 2 & 0x3e | word >> 3 & 0x40))), // cbz, cbnz
    row(0xff00, 0xbd00, RETURN),                                                  // pop with pc
    row(0xff00, 0xbe00, TRAP),                                                    // bkpt
    row(0xfe00, 0xde00, TRAP),                                                    // udf, svc
    row(0xf000, 0xd000, |at, word| Flow::Branch(ahead(at, signed(word, 8) << 1))), // b on a condition
    row(0xf800, 0xe000, |at, word| Flow::Jump(ahead(at, signed(word, 11) << 1))), // b
];

#[rustfmt::skip]
static T32: &[FlowRow] = &[
    row(0xffd0_0000, 0xe810_0000, TRAP),                                          // rfedb
    row(0xffd0_0000, 0xe990_0000, TRAP),                                          // rfeia
    row(0xfe5f_8000, 0xe81d_8000, RETURN),                                        // ldm sp with pc
    row(0xfe50_8000, 0xe810_8000, INDIRECT),                                      // ldm with pc
    row(0xfff0_00e0, 0xe8d0_0000, INDIRECT),                                      // tbb, tbh
    row(0xffff_ffff, 0xf85d_fb04, RETURN),                                        // pop {pc}
    row(0xff70_f000, 0xf850_f000, INDIRECT),                                      // ldr pc
    row(0xfff0_d000, 0xf3c0_8000, INDIRECT),                                      // bxj
    row(0xfff0_d000, 0xf3d0_8000, TRAP),                                          // subs pc, lr
    row(0xffe0_d000, 0xf7e0_8000, TRAP),                                          // hvc, smc, udf
    row(0xfb80_d000, 0xf380_8000, NEXT),                                          // hints, barriers, msr, mrs, cps
    row(0xf800_d000, 0xf000_8000, |at, word| Flow::Branch(ahead(at, distance_20(word)))), // b on a condition
    row(0xf800_d000, 0xf000_9000, |at, word| Flow::Jump(ahead(at, distance_24(word)))),   // b
    row(0xf800_d000, 0xf000_d000, |at, word| Flow::Call(ahead(at, distance_24(word)))),   // bl
    row(0xf800_d001, 0xf000_c000, |at, word| Flow::Call(ahead(at & !3, distance_24(word)))), // blx
];

/// The target of A32 `b`, `bl` and `blx`.
fn target_24(address: u32, word: u32) -> u64 {
    address.wrapping_add(Set::A32.bias()).wrapping_add(signed(word, 24) << 2).into()
}

/// The target at this distance from the pc as Thumb code reads it.
fn ahead(address: u32, distance: u32) -> u64 {
    address.wrapping_add(Set::Thumb.bias()).wrapping_add(distance).into()
}

/// The displacement of T32's conditional `b`.
fn distance_20(word: u32) -> u32 {
    let (sign, high, low) = (word >> 26 & 1, word >> 16 & 0x3f, word & 0x7ff);
    signed(sign << 19 | (word >> 11 & 1) << 18 | (word >> 13 & 1) << 17 | high << 11 | low, 20) << 1
}

/// The displacement of T32's `b`, `bl` and `blx`.
fn distance_24(word: u32) -> u32 {
    let (sign, high, low) = (word >> 26 & 1, word >> 16 & 0x3ff, word & 0x7ff);
    let like_sign = |bit: u32| (word >> bit & 1 ^ sign) ^ 1;
    signed(sign << 23 | like_sign(13) << 22 | like_sign(11) << 21 | high << 11 | low, 24) << 1
}

/// Sign-extends the low `bits` bits.
fn signed(word: u32, bits: u32) -> u32 {
    ((word << (32 - bits)) as i32 >> (32 - bits)) as u32
}

#[cfg(test)]
mod tests;
