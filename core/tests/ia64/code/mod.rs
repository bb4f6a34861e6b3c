//! Random programs: bundles of instructions whose results the manual defines, between the loads and the stores of all
//! registers.

use trapline_isa::ia64::bundle::{Bundle, SLOTS, Template, Unit};
use trapline_isa::ia64::decode::decode;
use trapline_isa::ia64::op::{After, Condition, Early, Float, Op, System, Tested, Unary, Value};

/// The assembled frame of a program, and the address of its body in it.
const FRAME: &[u8] = include_bytes!("../random.bin");
pub const BODY: usize = 0x490;
/// Bundles in the body.
pub const BUNDLES: usize = 64;
/// The data in the image.
const DATA: usize = 0x3000;
const BYTES: usize = 0x6000;
/// The register with the address of the data's middle.
const POINTER: u8 = 3;

/// Random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// Whether a random instruction may write this general register.
fn is_target(register: u8) -> bool {
    matches!(register, 8..=11 | 14..=31 | 33..=95)
}

/// Whether a random instruction may read this general register. Those with the data's addresses are not compared.
fn is_source(register: u8) -> bool {
    is_target(register) || register == 0
}

fn is_real(register: u8) -> bool {
    matches!(register, 6..=15 | 32..=63)
}

fn reads_real(register: u8) -> bool {
    is_real(register) || register < 2
}

fn reads(value: Value) -> bool {
    match value {
        Value::Register(register) => is_source(register),
        Value::Immediate(_) => true,
    }
}

/// Whether the base stays in the data, and aligned.
fn stays(at: u8, after: After) -> bool {
    at == POINTER
        && match after {
            After::Nothing => true,
            After::Add(Value::Immediate(by)) => by % 16 == 0 && by.abs() <= 64,
            After::Add(Value::Register(_)) => false,
        }
}

/// Whether a program may have this instruction in a slot of this unit.
fn may_have(op: &Op, unit: Unit, slot: usize, left: usize) -> bool {
    let is_near = |distance: i64| distance > 0 && distance <= 64 && distance as usize / 16 < left;
    match *op {
        Op::Alu { to, a, b, .. } => is_target(to) && reads(a) && is_source(b),
        Op::ShiftAdd { to, a, b, .. } | Op::ShiftPair { to, a, b, .. } | Op::Merge { to, a, b, .. } => {
            is_target(to) && is_source(a) && is_source(b)
        }
        Op::Compare { p, a, b, .. } => p[0] != p[1] && reads(a) && is_source(b),
        Op::Test { p, what, .. } => {
            let reads = match what {
                Tested::Bit { register, .. } | Tested::Nat(register) => is_source(register),
                Tested::Feature(_) => false,
            };
            p[0] != p[1] && reads
        }
        Op::Unary { what, to, from } => {
            let bytes = matches!(what, Unary::Bytes(code) if !matches!(code, 0 | 8..=11));
            what != Unary::CountLeadingZeros && !bytes && is_target(to) && is_source(from)
        }
        Op::Shift { to, from, by, .. } => is_target(to) && is_source(from) && is_source(by),
        Op::Extract { to, from, .. } => is_target(to) && is_source(from),
        Op::DepositZero { to, from, .. } => is_target(to) && reads(from),
        Op::Deposit { to, from, into, .. } => is_target(to) && reads(from) && is_source(into),
        Op::MoveLong { to, .. } | Op::MoveIp { to } | Op::MovePredicates { to } => is_target(to),
        Op::MoveToBranch { to, from, .. } => matches!(to, 6 | 7) && is_source(from),
        Op::MoveFromBranch { to, from } => matches!(from, 6 | 7) && is_target(to),
        Op::MoveToPredicates { from, .. } => is_source(from),
        Op::MoveToRotating { .. } => true,
        Op::MoveToAr { ar, from } => has_unit(ar, unit) && reads(from),
        Op::MoveFromAr { to, ar } => has_unit(ar, unit) && is_target(to),
        Op::Load { early: Early::No, fill: false, to, at, after, .. } => is_target(to) && stays(at, after),
        Op::Store { spill: false, from, at, after, .. } => is_source(from) && stays(at, after),
        Op::CompareExchange { to, at, from, .. } | Op::Exchange { to, at, from, .. } => {
            is_target(to) && is_source(from) && at == POINTER
        }
        Op::FetchAdd { to, at, .. } => is_target(to) && at == POINTER,
        Op::LoadFloat { format, early: Early::No, to, at, after, .. } => {
            format != Float::Whole && is_real(to) && stays(at, after)
        }
        Op::StoreFloat { format, from, at, after, .. } => {
            matches!(format, Float::Integer | Float::Whole) && is_real(from) && stays(at, after)
        }
        Op::GetFloat { format, to, from } => {
            matches!(format, Float::Integer | Float::Exponent) && is_target(to) && reads_real(from)
        }
        Op::SetFloat { format, to, from } => format != Float::Exponent && is_real(to) && is_source(from),
        Op::MultiplyAdd { to, a, b, c, .. } | Op::FloatSelect { to, a, b, c } => {
            is_real(to) && [a, b, c].into_iter().all(reads_real)
        }
        Op::FloatBinary { name, status: None, to, a, b } => {
            let known = ["fmerge.s", "fmerge.ns", "fmerge.se", "fand", "fandcm", "for", "fxor"].contains(&name);
            known && is_real(to) && reads_real(a) && reads_real(b)
        }
        Op::Branch { condition, distance, .. } => {
            is_near(distance) && (condition == Condition::Predicate || slot == 2) && unit == Unit::B
        }
        Op::CheckAdvanced { distance, .. } => is_near(distance),
        Op::CheckSpeculation { distance, float: false, register } => is_near(distance) && is_source(register),
        Op::Nop { .. } | Op::Hint { .. } => unit != Unit::X,
        Op::System(System::Mf | System::Fwb | System::Invala) => true,
        Op::Predict { .. } => true,
        _ => false,
    }
}

