//! Decodes SPARC instructions: control flow and delay slots. Every word decodes. Words that are no instruction are
//! refused by [`super::rules`], or raise their exception where they run.

use super::LENGTH;
use crate::insn::{Flow, Insn, Undecodable};
use crate::mem::ByteOrder;

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let own = bytes.get(..LENGTH).ok_or(Undecodable { address, truncated: true })?;
    let word = ByteOrder::Big.word(own);
    let flow = row_of(word).map_or(Flow::Next, |row| (row.flow)(address, word));
    Ok(Insn::new(address, own, flow))
}

/// The instruction as a number.
pub fn word(insn: &Insn) -> u32 {
    ByteOrder::Big.word(insn.bytes())
}

/// Whether the instruction behind this word is in its delay slot, at least if the branch is taken. An unconditional
/// branch with the annul bit has no delay slot.
pub fn has_delay_slot(word: u32) -> bool {
    row_of(word).is_some_and(|row| row.has_delay_slot) && !(annuls(word) && is_unconditional(word))
}

/// Whether the annul bit is set: the slot runs only if a conditional branch is taken, and never after an unconditional
/// one.
pub fn annuls(word: u32) -> bool {
    word >> 30 == 0 && word >> 29 & 1 != 0
}

/// Whether a branch is taken always or never. Branches on a register have their condition elsewhere.
fn is_unconditional(word: u32) -> bool {
    word & BRANCH_ON_REGISTER.0 != BRANCH_ON_REGISTER.1 && word >> 25 & 7 == 0
}

/// Instructions with `word & mask == value`, and their control flow.
struct FlowRow {
    mask: u32,
    value: u32,
    has_delay_slot: bool,
    flow: fn(address: u64, word: u32) -> Flow,
}

/// The first row that matches decides.
fn row_of(word: u32) -> Option<&'static FlowRow> {
    FLOWS.iter().find(|row| word & row.mask == row.value)
}

const fn delayed(mask: u32, value: u32, flow: fn(u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, has_delay_slot: true, flow }
}

const fn plain(mask: u32, value: u32, flow: fn(u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, has_delay_slot: false, flow }
}

/// Mask of op and op2.
pub(super) const OP2: u32 = 0xc1c0_0000;
/// Mask of op, op2 and the condition.
pub(super) const OP2_COND: u32 = 0xdfc0_0000;
/// Mask of op, op2, the condition and the annul bit.
pub(super) const OP2_COND_A: u32 = 0xffc0_0000;
/// Mask of op, op2 and the low bit of cc, which is 0 for icc and xcc.
pub(super) const OP2_CC: u32 = 0xc1d0_0000;
/// Mask of op and op3.
pub(super) const OP3: u32 = 0xc1f8_0000;
/// Mask of op, op3 and rd.
pub(super) const OP3_RD: u32 = 0xfff8_0000;
/// Mask of op, op3 and rs1.
pub(super) const OP3_RS1: u32 = 0xc1ff_c000;
/// Mask and value of all branches on a register.
const BRANCH_ON_REGISTER: (u32, u32) = (0xd1c0_0000, 0x00c0_0000);

const TRAP: fn(u64, u32) -> Flow = |_, _| Flow::Trap;
const NEXT: fn(u64, u32) -> Flow = |_, _| Flow::Next;
const NEAR_22: fn(u64, u32) -> Flow = |at, word| Flow::Branch(near(at, word, 22));
const NEAR_19: fn(u64, u32) -> Flow = |at, word| Flow::Branch(near(at, word, 19));
const ALWAYS_22: fn(u64, u32) -> Flow = |at, word| Flow::Jump(near(at, word, 22));
const ALWAYS_19: fn(u64, u32) -> Flow = |at, word| Flow::Jump(near(at, word, 19));
const ON_REGISTER: fn(u64, u32) -> Flow = |at, word| Flow::Branch(near(at, word >> 6 & 0xc000 | word & 0x3fff, 16));
/// Skips the delay slot.
const OVER: fn(u64, u32) -> Flow = |at, _| Flow::Jump(at.wrapping_add(2 * LENGTH as u64));

