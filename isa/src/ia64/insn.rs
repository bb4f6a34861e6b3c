//! Instructions of bundles as instructions with addresses and lengths, as the engine knows them.
//!
//! The slots of a bundle have the addresses +0, +6 and +12, as objdump prints them, and the lengths 6, 6 and 4. The long
//! instruction of an MLX bundle has the address +6 and the length 10. So the instructions of a function follow each other
//! without gaps, and each length covers the bytes that its breakpoint changes.

use super::bundle::{BUNDLE, Bundle, SLOT_STEP, Template};
use super::decode::{Instruction, in_bundle};
use super::op::{Condition, Op, System};
use super::slot::instruction_slot;
use crate::insn::{Flow, Insn, Undecodable};

/// Bytes of a long instruction.
pub const LONGEST: usize = BUNDLE as usize - SLOT_STEP as usize;

/// The number of the slot that an address names; `None` if it names none.
fn named(address: u64) -> Option<usize> {
    let offset = (address % BUNDLE) as usize;
    let step = SLOT_STEP as usize;
    (offset.is_multiple_of(step)).then_some(offset / step)
}

/// Linux adds the slot's number to the bundle's address. This is our address of the same instruction.
pub fn of_linux(address: u64) -> u64 {
    match address % BUNDLE {
        number @ 1..=2 => address - number + number * u64::from(SLOT_STEP),
        _ => address,
    }
}

/// Decodes one instruction, given the bytes of its bundle. A slot whose bits are no instruction decodes, too: it raises an
/// exception where it runs.
pub fn decode(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let wrong = Undecodable { address, truncated: false };
    let bundle = Bundle::of(bytes).ok_or(Undecodable { truncated: true, ..wrong })?;
    let (template, slot) = (bundle.template().ok_or(wrong)?, named(address).ok_or(wrong)?);
    let before = slot * SLOT_STEP as usize;
    let len = match slot {
        1 if template.is_long() => LONGEST,
        2 if template.is_long() => return Err(wrong),
        2 => BUNDLE as usize - before,
        _ => SLOT_STEP as usize,
    };
    let own = instruction_slot(bundle, slot).and_then(|slot| in_bundle(bundle, slot));
    let flow = own.map_or(Flow::Trap, |own| flow(address - address % BUNDLE, &own));
    // The template, and the bytes in which the slot begins before its address.
    let all = bundle.bytes();
    let more = [all[0], all[before.saturating_sub(2)], all[before.saturating_sub(1)]];
    Ok(Insn::with_more(address, &all[before..before + len], &more, flow))
}

/// The bundle of an instruction, of which only the template and the instruction are known, and the number of its slot: 2 for a
/// long instruction.
pub fn place(insn: &Insn) -> (Bundle, usize) {
    let (mut bytes, before) = ([0; BUNDLE as usize], (insn.address % BUNDLE) as usize);
    if let (&[template, second, first, ..], true) = (insn.more(), before > 1) {
        (bytes[0], bytes[before - 2], bytes[before - 1]) = (template, second, first);
    }
    for (place, byte) in bytes[before..].iter_mut().zip(insn.bytes()) {
        *place = *byte;
    }
    let bundle = Bundle::of(&bytes).unwrap_or_default();
    let slot = named(insn.address).unwrap_or_default();
    let is_long = slot == 1 && bundle.template().is_some_and(Template::is_long);
    (bundle, if is_long { 2 } else { slot })
}

/// The operation; `None` if the bits are no instruction.
pub fn operation(insn: &Insn) -> Option<Instruction> {
    let (bundle, slot) = place(insn);
    in_bundle(bundle, slot)
}

