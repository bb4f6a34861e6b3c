//! Decodes PA-RISC instructions: control flow and delay slots. Every word decodes. Words that are no instruction raise
//! their exception where they run.

use super::LENGTH;
use super::fields::{bits, distance12, distance17, distance22, left21, opcode};
use crate::insn::{Flow, Insn, Undecodable};
use crate::mem::ByteOrder;

/// The number of the link register of procedure calls.
const RP: u32 = 2;
/// The number of the link register of millicode and far calls.
const MRP: u32 = 31;

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let own = bytes.get(..LENGTH).ok_or(Undecodable { address, truncated: true })?;
    let word = ByteOrder::Big.word(own);
    let flow = match Transfer::of(word) {
        Some(transfer) => transfer.flow(address, word),
        // break, rfi and rfi,r
        None if word & 0xfc00_1fe0 == 0 || matches!(word & 0xfc00_1fe0, 0x0c00 | 0x0ca0) => Flow::Trap,
        None => Flow::Next,
    };
    Ok(Insn::new(address, own, flow))
}

/// The instruction as a number.
pub fn word(insn: &Insn) -> u32 {
    ByteOrder::Big.word(insn.bytes())
}

/// The groups of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// A branch with a condition and a distance of 12 bits.
    Conditional,
    /// `b,l`, and `b,gate`, whose distance has 17 bits.
    Near,
    /// `b,l` with a distance of 22 bits; its link register is r2.
    Far,
    /// `blr`: by a number of instruction pairs in a register.
    ByPairs,
    /// `bv`: to a register and a number of instruction pairs in another.
    Vectored,
    /// `bve`, and with the bit `,l` to link in r2: to a register, whose highest bits say in which space.
    Base,
    /// `be`: to a register plus a distance of 17 bits, in the space of a space register.
    Space,
    /// `be,l`, which links in r31.
    SpaceAndLink,
}

