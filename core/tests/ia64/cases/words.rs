//! Words of slots. Random words are often the same few instructions, so a slot's word comes from a collection of random words in
//! which each operation is as frequent as any other, and each of its kinds is as frequent as its other kinds.

use super::super::code::Random;
use super::choice::{Place, may_have};
use super::{NOP, POINTER};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use trapline_isa::ia64::bundle::Unit;
use trapline_isa::ia64::decode::decode;

/// The words of a unit: by operation, then by kind. A long instruction has a second word.
type Words = BTreeMap<String, BTreeMap<String, Vec<(u64, u64)>>>;

/// Random words that are tried for a unit, and the most that are kept of a kind.
const TRIED: usize = 1_500_000;
const KEPT: usize = 40;

/// Operations that most programs consist of, and those that do nothing to compare.
const FREQUENT: [&str; 9] = ["Alu", "Branch", "Compare", "Load", "LoadFloat", "Shift", "Store", "Test", "Unary"];
const RARE: [&str; 5] = ["Break", "Hint", "Nop", "Predict", "PredictIndirect"];

fn collection(unit: Unit) -> &'static Words {
    static UNITS: OnceLock<BTreeMap<char, Words>> = OnceLock::new();
    let units = UNITS.get_or_init(|| {
        let all = [Unit::M, Unit::I, Unit::F, Unit::B, Unit::X];
        all.into_iter().map(|unit| (unit.letter(), collected(unit))).collect()
    });
    &units[&unit.letter()]
}

fn collected(unit: Unit) -> Words {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ unit.letter() as u64);
    let mut words = Words::new();
    let places = [0, 2].map(|slot| Place { unit, slot, left: 4, is_last: true, is_program: true, is_advanced: true });
    for _ in 0..TRIED {
        let (word, long) = (word(&mut random, unit), random.next() >> 23);
        let Some(instruction) = decode(unit, word, long) else { continue };
        if !places.into_iter().any(|place| may_have(&instruction.op, place)) {
            continue;
        }
        // The kind is the operation's text without numbers.
        let text = format!("{:?}", instruction.op);
        let kind: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let name = text.split([' ', '(']).next().unwrap_or_default().to_string();
        let words = words.entry(name).or_default().entry(kind).or_default();
        if words.len() < KEPT {
            words.push((word, long));
        }
    }
    words
}

/// A random element.
fn one_of<T>(random: &mut Random, mut all: impl ExactSizeIterator<Item = T>) -> T {
    let index = random.below(all.len() as u64);
    all.nth(index as usize).expect("not empty")
}

/// A random word of a slot.
pub fn slot(random: &mut Random, place: Place) -> (u64, u64) {
    if place.unit == Unit::B && random.below(5) == 0 {
        return (transfer(random), 0);
    }
    for _ in 0..100 {
        let all = collection(place.unit);
        let (name, kinds) = one_of(random, all.iter());
        if RARE.contains(&name.as_str()) && random.below(4) != 0 {
            continue;
        }
        let kinds = match all.get(FREQUENT[random.below(FREQUENT.len() as u64) as usize]) {
            Some(frequent) if random.below(2) == 0 => frequent,
            _ => kinds,
        };
        let words = one_of(random, kinds.values());
        let (word, long) = *one_of(random, words.iter());
        if decode(place.unit, word, long).is_some_and(|instruction| may_have(&instruction.op, place)) {
            return (word, long);
        }
    }
    (if place.unit == Unit::B { 2 << 37 } else { NOP }, 0)
}

/// A branch by b7, which has the address behind the case: a plain one, a call or a return.
fn transfer(random: &mut Random) -> u64 {
    let branch = match random.below(3) {
        0 => 0x20 << 27,
        1 => 1 << 37 | 1 << 32 | 6 << 6,
        _ => 0x21 << 27 | 4 << 6,
    };
    let predicate = if random.below(2) == 0 { 0 } else { random.below(64) };
    branch | 7 << 13 | predicate
}

/// A random word in which the fields often have the values that a case needs.
fn word(random: &mut Random, unit: Unit) -> u64 {
    let mut word = random.next() >> 23;
    match random.below(4) {
        0 | 1 => word &= !0x3f,
        2 => word = word & !0x3f | (16 + random.below(8)),
        _ => {}
    }
    // Few registers, so that one instruction's result is often another one's operand.
    for at in [6, 13, 20] {
        match random.below(4) {
            0 | 1 => word = word & !(0x7f << at) | (8 + random.below(4)) << at,
            2 => word = word & !(0x7f << at) | (32 + random.below(8)) << at,
            _ => {}
        }
    }
    if unit == Unit::M && matches!(word >> 37, 4..=7) {
        word = word & !(0x7f << 20) | u64::from(POINTER) << 20;
    }
    // A new frame.
    if unit == Unit::M && random.below(100) == 0 {
        let size = 8 + random.below(89);
        let (locals, rotating) = (random.below(size + 1), random.below(size / 8 + 1));
        word = 1 << 37 | 6 << 33 | size << 13 | locals << 20 | rotating << 27 | word & 0x7f << 6;
    }
    // Branches go a few bundles forwards.
    if unit == Unit::B && matches!(word >> 37, 4 | 5) || unit == Unit::M && word >> 37 == 0 && word >> 35 & 1 != 0 {
        word = word & !(1 << 36) & !(0xf_ffff << 13) | (1 + random.below(4)) << 13;
    }
    if matches!(unit, Unit::I | Unit::M | Unit::F) && word >> 37 < 2 && word >> 33 & 1 != 0 {
        word = word & !(1 << 36) & !(0x1fff << 20) & !(0x7f << 6) | (1 + random.below(4)) << 6;
    }
    word
}
