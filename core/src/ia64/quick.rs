//! Instructions as blocks keep them: the frequent ones with their operands ready to use. Any other one, and each case that
//! needs more than these operands, runs from its full form.

use super::ar;
use super::bundles::Decoded;
use super::state::SLOT_STEP;
use trapline_isa::ia64::bundle::Unit;
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::{After, Alu, Condition, Early, Float, Op, Part, Relation, Shift, Tested, Unary, Update, Value};

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick {
    pub what: What,
    /// The number of its qualifying predicate.
    pub predicate: u8,
    /// Whether it runs from its full form although its predicate is false.
    pub acts: bool,
    /// The number of instructions in front of it in the block.
    pub place: u8,
    /// The distance of its pc from the start of the block.
    pub offset: i16,
}

/// A comparison: the relations that make it true, as bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub bits: u8,
    /// Whether the result is the complement.
    pub inverted: bool,
    /// Whether the numbers have 32 bits.
    pub narrow: bool,
}

impl Test {
    pub const EQUAL: u8 = 1;
    pub const LESS: u8 = 2;
    pub const BELOW: u8 = 4;

    const fn of(relation: Relation, narrow: bool) -> Test {
        let (bits, inverted) = match relation {
            Relation::Equal => (Test::EQUAL, false),
            Relation::NotEqual => (Test::EQUAL, true),
            Relation::Less => (Test::LESS, false),
            Relation::Below => (Test::BELOW, false),
            Relation::LessOrEqual => (Test::LESS | Test::EQUAL, false),
            Relation::Greater => (Test::LESS | Test::EQUAL, true),
            Relation::GreaterOrEqual => (Test::LESS, true),
        };
        Test { bits, inverted, narrow }
    }

    /// Compares two numbers.
    #[inline(always)]
    pub const fn holds(self, a: u64, b: u64) -> bool {
        let unused = if self.narrow { 32 } else { 0 };
        // Numbers of 32 bits keep their unsigned order when they are extended by their sign.
        let (x, y) = ((a << unused) as i64 >> unused, (b << unused) as i64 >> unused);
        let found = (x == y) as u8 | ((x < y) as u8) << 1 | (((x as u64) < (y as u64)) as u8) << 2;
        (found & self.bits != 0) != self.inverted
    }
}

/// A load or a store of a general register. The base changes behind it by `after`, unless that is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub register: u8,
    pub at: u8,
    pub after: i16,
}

/// The operation of an instruction, with its operands. Targets are no register 0, and numbers of predicates differ.
#[rustfmt::skip]
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Any other instruction.
    Other,
    Nothing,
    Set { to: u8, value: u64 },
    Add { to: u8, a: u8, b: u8 },
    AddNumber { to: u8, from: u8, by: u64 },
    Sub { to: u8, a: u8, b: u8 },
    And { to: u8, a: u8, b: u8 },
    AndNumber { to: u8, from: u8, with: u64 },
    Or { to: u8, a: u8, b: u8 },
    OrNumber { to: u8, from: u8, with: u64 },
    Xor { to: u8, a: u8, b: u8 },
    /// Other arithmetic.
    Alu { what: Alu, to: u8, a: u8, b: u8 },
    AluNumber { what: Alu, to: u8, a: u64, b: u8 },
    ShiftAdd { to: u8, a: u8, count: u8, b: u8 },
    ShiftLeft { to: u8, from: u8, by: u8 },
    ShiftRight { signed: bool, to: u8, from: u8, by: u8 },
    ShiftPair { to: u8, a: u8, b: u8, count: u8 },
    /// The field is shifted to the top, and then down to the bottom.
    Extract { to: u8, from: u8, up: u8, down: u8 },
    ExtractSigned { to: u8, from: u8, up: u8, down: u8 },
    DepositZero { to: u8, from: u8, position: u8, mask: u64 },
    Deposit { to: u8, from: u8, into: u8, position: u8, length: u8 },
    Compare { test: Test, p: [u8; 2], a: u8, b: u8 },
    /// The number `a` is compared with a register.
    CompareNumber { test: Test, p: [u8; 2], a: i8, b: u8 },
    TestBit { nonzero: bool, p: [u8; 2], register: u8, bit: u8 },
    Load1(Place),
    Load2(Place),
    Load4(Place),
    Load8(Place),
    Store1(Place),
    Store2(Place),
    Store4(Place),
    Store8(Place),
    /// `ld8.fill` and `st8.spill`.
    Fill(Place),
    Spill(Place),
    FromBranch { to: u8, from: u8 },
    ToBranch { to: u8, from: u8 },
    FromPredicates { to: u8 },
    ToPredicates { from: u8, mask: u64 },
    /// An application register that is read and written without effects.
    FromApplication { to: u8, ar: u8 },
    ToApplication { ar: u8, from: u8 },
    /// `xma`.
    Multiply { part: Part, to: u8, a: u8, b: u8, c: u8 },
    /// `getf.sig` and `setf.sig`.
    GetSignificand { to: u8, from: u8 },
    SetSignificand { to: u8, from: u8 },
    /// `alloc`. The sizes are those of a frame marker, and the frame has `size` registers.
    Alloc { to: u8, size: u8, sizes: u32 },
    CheckSpeculation { register: u8 },
    Branch { distance: i64 },
    CountedLoop { distance: i64 },
    BranchIndirect { at: u8 },
    Call { link: u8, distance: i64 },
    CallIndirect { link: u8, at: u8 },
    Return { at: u8 },
}

