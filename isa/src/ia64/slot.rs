//! The breakpoints of IA-64, and the copy of a bundle in which one instruction runs.
//!
//! A breakpoint replaces one slot. The template and the other slots keep their bits, so two probes of one bundle do not
//! touch each other.

use super::bundle::{Bundle, Template};
use super::decode::Instruction;
use super::insn::{operation, place};
use super::op::{Condition, Op, Update};
use super::rules::NO_JUMP_BACK;
use crate::insn::{Insn, LONGEST_GROUP};
use crate::plan::{Copy, Patch, Refusal, Tail};

/// The number of Linux's breakpoint for probes. `break.b` reports 0 instead of it.
pub const BREAK: u64 = 0x8_1000;
/// The number of the breakpoint that ends a step.
pub const STEP_END: u64 = 0x8_1001;
/// Numbers that Linux keeps for kprobes have these bits.
const OF_PROBES: u64 = 0x81;

/// A break with this number and this predicate, for a slot of any unit.
pub const fn break_word(number: u64, predicate: u8) -> u64 {
    number << 6 | predicate as u64
}

/// Whether the 41 bits are a break in every unit: opcode 0, with zeros in the fields that tell instructions apart.
pub const fn is_break(word: u64) -> bool {
    word >> 37 & 0xf == 0 && word >> 27 & 0x1ff == 0
}

/// Whether a break with this number may be a probe's. A long instruction has further bits above the number.
pub const fn is_probes(number: u64) -> bool {
    number == 0 || number >> 12 & 0x1ff == OF_PROBES
}

/// The slot of the instruction at an address of a bundle: slot 1 of an MLX bundle is its long instruction, too.
/// `None` if there is no such slot.
pub fn instruction_slot(bundle: Bundle, slot: usize) -> Option<usize> {
    match slot {
        1 if bundle.template().is_some_and(Template::is_long) => Some(2),
        0..=2 => Some(slot),
        _ => None,
    }
}

/// Whether an instruction writes registers although its predicate is false, or looks at its predicate by itself. Its
/// breakpoint must have a predicate that is always true.
pub fn acts_without_predicate(op: &Op) -> bool {
    match op {
        Op::Compare { update, .. } | Op::Test { update, .. } => *update == Update::Unconditional,
        Op::FloatCompare { unconditional, .. } | Op::FloatClass { unconditional, .. } => *unconditional,
        Op::Reciprocal { .. } | Op::ReciprocalRoot { .. } => true,
        Op::Branch { condition, .. } => *condition != Condition::Predicate,
        _ => false,
    }
}

/// The bundle with a breakpoint in this slot. The breakpoint has the instruction's predicate, so an instruction that
/// does nothing is not hit.
pub fn with_breakpoint(bundle: Bundle, slot: usize, instruction: &Instruction) -> Bundle {
    let predicate = if acts_without_predicate(&instruction.op) { 0 } else { instruction.predicate };
    bundle.with_slot(slot, break_word(BREAK, predicate))
}

/// A bundle of breakpoints.
pub const BREAKPOINT: &[u8] = const { &Bundle::new(0, [break_word(BREAK, 0); 3]).bytes() };

/// The first bytes of an instruction with its breakpoint.
pub fn breakpoint_over(insn: &Insn) -> Patch {
    let (bundle, slot) = place(insn);
    let Some(own) = operation(insn) else { return Patch::of(insn.bytes()) };
    let bytes = with_breakpoint(bundle, slot, &own).bytes();
    let before = (insn.address % 16) as usize;
    Patch::of(&bytes[before..][..insn.bytes().len()])
}

/// The bundle with the instruction's breakpoint, or with the instruction, in its slot. The other slots and the template keep
/// their bits. Slot 1 of an MLX bundle is not changed, although it has bits of the long instruction.
pub fn in_group(group: [u8; LONGEST_GROUP], insn: &Insn, has_breakpoint: bool) -> [u8; LONGEST_GROUP] {
    let ((own, slot), Some(now)) = (place(insn), Bundle::of(&group)) else { return group };
    let own = match operation(insn) {
        Some(what) if has_breakpoint => with_breakpoint(own, slot, &what),
        _ => own,
    };
    now.with_slot(slot, own.slot(slot)).bytes()
}

/// Whether the instruction at an address is a breakpoint, ours or one of Linux's for probes and debuggers. `text` is its
/// bundle.
pub fn is_breakpoint(address: u64, text: &[u8]) -> bool {
    let own = super::insn::decode(address, text).ok().and_then(|insn| operation(&insn));
    matches!(own.map(|own| own.op), Some(Op::Break { number }) if is_probes(number))
}

/// The copy of an instruction that stands at the same place of a bundle, of which `at` is the address. It never jumps back.
pub fn copy_of(insn: &Insn, _at: u64, tail: Tail) -> Result<Copy, Refusal> {
    if tail == Tail::JumpBack {
        return Err(NO_JUMP_BACK.refusal());
    }
    let (bundle, slot) = place(insn);
    let mut bytes = [0; 32];
    for (half, bundle) in bytes.chunks_exact_mut(16).zip(copy(bundle, slot)) {
        half.copy_from_slice(&bundle.bytes());
    }
    Ok(Copy { bytes, len: bytes.len(), displaced: insn.bytes().len() })
}

/// The copy of a bundle for one of its slots: it is entered at this slot, and breaks stand in the slots behind it and in
/// the next bundle. The instruction keeps its slot, because some instructions are only allowed in the last one.
pub fn copy(bundle: Bundle, slot: usize) -> [Bundle; 2] {
    let end = break_word(STEP_END, 0);
    let behind = slot + 1..3;
    // Slot 1 of an MLX bundle is no place to stop.
    let is_long = bundle.template().is_some_and(Template::is_long);
    let copy = behind.filter(|slot| !(is_long && *slot == 1)).fold(bundle, |copy, slot| copy.with_slot(slot, end));
    [copy, Bundle::new(0, [end, end, end])]
}