fn flow(ip: u64, insn: &Instruction) -> Flow {
    let to = |distance: i64| ip.wrapping_add_signed(distance);
    match insn.op {
        Op::Branch { condition: Condition::Predicate, distance, .. } if insn.predicate == 0 => Flow::Jump(to(distance)),
        Op::Branch { distance, .. }
        | Op::CheckSpeculation { distance, .. }
        | Op::CheckAdvanced { distance, .. }
        | Op::FloatCheck { distance, .. } => Flow::Branch(to(distance)),
        Op::BranchCall { distance, .. } => Flow::Call(to(distance)),
        Op::BranchCallIndirect { .. } => Flow::IndirectCall,
        Op::BranchReturn { .. } => Flow::Return,
        Op::BranchIndirect { .. } if insn.predicate != 0 => Flow::IndirectBranch,
        Op::BranchIndirect { .. } | Op::BranchForeign { .. } => Flow::IndirectJump,
        Op::Break { .. } | Op::System(System::Rfi | System::Epc | System::Vmsw0 | System::Vmsw1) => Flow::Trap,
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// KP-2: the instructions of a bundle follow each other without gaps, and other addresses name none.
    #[test]
    fn instructions_follow_each_other() {
        for number in 0..32 {
            let bundle = Bundle::new(number, [0x155_5555_5555, 0x1ff_ffff_ffff, 0x1f0_f0f0_f0f1]);
            let insns: Vec<Insn> = (0..16).filter_map(|offset| decode(0x4000 + offset, &bundle.bytes()).ok()).collect();
            let Some(template) = bundle.template() else {
                assert!(insns.is_empty(), "{number:#x} is reserved");
                continue;
            };
            let expected: &[u64] = if template.is_long() { &[0, 6] } else { &[0, 6, 12] };
            assert!(insns.iter().map(|insn| insn.address - 0x4000).eq(expected.iter().copied()), "{number:#x}: {insns:x?}");
            let mut next = 0x4000;
            for (insn, slot) in insns.iter().zip(if template.is_long() { [0, 2, 9] } else { [0, 1, 2] }) {
                let (known, place) = place(insn);
                assert_eq!((insn.address, place), (next, slot));
                assert_eq!((known.number(), known.slot(slot)), (bundle.number(), bundle.slot(slot)));
                assert!(slot != 2 || !template.is_long() || known.slot(1) == bundle.slot(1), "the number of a long one");
                let from = (insn.address % 16) as usize;
                assert_eq!(insn.bytes(), &bundle.bytes()[from..][..insn.length() as usize]);
                next = insn.next();
            }
            assert_eq!(next, 0x4010);
        }
        assert!(decode(0x4000, &[0; 15]).is_err_and(|why| why.truncated));
        assert_eq!(
            [0, 1, 2, 3, 6, 12].map(|offset| of_linux(0x4000 + offset)),
            [0, 6, 12, 3, 6, 12].map(|offset| 0x4000 + offset)
        );
    }

    /// KP-2: branches of each kind have their flow, from the bundle's address.
    #[test]
    fn branches_have_their_flow() {
        const BBB: u8 = 0x16;
        let of = |slot: u64, word: u64| {
            let words = [0, 1, 2].map(|other| if other == slot { word } else { 2 << 37 });
            decode(0x4000 + 6 * slot, &Bundle::new(BBB, words).bytes()).map(|insn| insn.flow)
        };
        let far = 0x10 << 13;
        for slot in 0..3 {
            assert_eq!(of(slot, 4 << 37 | far), Ok(Flow::Jump(0x4100)));
            assert_eq!(of(slot, 4 << 37 | far | 6), Ok(Flow::Branch(0x4100)));
            assert_eq!(of(slot, 5 << 37 | far), Ok(Flow::Call(0x4100)));
            assert_eq!(of(slot, 0x21 << 27 | 4 << 6), Ok(Flow::Return));
            assert_eq!(of(slot, 0x20 << 27), Ok(Flow::IndirectJump));
            assert_eq!(of(slot, 0x20 << 27 | 6), Ok(Flow::IndirectBranch));
            assert_eq!(of(slot, 1 << 37 | 1 << 32), Ok(Flow::IndirectCall));
            assert_eq!(of(slot, 8 << 27), Ok(Flow::Trap), "rfi");
            assert_eq!(of(slot, 2 << 37), Ok(Flow::Next), "nop.b");
        }
    }
}