/// Whether an application register can be written without any effect or check.
const fn is_plain(number: u8) -> bool {
    matches!(number, ar::CCV | ar::UNAT | ar::FPSR | ar::PFS | ar::LC)
}

impl Quick {
    /// The instruction in a slot of a bundle, which is behind `place` others and `offset` bytes of its block.
    pub fn of(bundle: &Decoded, slot: u32, place: u8, offset: i16) -> Quick {
        let none = Quick { what: What::Other, predicate: 0, acts: false, place, offset };
        let Some(instruction) = bundle.slots.get(slot as usize).copied().flatten() else { return none };
        let acts = super::single::acts_without_predicate(&instruction);
        Quick { what: what(&instruction, slot), predicate: instruction.predicate, acts, ..none }
    }

    /// Whether nothing but the pc changes behind the instruction.
    pub const fn does_nothing(&self) -> bool {
        matches!(self.what, What::Nothing)
    }
}

/// The distance of two pcs in the same page.
pub(super) fn distance(bundles: u64, slot: u32) -> i16 {
    (16 * bundles + u64::from(slot * SLOT_STEP)) as i16
}

fn what(instruction: &Instruction, slot: u32) -> What {
    let found = match instruction.op {
        // Blocks leave out instructions that do nothing, and need not know then which ones are long.
        _ if instruction.unit == Unit::X
            && !matches!(instruction.op, Op::MoveLong { .. } | Op::Branch { .. } | Op::BranchCall { .. }) =>
        {
            None
        }
        Op::Nop { .. } | Op::Hint { .. } | Op::Predict { .. } | Op::PredictIndirect { .. } => Some(What::Nothing),
        Op::Prefetch { count: false, after: After::Nothing, .. } => Some(What::Nothing),
        Op::CheckSpeculation { float: false, register, .. } => Some(What::CheckSpeculation { register }),
        Op::Alu { what, to, a: Value::Register(a), b } => Some(arithmetic(what, to, a, b)),
        Op::Alu { what, to, a: Value::Immediate(a), b } => Some(arithmetic_of_number(what, to, a as u64, b)),
        Op::ShiftAdd { pointer: false, to, a, count, b } => Some(What::ShiftAdd { to, a, count, b }),
        Op::MoveLong { to, value } => Some(What::Set { to, value }),
        Op::Compare { .. } | Op::Test { .. } => comparison(&instruction.op),
        Op::Unary { .. }
        | Op::Shift { .. }
        | Op::ShiftPair { .. }
        | Op::Extract { .. }
        | Op::DepositZero { .. }
        | Op::Deposit { .. } => field(&instruction.op),
        Op::Load { size, early: Early::No, fill, to, at, after, .. } => place(to, at, after).and_then(|place| {
            let is_legal = to != 0 && (place.after == 0 || to != at);
            is_legal.then_some(match size {
                8 if fill => What::Fill(place),
                1 => What::Load1(place),
                2 => What::Load2(place),
                4 => What::Load4(place),
                _ => What::Load8(place),
            })
        }),
        Op::Store { size, spill, from, at, after, .. } => place(from, at, after).map(|place| match size {
            8 if spill => What::Spill(place),
            1 => What::Store1(place),
            2 => What::Store2(place),
            4 => What::Store4(place),
            _ => What::Store8(place),
        }),
        Op::Branch { .. }
        | Op::BranchIndirect { .. }
        | Op::BranchCall { .. }
        | Op::BranchCallIndirect { .. }
        | Op::BranchReturn { .. } => branch(&instruction.op, slot),
        _ => movement(&instruction.op),
    };
    found.filter(|found| !writes_zero(found)).unwrap_or(What::Other)
}