/// The pc behind a step: `ended` is the bundle and the slot at which a copy at `at` has met its end. `None` if it is
/// no end of this copy.
pub fn behind_step(address: u64, at: u64, slot: usize, ended: (u64, usize)) -> Option<(u64, usize)> {
    match ended {
        (bundle, 0) if bundle == at.wrapping_add(16) => Some((address.wrapping_add(16), 0)),
        (bundle, to) if bundle == at && to > slot => Some((address, to)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bundle::Unit;
    use super::super::decode::{decode, in_bundle};
    use super::*;

    /// `(p6) cmp.eq p8,p9=r4,r5`, with and without `.unc`.
    const COMPARE: u64 = 0xe << 37 | 9 << 27 | 5 << 20 | 4 << 13 | 8 << 6 | 6;
    const UNCONDITIONAL: u64 = COMPARE | 1 << 12;

    /// KP-2: a break has a number in each unit, and only a break is one.
    #[test]
    fn breaks_are_known_in_every_unit() {
        for unit in [Unit::M, Unit::I, Unit::F, Unit::B, Unit::X] {
            let word = break_word(BREAK, 5);
            assert!(is_break(word));
            let insn = decode(unit, word, 0).expect("a break");
            assert_eq!((insn.op, insn.predicate), (Op::Break { number: BREAK }, 5));
            assert!(!is_break(1 << 27), "nop");
            assert!(is_probes(BREAK) && is_probes(STEP_END) && is_probes(0) && !is_probes(0x8_0000));
        }
        let long = decode(Unit::X, break_word(BREAK, 0), 0x1ff_ffff_ffff).expect("a break");
        assert!(matches!(long.op, Op::Break { number } if is_probes(number)), "the bits of slot 1 are above the number");
        assert!(!is_break(COMPARE));
    }

    /// KP-2: a breakpoint keeps the neighbours, and the predicate unless the instruction acts without it.
    #[test]
    fn a_breakpoint_keeps_neighbours_and_predicate() {
        let nop = 1 << 27;
        for (word, predicate) in [(COMPARE, 6), (UNCONDITIONAL, 0)] {
            for slot in 0..3 {
                let bundle = Bundle::new(0, [nop; 3]).with_slot(slot, word);
                let insn = in_bundle(bundle, slot).expect("a comparison");
                let probed = with_breakpoint(bundle, slot, &insn);
                assert_eq!(probed.slot(slot), break_word(BREAK, predicate));
                assert_eq!(probed.with_slot(slot, word), bundle);
            }
        }
    }

    /// KP-2: the breakpoints of a bundle's instructions are independent of each other, in bytes as in bits.
    #[test]
    fn a_group_has_each_breakpoint_alone() {
        let words = [COMPARE, UNCONDITIONAL | 0x3f, UNCONDITIONAL];
        let bundle = Bundle::new(0, words);
        let insns = [0, 6, 12].map(|offset| super::super::insn::decode(0x4000 + offset, &bundle.bytes()).expect("a slot"));
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut group = bundle.bytes();
            for (number, slot) in order.into_iter().enumerate() {
                group = in_group(group, &insns[slot], true);
                assert_eq!(group, in_group(group, &insns[slot], true));
                let now = Bundle::of(&group).expect("a bundle");
                for (place, other) in order.into_iter().enumerate() {
                    assert_eq!(is_break(now.slot(other)), place <= number, "{order:?}");
                    assert_eq!(is_breakpoint(0x4000 + 6 * other as u64, &group), place <= number);
                }
            }
            let last = Bundle::of(&group).expect("a bundle");
            assert_eq!([0, 1, 2].map(|slot| last.slot(slot) & 0x3f), [6, 0, 0], "the predicates");
            for slot in order {
                group = in_group(group, &insns[slot], false);
            }
            assert_eq!(group, bundle.bytes());
        }
    }

    /// KP-2: a copy has breaks behind its instruction, in places where the CPU can stop.
    #[test]
    fn a_copy_has_breaks_behind_its_instruction() {
        let words = [COMPARE, 0x123_4567_89ab, UNCONDITIONAL];
        for number in (0..32).filter(|number| Template::of(*number).is_some()) {
            let bundle = Bundle::new(number, words);
            let is_long = matches!(number, 4 | 5);
            for slot in 0..3 {
                let [copy, next] = copy(bundle, slot);
                for (other, word) in words.into_iter().enumerate() {
                    let ends = other > slot && !(is_long && other == 1);
                    assert_eq!(copy.slot(other), if ends { break_word(STEP_END, 0) } else { word });
                }
                assert_eq!(copy.number(), number);
                assert!(is_break(next.slot(0)) && next.template().is_some());
            }
        }
        assert_eq!(behind_step(0x4000, 0x9000, 0, (0x9000, 1)), Some((0x4000, 1)));
        assert_eq!(behind_step(0x4000, 0x9000, 2, (0x9010, 0)), Some((0x4010, 0)));
        assert_eq!(behind_step(0x4000, 0x9000, 1, (0x9000, 1)), None, "the instruction itself");
        assert_eq!(behind_step(0x4000, 0x9000, 1, (0x9020, 0)), None);
        let long = Bundle::new(5, words);
        assert_eq!([0, 1, 2, 3].map(|slot| instruction_slot(long, slot)), [Some(0), Some(2), Some(2), None]);
    }
}