/// Whether moves of an application register belong to this unit.
fn has_unit(ar: u8, unit: Unit) -> bool {
    match ar {
        32 | 36 => unit == Unit::M,
        65 | 66 => unit == Unit::I,
        _ => false,
    }
}

/// A random word in which the fields often have the values that the program needs.
fn word(random: &mut Random, unit: Unit) -> u64 {
    let mut word = random.next() >> 23;
    match random.below(4) {
        0 => word &= !0x3f,
        1 => word = word & !0x3f | (16 + random.below(8)),
        _ => {}
    }
    let is_access = unit == Unit::M && matches!(word >> 37, 4..=7);
    if is_access {
        word = word & !(0x7f << 20) | u64::from(POINTER) << 20;
    }
    // Branches go a few bundles forwards.
    if matches!(unit, Unit::B) && word >> 37 == 4 || unit == Unit::M && word >> 37 == 0 && word >> 35 & 1 != 0 {
        word = word & !(1 << 36) & !(0xf_ffff << 13) | (1 + random.below(4)) << 13;
    }
    if matches!(unit, Unit::I | Unit::M) && word >> 37 < 2 && word >> 33 & 1 != 0 {
        word = word & !(1 << 36) & !(0x1fff << 20) & !(0x7f << 6) | (1 + random.below(4)) << 6;
    }
    word
}

/// A random slot of this unit.
fn slot(random: &mut Random, unit: Unit, slot: usize, left: usize) -> (u64, u64) {
    let nop = match unit {
        Unit::B => 2 << 37,
        _ => 1 << 27,
    };
    for _ in 0..400 {
        let (word, long) = (word(random, unit), random.next() >> 23);
        if decode(unit, word, long).is_some_and(|insn| may_have(&insn.op, unit, slot, left)) {
            return (word, long);
        }
    }
    (nop, 0)
}

/// A random bundle. `left` bundles are behind it.
fn bundle(random: &mut Random, left: usize) -> Bundle {
    let templates: Vec<u8> = (0..32).filter(|number| Template::of(*number).is_some()).collect();
    let number = templates[random.below(templates.len() as u64) as usize];
    let units = Template::of(number).map_or([Unit::M; SLOTS], |template| template.units);
    let mut words = [0; SLOTS];
    for place in 0..SLOTS {
        if units[place] == Unit::L {
            continue;
        }
        let (word, long) = slot(random, units[place], place, left);
        words[place] = word;
        if units[place] == Unit::X {
            words[1] = long;
        }
    }
    Bundle::new(number, words)
}

/// The image of a random program.
pub fn image(seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut image = FRAME.to_vec();
    assert!(image.len() <= DATA);
    for number in 0..BUNDLES {
        let bundle = bundle(&mut random, BUNDLES - number);
        image[BODY + 16 * number..][..16].copy_from_slice(&bundle.bytes());
    }
    image.resize(DATA, 0);
    let special = [0, 1, u64::MAX, 1 << 63, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0001_0203_0405_0607];
    for _ in 0..BYTES / 8 {
        let value = if random.below(3) == 0 { special[random.below(8) as usize] } else { random.next() };
        image.extend(value.to_le_bytes());
    }
    image
}