/// Whether the target is register 0, which is illegal.
fn writes_zero(what: &What) -> bool {
    match *what {
        What::Set { to, .. }
        | What::Add { to, .. }
        | What::AddNumber { to, .. }
        | What::Sub { to, .. }
        | What::And { to, .. }
        | What::AndNumber { to, .. }
        | What::Or { to, .. }
        | What::OrNumber { to, .. }
        | What::Xor { to, .. }
        | What::Alu { to, .. }
        | What::AluNumber { to, .. }
        | What::ShiftAdd { to, .. }
        | What::ShiftLeft { to, .. }
        | What::ShiftRight { to, .. }
        | What::ShiftPair { to, .. }
        | What::Extract { to, .. }
        | What::ExtractSigned { to, .. }
        | What::DepositZero { to, .. }
        | What::Deposit { to, .. }
        | What::FromBranch { to, .. }
        | What::FromPredicates { to }
        | What::GetSignificand { to, .. }
        | What::FromApplication { to, .. }
        | What::Alloc { to, .. } => to == 0,
        _ => false,
    }
}

fn arithmetic(what: Alu, to: u8, a: u8, b: u8) -> What {
    match what {
        Alu::Add => What::Add { to, a, b },
        Alu::Sub => What::Sub { to, a, b },
        Alu::And => What::And { to, a, b },
        Alu::Or => What::Or { to, a, b },
        Alu::Xor => What::Xor { to, a, b },
        what => What::Alu { what, to, a, b },
    }
}

fn arithmetic_of_number(what: Alu, to: u8, a: u64, b: u8) -> What {
    match what {
        Alu::Add if b == 0 => What::Set { to, value: a },
        Alu::Add => What::AddNumber { to, from: b, by: a },
        Alu::And => What::AndNumber { to, from: b, with: a },
        Alu::Or => What::OrNumber { to, from: b, with: a },
        what => What::AluNumber { what, to, a, b },
    }
}

/// A comparison or a test of a bit, which writes the result and its complement.
fn comparison(op: &Op) -> Option<What> {
    match *op {
        Op::Compare { narrow, relation, update: Update::Both | Update::Unconditional, p, a, b } if p[0] != p[1] => {
            let test = Test::of(relation, narrow);
            Some(match a {
                Value::Register(a) => What::Compare { test, p, a, b },
                Value::Immediate(a) => What::CompareNumber { test, b, p, a: i8::try_from(a).ok()? },
            })
        }
        Op::Test { nonzero, update: Update::Both | Update::Unconditional, p, what: Tested::Bit { register, bit } }
            if p[0] != p[1] =>
        {
            Some(What::TestBit { nonzero, p, register, bit })
        }
        _ => None,
    }
}

/// The lowest `length` bits, which are 1 to 64.
const fn low(length: u8) -> u64 {
    u64::MAX >> (64 - length as u32)
}