impl Transfer {
    /// The kind of branch; `None` if the word is no branch.
    pub fn of(word: u32) -> Option<Transfer> {
        Some(match opcode(word) {
            0x20..=0x23 | 0x28..=0x2b | 0x30..=0x33 => Transfer::Conditional,
            0x38 => Transfer::Space,
            0x39 => Transfer::SpaceAndLink,
            0x3a => match (bits(word, 16, 18), bits(word, 19, 19)) {
                (0 | 1, _) => Transfer::Near,
                (2, _) => Transfer::ByPairs,
                (4 | 5, _) => Transfer::Far,
                (6, 0) => Transfer::Vectored,
                (6 | 7, 1) => Transfer::Base,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The distance from the instruction to a target that it contains.
    fn distance(self, word: u32) -> Option<i32> {
        Some(
            8 + match self {
                Transfer::Conditional => distance12(word),
                Transfer::Near => distance17(word),
                Transfer::Far => distance22(word),
                _ => return None,
            },
        )
    }

    fn flow(self, address: u64, word: u32) -> Flow {
        let target = self.distance(word).map_or(0, |distance| u64::from((address as u32).wrapping_add_signed(distance)));
        let base = bits(word, 6, 10);
        let leaves = matches!(base, RP | MRP);
        match self {
            Transfer::Conditional if is_always(word) => Flow::Jump(target),
            Transfer::Conditional => Flow::Branch(target),
            // Its register gets the privilege level: no link.
            Transfer::Near if bits(word, 16, 18) == 1 || base == 0 => Flow::Jump(target),
            Transfer::Near | Transfer::Far => Flow::Call(target),
            Transfer::ByPairs if base == 0 => Flow::IndirectJump,
            Transfer::ByPairs | Transfer::SpaceAndLink => Flow::IndirectCall,
            Transfer::Base if bits(word, 18, 18) == 1 => Flow::IndirectCall,
            Transfer::Base if leaves => Flow::Return,
            Transfer::Vectored if leaves && bits(word, 11, 15) == 0 => Flow::Return,
            Transfer::Space if leaves && distance17(word) == 0 => Flow::Return,
            Transfer::Base | Transfer::Vectored | Transfer::Space => Flow::IndirectJump,
        }
    }
}

/// Whether a conditional branch is always taken.
fn is_always(word: u32) -> bool {
    let condition = bits(word, 16, 18);
    match opcode(word) {
        // The condition "never", negated.
        0x22 | 0x23 | 0x2a | 0x2b => condition == 0,
        0x32 | 0x33 => condition == 4,
        _ => false,
    }
}

/// Whether the bit `,n` is set. After an unconditional branch it nullifies the delay slot; after a conditional one it
/// does if the branch is taken forwards or is not taken backwards.
pub fn nullifies(word: u32) -> bool {
    word & 2 != 0
}

/// Whether the instruction behind this word may run as a delay slot: with another address than its own next one to
/// continue at. A branch that nullifies the slot whenever it is taken has none.
pub fn has_delay_slot(word: u32) -> bool {
    match Transfer::of(word) {
        None => false,
        Some(Transfer::Conditional) => !nullifies(word) || distance12(word) < 0,
        Some(_) => !nullifies(word),
    }
}

/// Whether it is a far branch, which may change the address space or the privilege level.
pub fn may_change_space(word: u32) -> bool {
    matches!(Transfer::of(word), Some(Transfer::Space | Transfer::SpaceAndLink | Transfer::Base))
        || word & 0xfc00_e000 == 0xe800_2000
}

/// The target of a far jump or call: `ldil` loads the upper bits into a register, and `be` adds the lower ones.
pub fn far_target(before: &Insn, insn: &Insn) -> Option<u64> {
    let (first, second) = (word(before), word(insn));
    let far = matches!(Transfer::of(second)?, Transfer::Space | Transfer::SpaceAndLink);
    let is_pair = far && opcode(first) == 0x08 && bits(first, 6, 10) == bits(second, 6, 10);
    is_pair.then(|| left21(first).wrapping_add_signed(distance17(second)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flow::*;

    const HERE: u64 = 0x0010_1ff0;

    /// KP-2, KP-5: every group of branches, with its target and its delay slot. The words are those of the assembler.
    #[test]
    fn instructions_decode_to_their_target() {
        let at = |distance: i64| HERE.wrapping_add_signed(distance);
        #[rustfmt::skip]
        let cases: &[(&str, u32, bool, Flow)] = &[
            ("b,l .+8,r0",              0xe800_0000, true,  Jump(at(8))),
            ("b,n .+8",                 0xe800_0002, false, Jump(at(8))),
            ("b .-4",                   0xe81f_1fed, true,  Jump(at(-4))),
            ("bl .+16,rp",              0xe840_0010, true,  Call(at(16))),
            ("bl,n .+16,r31",           0xebe0_0012, false, Call(at(16))),
            ("b,gate .+8,r0",           0xe800_2000, true,  Jump(at(8))),
            ("b,l .+16,rp of 22 bits",  0xe800_a010, true,  Call(at(16))),
            ("blr r4,r0",               0xe804_4000, true,  IndirectJump),
            ("blr,n r4,r31",            0xebe4_4002, false, IndirectCall),
            ("bv r0(rp)",               0xe840_c000, true,  Return),
            ("bv,n r0(r31)",            0xebe0_c002, false, Return),
            ("bv r0(r1)",               0xe820_c000, true,  IndirectJump),
            ("bv r4(rp)",               0xe844_c000, true,  IndirectJump),
            ("bve (rp)",                0xe840_d000, true,  Return),
            ("bve,n (r1)",              0xe820_d002, false, IndirectJump),
            ("bve,l (r1),rp",           0xe820_f000, true,  IndirectCall),
            ("be 0(sr0,r31)",           0xe3e0_0000, true,  Return),
            ("be,n 0(sr4,r1)",          0xe020_2002, false, IndirectJump),
            ("be,l 0(sr4,r1)",          0xe420_2000, true,  IndirectCall),
            ("cmpb,= r4,r5,.+16",       0x80a4_2010, true,  Branch(at(16))),
            ("cmpb,=,n r4,r5,.+16",     0x80a4_2012, false, Branch(at(16))),
            ("cmpb,=,n r4,r5,.-16",     0x80a4_3fd7, true,  Branch(at(-16))),
            ("cmpb of nothing, negated", 0x88a4_0010, true, Jump(at(16))),
            ("addib,< -1,r4,.+16",      0xa49f_4010, true,  Branch(at(16))),
            ("movb,tr r5,r4,.+16",      0xc885_8010, true,  Jump(at(16))),
            ("bb,< r4,5,.+16",          0xc4a4_4010, true,  Branch(at(16))),
            ("break 31,0x1ffc",         0x03ff_801f, false, Trap),
            ("rfi",                     0x0000_0c00, false, Trap),
            ("rfi,r",                   0x0000_0ca0, false, Trap),
            ("add",                     0x0a05_0604, false, Next),
            ("ldw 0(r4),r5",            0x4885_0000, false, Next),
            ("no instruction",          0xffff_ffff, false, Next),
        ];
        for (what, word, has_slot, flow) in cases {
            let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
            assert_eq!(insn.flow, *flow, "{what}");
            assert_eq!(has_delay_slot(*word), *has_slot, "{what}");
        }
        assert_eq!(decode(HERE, &[0; 3]), Err(Undecodable { address: HERE, truncated: true }));
    }

    /// KP-5: `ldil` and `be` through its register are a far call.
    #[test]
    fn a_far_call_has_a_target() {
        let insn = |word: u32| decode(HERE, &word.to_be_bytes()).expect("a whole word");
        let [ldil, call, other] = [0x2022_6011_u32, 0xe420_2018, 0xe440_2018].map(insn);
        let upper = u64::from(left21(0x2022_6011));
        assert_eq!(far_target(&ldil, &call), Some(upper + 12));
        assert_eq!(far_target(&ldil, &other), None, "another register");
        assert_eq!(far_target(&call, &call), None);
    }
}
