//! Decodes MIPS instructions: control flow and delay slots. Every word decodes; [`super::rules`] refuses those that no
//! CPU has.

use super::{LENGTH, Set};
use crate::insn::{Flow, Insn, Undecodable};

/// Decodes one instruction at the start of `bytes`, which may be longer than it. A branch includes its delay slot.
pub fn decode(set: Set, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let cut = Undecodable { address, truncated: true };
    let own = bytes.get(..LENGTH).ok_or(cut)?;
    let word = set.word(own);
    let Some(row) = row_of(word) else { return Ok(Insn::new(address, own, Flow::Next)) };
    let bytes = if row.has_delay_slot { bytes.get(..2 * LENGTH).ok_or(cut)? } else { own };
    let flow = match (row.flow)(address, word) {
        Flow::Jump(target) => Flow::Jump(set.cut(target)),
        Flow::Branch(target) => Flow::Branch(set.cut(target)),
        Flow::Call(target) => Flow::Call(set.cut(target)),
        flow => flow,
    };
    Ok(Insn::new(address, bytes, flow))
}

/// Whether the instruction behind this word is in its delay slot.
pub fn has_delay_slot(word: u32) -> bool {
    row_of(word).is_some_and(|row| row.has_delay_slot)
}

/// The instruction's word, without its delay slot.
pub fn word(set: Set, insn: &Insn) -> u32 {
    set.word(insn.bytes().get(..LENGTH).unwrap_or_default())
}

/// The instruction in the delay slot, if there is one.
pub fn delay_slot_of(insn: &Insn) -> Option<Insn> {
    let slot = insn.bytes().get(LENGTH..).filter(|slot| !slot.is_empty())?;
    Some(Insn::new(insn.address.wrapping_add(LENGTH as u64), slot, Flow::Next))
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

/// A row of instructions with a delay slot.
const fn delayed(mask: u32, value: u32, flow: fn(u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, has_delay_slot: true, flow }
}

/// A row of instructions without one.
const fn plain(mask: u32, value: u32, flow: fn(u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, has_delay_slot: false, flow }
}

const TRAP: fn(u64, u32) -> Flow = |_, _| Flow::Trap;
const BRANCH: fn(u64, u32) -> Flow = |at, word| Flow::Branch(near(at, word));
const JUMP: fn(u64, u32) -> Flow = |at, word| Flow::Jump(near(at, word));
const CALL: fn(u64, u32) -> Flow = |at, word| Flow::Call(near(at, word));
/// `beq` of a register and itself is always taken.
const COMPARE: fn(u64, u32) -> Flow =
    |at, word| if word >> 21 & 31 == word >> 16 & 31 { JUMP(at, word) } else { BRANCH(at, word) };

#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    //      mask         value
    delayed(0xffff_f83f, 0x03e0_0008, |_, _| Flow::Return),                    // jr ra
    delayed(0xffff_f83f, 0x03e0_0009, |_, _| Flow::Return),                    // jalr zero,ra
    delayed(0xfc00_003f, 0x0000_0008, |_, _| Flow::IndirectJump),              // jr, jr.hb
    delayed(0xfc00_f83f, 0x0000_0009, |_, _| Flow::IndirectJump),              // jalr zero
    delayed(0xfc00_003f, 0x0000_0009, |_, _| Flow::IndirectCall),              // jalr, jalr.hb
    plain  (0xfc00_003f, 0x0000_000c, TRAP),                                   // syscall
    plain  (0xfc00_003f, 0x0000_000d, TRAP),                                   // break
    plain  (0xfc00_003f, 0x7000_003f, TRAP),                                   // sdbbp
    delayed(0xfc1f_0000, 0x0400_0000, BRANCH),                                 // bltz
    delayed(0xffff_0000, 0x0401_0000, JUMP),                                   // bgez zero: always
    delayed(0xfc1f_0000, 0x0401_0000, BRANCH),                                 // bgez
    delayed(0xfc1f_0000, 0x0402_0000, BRANCH),                                 // bltzl
    delayed(0xfc1f_0000, 0x0403_0000, BRANCH),                                 // bgezl
    delayed(0xfc1f_0000, 0x0410_0000, CALL),                                   // bltzal: maybe not taken
    delayed(0xfc1f_0000, 0x0411_0000, CALL),                                   // bgezal, bal
    delayed(0xfc1f_0000, 0x0412_0000, CALL),                                   // bltzall
    delayed(0xfc1f_0000, 0x0413_0000, CALL),                                   // bgezall
    delayed(0xfc1f_0000, 0x041c_0000, BRANCH),                                 // bposge32
    delayed(0xfc00_0000, 0x0800_0000, |at, word| Flow::Jump(far(at, word))),   // j
    delayed(0xfc00_0000, 0x0c00_0000, |at, word| Flow::Call(far(at, word))),   // jal
    delayed(0xfc00_0000, 0x7400_0000, |at, word| Flow::Call(far(at, word))),   // jalx
    delayed(0xfc00_0000, 0x1000_0000, COMPARE),                                // beq
    delayed(0xfc00_0000, 0x1400_0000, BRANCH),                                 // bne
    delayed(0xfc00_0000, 0x1800_0000, BRANCH),                                 // blez
    delayed(0xfc00_0000, 0x1c00_0000, BRANCH),                                 // bgtz
    delayed(0xfc00_0000, 0x5000_0000, COMPARE),                                // beql
    delayed(0xfc00_0000, 0x5400_0000, BRANCH),                                 // bnel
    delayed(0xfc00_0000, 0x5800_0000, BRANCH),                                 // blezl
    delayed(0xfc00_0000, 0x5c00_0000, BRANCH),                                 // bgtzl
    delayed(0xffe0_0000, 0x4500_0000, BRANCH),                                 // bc1f, bc1t, bc1fl, bc1tl
    delayed(0xffe0_0000, 0x4520_0000, BRANCH),                                 // bc1any2, and bc1eqz of release 6
    delayed(0xffe0_0000, 0x4540_0000, BRANCH),                                 // bc1any4
    delayed(0xffe0_0000, 0x4560_0000, BRANCH),                                 // bz.v
    delayed(0xffe0_0000, 0x45a0_0000, BRANCH),                                 // bc1nez of release 6
    delayed(0xffe0_0000, 0x45e0_0000, BRANCH),                                 // bnz.v
    delayed(0xff00_0000, 0x4700_0000, BRANCH),                                 // bz, bnz of vectors
    delayed(0xffe0_0000, 0x4900_0000, BRANCH),                                 // bc2f, bc2t, bc2fl, bc2tl
    delayed(0xffe0_0000, 0x4920_0000, BRANCH),                                 // bc2eqz of release 6
    delayed(0xffe0_0000, 0x49a0_0000, BRANCH),                                 // bc2nez of release 6
    plain  (0xfe00_003f, 0x4200_0018, TRAP),                                   // eret
    plain  (0xfe00_003f, 0x4200_001f, TRAP),                                   // deret
];