/// A shift, or an operation on a bit field.
fn field(op: &Op) -> Option<What> {
    let extract = |signed: bool, to: u8, from: u8, position: u8, length: u8| {
        let (up, down) = (64 - length - position, 64 - length);
        if signed { What::ExtractSigned { to, from, up, down } } else { What::Extract { to, from, up, down } }
    };
    match *op {
        Op::Unary { what: Unary::ZeroExtend(size), to, from } => Some(extract(false, to, from, 0, 8 * size)),
        Op::Unary { what: Unary::SignExtend(size), to, from } => Some(extract(true, to, from, 0, 8 * size)),
        Op::Extract { signed, to, from, position, length } => {
            Some(extract(signed, to, from, position, length.min(64 - position)))
        }
        Op::Shift { what: Shift::Left, to, from, by } => Some(What::ShiftLeft { to, from, by }),
        Op::Shift { what, to, from, by } => Some(What::ShiftRight { signed: what == Shift::Right, to, from, by }),
        Op::ShiftPair { to, a, b, count } => Some(What::ShiftPair { to, a, b, count }),
        Op::DepositZero { to, from: Value::Register(from), position, length } => {
            Some(What::DepositZero { to, from, position, mask: low(length) })
        }
        Op::DepositZero { to, from: Value::Immediate(value), position, length } => {
            Some(What::Set { to, value: (value as u64 & low(length)) << position })
        }
        Op::Deposit { to, from: Value::Register(from), into, position, length } => {
            Some(What::Deposit { to, from, into, position, length })
        }
        Op::Deposit { to, from: Value::Immediate(value), into, position, length } => {
            let mask = low(length) << position;
            match (value as u64) << position & mask {
                0 => Some(What::AndNumber { to, from: into, with: !mask }),
                value if value == mask => Some(What::OrNumber { to, from: into, with: mask }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The operands of a load or a store. `None` if it adds a register or 0 to its base.
fn place(register: u8, at: u8, after: After) -> Option<Place> {
    let after = match after {
        After::Nothing => 0,
        After::Add(Value::Immediate(by)) if by != 0 && at != 0 => i16::try_from(by).ok()?,
        After::Add(_) => return None,
    };
    Some(Place { register, at, after })
}

fn branch(op: &Op, slot: u32) -> Option<What> {
    match *op {
        Op::Branch { condition: Condition::Predicate, distance, .. } => Some(What::Branch { distance }),
        Op::Branch { condition: Condition::CountedLoop, distance, .. } if slot == 2 => Some(What::CountedLoop { distance }),
        Op::BranchIndirect { at, .. } => Some(What::BranchIndirect { at }),
        Op::BranchCall { link, distance, .. } => Some(What::Call { link, distance }),
        Op::BranchCallIndirect { link, at, .. } => Some(What::CallIndirect { link, at }),
        Op::BranchReturn { at, .. } => Some(What::Return { at }),
        _ => None,
    }
}

fn movement(op: &Op) -> Option<What> {
    match *op {
        // Floating-point registers 0 and 1 are no targets.
        Op::MultiplyAdd { part, to, a, b, c } if to > 1 => Some(What::Multiply { part, to, a, b, c }),
        Op::SetFloat { format: Float::Integer, to, from } if to > 1 => Some(What::SetSignificand { to, from }),
        Op::GetFloat { format: Float::Integer, to, from } => Some(What::GetSignificand { to, from }),
        Op::MoveFromBranch { to, from } => Some(What::FromBranch { to, from }),
        Op::MoveToBranch { to, from, .. } => Some(What::ToBranch { to, from }),
        Op::MovePredicates { to } => Some(What::FromPredicates { to }),
        Op::MoveToPredicates { from, mask } => Some(What::ToPredicates { from, mask }),
        Op::MoveFromAr { to, ar } if is_plain(ar) || ar < 8 => Some(What::FromApplication { to, ar }),
        Op::MoveToAr { ar, from: Value::Register(from) } if is_plain(ar) => Some(What::ToApplication { ar, from }),
        Op::Alloc { to, frame: size, locals, rotating } => {
            let is_legal = size <= 96 && locals <= size && rotating <= size && u32::from(to) < 32 + u32::from(size);
            let sizes = u32::from(size) | u32::from(locals) << 7 | u32::from(rotating / 8) << 14;
            is_legal.then_some(What::Alloc { to, size, sizes })
        }
        _ => None,
    }
}