#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    //      mask         value
    delayed(OP2_COND_A, 0x2080_0000, OVER),                                        // bn,a
    plain  (OP2_COND,   0x0080_0000, NEXT),                                        // bn
    delayed(OP2_COND,   0x1080_0000, ALWAYS_22),                                   // ba
    delayed(OP2,        0x0080_0000, NEAR_22),                                     // Bicc
    delayed(0xffd0_0000, 0x2040_0000, OVER),                                      // bn,a %icc, %xcc
    plain  (0xdfd0_0000, 0x0040_0000, NEXT),                                       // bn %icc, %xcc
    delayed(0xdfd0_0000, 0x1040_0000, ALWAYS_19),                                  // ba %icc, %xcc
    delayed(OP2_CC,     0x0040_0000, NEAR_19),                                     // BPcc
    delayed(OP2_COND,   0x02c0_0000, ON_REGISTER),                                 // brz
    delayed(OP2_COND,   0x04c0_0000, ON_REGISTER),                                 // brlez
    delayed(OP2_COND,   0x06c0_0000, ON_REGISTER),                                 // brlz
    delayed(OP2_COND,   0x0ac0_0000, ON_REGISTER),                                 // brnz
    delayed(OP2_COND,   0x0cc0_0000, ON_REGISTER),                                 // brgz
    delayed(OP2_COND,   0x0ec0_0000, ON_REGISTER),                                 // brgez
    delayed(OP2_COND_A, 0x2180_0000, OVER),                                        // fbn,a
    plain  (OP2_COND,   0x0180_0000, NEXT),                                        // fbn
    delayed(OP2_COND,   0x1180_0000, ALWAYS_22),                                   // fba
    delayed(OP2,        0x0180_0000, NEAR_22),                                     // FBfcc
    delayed(OP2_COND_A, 0x2140_0000, OVER),                                        // fbn,a %fcc
    plain  (OP2_COND,   0x0140_0000, NEXT),                                        // fbn %fcc
    delayed(OP2_COND,   0x1140_0000, ALWAYS_19),                                   // fba %fcc
    delayed(OP2,        0x0140_0000, NEAR_19),                                     // FBPfcc
    delayed(0xc000_0000, 0x4000_0000, |at, word| Flow::Call(near(at, word, 30))),  // call
    delayed(0xffff_ffff, 0x81c3_e008, |_, _| Flow::Return),                        // retl
    delayed(0xffff_ffff, 0x81c3_e00c, |_, _| Flow::Return),                        // retl, behind a structure's size
    delayed(0xffff_ffff, 0x81c7_e008, |_, _| Flow::Return),                        // ret
    delayed(0xffff_ffff, 0x81c7_e00c, |_, _| Flow::Return),                        // ret, behind a structure's size
    delayed(OP3_RD,     0x81c0_0000, |_, _| Flow::IndirectJump),                   // jmp
    delayed(OP3,        0x81c0_0000, |_, _| Flow::IndirectCall),                   // jmpl
    delayed(OP3,        0x81c8_0000, |_, _| Flow::Return),                         // return
    plain  (0xdff8_0000, 0x81d0_0000, NEXT),                                       // tn
    plain  (OP3,        0x81d0_0000, TRAP),                                        // Tcc
    plain  (OP3_RD,     0x81f0_0000, TRAP),                                        // done
    plain  (OP3_RD,     0x83f0_0000, TRAP),                                        // retry
];