/// The target of `j` and `jal`, in the 256 MiB segment of the delay slot.
fn far(address: u64, word: u32) -> u64 {
    address.wrapping_add(LENGTH as u64) & !(SEGMENT - 1) | u64::from(word & 0x03ff_ffff) << 2
}

/// The alignment and size of the segment that `j` and `jal` reach.
pub const SEGMENT: u64 = 256 << 20;

/// The target of a branch. The displacement counts from the delay slot.
fn near(address: u64, word: u32) -> u64 {
    address.wrapping_add(LENGTH as u64).wrapping_add_signed(i64::from(word as u16 as i16) << 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flow::*;
    use alloc::vec::Vec;

    const HERE: u64 = 0xffff_ffff_8010_0ff0;

    /// KP-2, KP-5: displacements at both ends of their range, every kind of control flow, and delay slots.
    #[test]
    fn instructions_decode_to_their_target() {
        let at = |distance: i64| HERE.wrapping_add_signed(distance);
        #[rustfmt::skip]
        let cases: &[(&str, u32, usize, Flow)] = &[
            ("jr ra",                     0x03e0_0008, 8, Return),
            ("jr.hb ra",                  0x03e0_0408, 8, Return),
            ("jalr zero,ra",              0x03e0_0009, 8, Return),
            ("jr t9",                     0x0320_0008, 8, IndirectJump),
            ("jalr zero,t9",              0x0320_0009, 8, IndirectJump),
            ("jalr t9",                   0x0320_f809, 8, IndirectCall),
            ("jalr.hb t9",                0x0320_fc09, 8, IndirectCall),
            ("syscall",                   0x0000_000c, 4, Trap),
            ("break 515",                 0x0000_80cd, 4, Trap),
            ("sdbbp",                     0x7000_003f, 4, Trap),
            ("bltz v0, the farthest",     0x0440_7fff, 8, Branch(at(0x2_0000))),
            ("bgez v0, the farthest back", 0x0441_8000, 8, Branch(at(4 - 0x2_0000))),
            ("bgez zero",                 0x0401_0001, 8, Jump(at(8))),
            ("bltzl v0",                  0x0442_0001, 8, Branch(at(8))),
            ("bgezl v0",                  0x0443_0001, 8, Branch(at(8))),
            ("bltzal v0",                 0x0450_0001, 8, Call(at(8))),
            ("bal",                       0x0411_ffff, 8, Call(HERE)),
            ("bltzall v0",                0x0452_0001, 8, Call(at(8))),
            ("bgezall v0",                0x0453_0001, 8, Call(at(8))),
            ("bposge32",                  0x041c_0001, 8, Branch(at(8))),
            ("j, the lowest",             0x0800_0000, 8, Jump(0xffff_ffff_8000_0000)),
            ("j, the highest",            0x0bff_ffff, 8, Jump(0xffff_ffff_8fff_fffc)),
            ("jal",                       0x0c04_03fc, 8, Call(HERE)),
            ("jalx",                      0x7404_03fc, 8, Call(HERE)),
            ("b .",                       0x1000_ffff, 8, Jump(HERE)),
            ("beq v0,v0",                 0x1042_0001, 8, Jump(at(8))),
            ("beqz v0",                   0x1040_0001, 8, Branch(at(8))),
            ("bnez v0",                   0x1440_0001, 8, Branch(at(8))),
            ("blez v0",                   0x1840_0001, 8, Branch(at(8))),
            ("bgtz v0",                   0x1c40_0001, 8, Branch(at(8))),
            ("beqzl v0",                  0x5040_0001, 8, Branch(at(8))),
            ("bnezl v0",                  0x5440_0001, 8, Branch(at(8))),
            ("blezl v0",                  0x5840_0001, 8, Branch(at(8))),
            ("bgtzl v0",                  0x5c40_0001, 8, Branch(at(8))),
            ("bc1t",                      0x4501_0001, 8, Branch(at(8))),
            ("bc1any2f",                  0x4520_0001, 8, Branch(at(8))),
            ("bc1any4f",                  0x4540_0001, 8, Branch(at(8))),
            ("bz.v",                      0x4560_0001, 8, Branch(at(8))),
            ("bc1nez",                    0x45a0_0001, 8, Branch(at(8))),
            ("bnz.v",                     0x45e0_0001, 8, Branch(at(8))),
            ("bnz.w",                     0x47c0_0001, 8, Branch(at(8))),
            ("bc2f",                      0x4900_0001, 8, Branch(at(8))),
            ("bc2eqz",                    0x4920_0001, 8, Branch(at(8))),
            ("bc2nez",                    0x49a0_0001, 8, Branch(at(8))),
            ("eret",                      0x4200_0018, 4, Trap),
            ("deret",                     0x4200_001f, 4, Trap),
            ("add.d: not a branch",       0x4620_0000, 4, Next),
            ("teq v0,zero",               0x0040_0034, 4, Next),
            ("addiu sp,sp,-32",           0x27bd_ffe0, 4, Next),
            ("nop",                       0x0000_0000, 4, Next),
        ];
        for (what, word, length, flow) in cases {
            for set in Set::ALL {
                let bytes = [set.bytes(*word), set.bytes(0x2442_0001)].concat();
                let address = set.cut(HERE);
                let insn = decode(set, address, &bytes).expect("whole words");
                let expected = match *flow {
                    Jump(target) => Jump(set.cut(target)),
                    Branch(target) => Branch(set.cut(target)),
                    Call(target) => Call(set.cut(target)),
                    flow => flow,
                };
                assert_eq!((insn.bytes().len(), insn.flow), (*length, expected), "{what}, {set:?}");
                assert_eq!(has_delay_slot(*word), *length == 8, "{what}");
                assert_eq!(
                    delay_slot_of(&insn).map(|slot| (slot.address, super::word(set, &slot))),
                    (*length == 8).then_some((address + 4, 0x2442_0001))
                );
            }
        }
    }

    /// KP-2: the segment of a jump is that of its delay slot.
    #[test]
    fn a_jump_uses_the_segment_of_its_delay_slot() {
        for set in Set::ALL {
            let bytes = [set.bytes(0x0800_0000), set.bytes(0)].concat();
            let insn = decode(set, set.cut(0xffff_ffff_8fff_fffc), &bytes).expect("whole words");
            assert_eq!(insn.flow, Jump(set.cut(0xffff_ffff_9000_0000)));
        }
    }

    /// KP-5
    #[test]
    fn truncated_bytes_do_not_decode() {
        let branch = Set::Big32.bytes(0x1000_ffff);
        let whole: Vec<u8> = [branch, [0; 4]].concat();
        for length in 0..8 {
            let cut = Err(Undecodable { address: HERE, truncated: true });
            assert_eq!(decode(Set::Big32, HERE, &whole[..length]), cut, "{length}");
        }
        assert!(decode(Set::Big32, HERE, &whole).is_ok());
    }
}