/// The target of a branch; the low `bits` bits are the displacement in words.
fn near(address: u64, word: u32, bits: u32) -> u64 {
    let unused = 32 - bits;
    address.wrapping_add_signed(i64::from((word << unused) as i32 >> unused) << 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flow::*;

    const HERE: u64 = 0x0040_1ff0;

    /// KP-2, KP-5: displacements at both ends of their range, every kind of control flow, and delay slots.
    #[test]
    fn instructions_decode_to_their_target() {
        let at = |distance: i64| HERE.wrapping_add_signed(distance);
        #[rustfmt::skip]
        let cases: &[(&str, u32, bool, Flow)] = &[
            ("bn",                         0x0080_0004, false, Next),
            ("bn,a",                       0x2080_0004, false, Jump(at(8))),
            ("ba",                         0x1080_0004, true,  Jump(at(16))),
            ("ba,a, the farthest",         0x309f_ffff, false, Jump(at(0x7f_fffc))),
            ("ba,a, the farthest back",    0x30a0_0000, false, Jump(at(-0x80_0000))),
            ("be",                         0x0280_0004, true,  Branch(at(16))),
            ("bne,a",                      0x32bf_ffff, true,  Branch(at(-4))),
            ("bn %icc",                    0x0048_0004, false, Next),
            ("bn,a %xcc",                  0x2068_0004, false, Jump(at(8))),
            ("ba %xcc",                    0x1068_0004, true,  Jump(at(16))),
            ("ba,a,pt %xcc",               0x3068_0004, false, Jump(at(16))),
            ("be %icc, the farthest",      0x0243_ffff, true,  Branch(at(0xf_fffc))),
            ("be,pt %xcc, the farthest back", 0x026c_0000, true, Branch(at(-0x10_0000))),
            ("no condition codes",         0x0250_0004, false, Next),
            ("brz, the farthest",          0x02d2_3fff, true,  Branch(at(0x7fff << 2))),
            ("brz, the farthest back",     0x02e2_0000, true,  Branch(at(-0x8000 << 2))),
            ("brlez",                      0x04c2_0004, true,  Branch(at(16))),
            ("brlz,a",                     0x26c2_0004, true,  Branch(at(16))),
            ("brnz",                       0x0ac2_0004, true,  Branch(at(16))),
            ("brgz",                       0x0cc2_0004, true,  Branch(at(16))),
            ("brgez",                      0x0ec2_0004, true,  Branch(at(16))),
            ("no condition of a register", 0x00c2_0004, false, Next),
            ("nor this",                   0x08c2_0004, false, Next),
            ("fbn",                        0x0180_0004, false, Next),
            ("fbn,a",                      0x2180_0004, false, Jump(at(8))),
            ("fba",                        0x1180_0004, true,  Jump(at(16))),
            ("fba,a",                      0x3180_0004, false, Jump(at(16))),
            ("fbe",                        0x1380_0004, true,  Branch(at(16))),
            ("fbn %fcc1",                  0x0158_0004, false, Next),
            ("fbn,a %fcc1",                0x2158_0004, false, Jump(at(8))),
            ("fba %fcc1",                  0x1158_0004, true,  Jump(at(16))),
            ("fbe,a %fcc3",                0x3378_0004, true,  Branch(at(16))),
            ("call, the farthest",         0x5fff_ffff, true,  Call(at(0x7fff_fffc))),
            ("call, the farthest back",    0x6000_0000, true,  Call(at(-0x8000_0000))),
            ("retl",                       0x81c3_e008, true,  Return),
            ("jmp %o7+12",                 0x81c3_e00c, true,  Return),
            ("ret",                        0x81c7_e008, true,  Return),
            ("jmp %i7+12",                 0x81c7_e00c, true,  Return),
            ("jmp %g1",                    0x81c0_4000, true,  IndirectJump),
            ("call %g1",                   0x9fc0_4000, true,  IndirectCall),
            ("jmpl %g1,%g2",               0x85c0_4000, true,  IndirectCall),
            ("return %i7+8",               0x81cf_e008, true,  Return),
            ("tn",                         0x81d0_2005, false, Next),
            ("ta 0x70",                    0x91d0_2070, false, Trap),
            ("te %xcc,5",                  0x83d0_3005, false, Trap),
            ("done",                       0x81f0_0000, false, Trap),
            ("retry",                      0x83f0_0000, false, Trap),
            ("illtrap",                    0x0000_0000, false, Next),
            ("sethi, a nop",               0x0100_0000, false, Next),
            ("save",                       0x9de3_bf40, false, Next),
            ("rd %pc",                     0x9341_4000, false, Next),
            ("ldx",                        0xd05b_a7ff, false, Next),
        ];
        for (what, word, is_delayed, flow) in cases {
            let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
            assert_eq!((insn.bytes().len(), insn.flow), (LENGTH, *flow), "{what}");
            assert_eq!(has_delay_slot(*word), *is_delayed, "{what}");
        }
    }

    /// KP-5
    #[test]
    fn truncated_bytes_do_not_decode() {
        let word = 0x0100_0000_u32.to_be_bytes();
        for length in 0..4 {
            assert_eq!(decode(HERE, &word[..length]), Err(Undecodable { address: HERE, truncated: true }), "{length}");
        }
    }
}
