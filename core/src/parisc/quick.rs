//! Instructions as blocks keep them: the frequent ones with their operands ready to use, for the loop in `straight.rs`. Any other
//! one, and each case that needs more than these operands, runs from its full form.

use super::decode::{Kind, Op, operand};
use super::number;
use trapline_isa::parisc::fields::{bits, opcode, signed5, signed14, space3};

/// An instruction of a block. The fields' meanings are those in [`What`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick {
    pub what: What,
    pub a: u8,
    pub b: u8,
    pub t: u8,
    pub number: u32,
    pub other: u32,
}

/// The operation of an instruction. It sets register `t`, which is not r0 unless the comment says so. A `Test` nullifies the next
/// instruction if its condition holds, and its `t` may be r0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    /// Any other instruction.
    Other,
    Nothing,
    /// `number`
    Set,
    /// b
    Copy,
    /// a + `number`
    AddOffset,
    And,
    Or,
    Xor,
    AndComplement,
    /// The condition is in `other`.
    AndTest,
    OrTest,
    XorTest,
    AndComplementTest,
    /// (b << `number`) + a, without carries.
    AddLogical,
    /// (b << `number`) + a. `t` may be r0.
    Add,
    AddCarry,
    Subtract,
    SubtractBorrow,
    /// `number` + a and `number` - a. `t` may be r0.
    AddNumber,
    SubtractNumber,
    /// The condition is in `other`.
    AddTest,
    SubtractTest,
    AddNumberTest,
    SubtractNumberTest,
    CompareClear,
    CompareNumberClear,
    ShiftPair,
    ShiftPairBySar,
    /// a >> `number` & `other`
    Extract,
    /// The condition is in b.
    ExtractTest,
    ExtractBySar,
    /// `other` is the number of bits on the left of the field.
    ExtractSigned,
    ExtractSignedBySar,
    /// b << `number`; the mask is `other`. The rest is 0, or remains.
    DepositZero,
    Deposit,
    /// The number is `number`, and the mask of what remains `other`.
    DepositNumber,
    /// `other` is the mask at the right end.
    DepositZeroBySar,
    DepositZeroNumberBySar,
    /// Loads at a + `number`, and stores of t, which may be r0. b is the space register.
    LoadByte,
    LoadHalf,
    LoadWord,
    StoreByte,
    StoreHalf,
    StoreWord,
    /// Loads at a + (register `other` << `number`).
    LoadByteIndexed,
    LoadHalfIndexed,
    LoadWordIndexed,
    /// Accesses at a + `other`, which add `number` to a.
    LoadByteMoved,
    LoadHalfMoved,
    LoadWordMoved,
    StoreByteMoved,
    StoreHalfMoved,
    StoreWordMoved,
    /// Branches to the pc + `number`. t has a condition and, above it, the cases in which they nullify. The operand is register b
    /// or `other`.
    CompareBranch,
    CompareNumberBranch,
    AddBranch,
    AddNumberBranch,
    BitBranch,
    BitBranchBySar,
    MoveBranch,
    MoveNumberBranch,
    /// The link register is a, or there is none.
    Near,
    ByPairs,
    Vectored,
    /// A control register a without effects, which programs may not access unless it is the shift amount.
    FromControl,
    /// Sets a control register a to b.
    ToControl,
    /// The space register `number`.
    FromSpace,
    /// Sets the space register `number` to b.
    ToSpace,
}

/// A condition: bits of the relations that make it true, and bit 3 if it is negated.
#[inline(always)]
pub(super) fn holds(condition: u8, found: u8) -> bool {
    (found & condition & 7 != 0) != (condition & 8 != 0)
}

/// The relations of two numbers as bits. The numbers of the conditions =, <, <=, << and <<= are the bits of their relations.
#[inline(always)]
pub(super) fn relations(x: u32, y: u32) -> u8 {
    (x == y) as u8 | (((x as i32) < y as i32) as u8) << 1 | ((x < y) as u8) << 2
}

/// The properties of a sum as bits, for the conditions =, <, <=, NUV and ZNV.
#[inline(always)]
pub(super) fn properties(x: u32, y: u32, value: u32) -> u8 {
    let overflow = (!(x ^ y) & (x ^ value)) >> 31 != 0;
    let less = ((value as i32) < 0) != overflow;
    (value == 0) as u8 | (less as u8) << 1 | ((value >= x) as u8) << 2
}

/// The properties of one word as bits: zero, negative, odd.
#[inline(always)]
pub(super) fn word(value: u32) -> u8 {
    (value == 0) as u8 | (((value as i32) < 0) as u8) << 1 | ((value & 1) as u8) << 2
}

/// The condition of a shift or a move as bits of [`word`].
fn of_word(condition: u8) -> u8 {
    [0, 1, 2, 4][usize::from(condition & 3)] | (condition & 4) << 1
}

/// The cases in which a branch nullifies its slot, above its condition: bit 4 if it is not taken, bit 5 if it is.
fn nullifies(op: &Op) -> u8 {
    match op.word & 2 {
        0 => 0,
        _ if (op.kind as u8) < Kind::Near as u8 && (op.number as i32) < 0 => 1 << 4,
        _ => 1 << 5,
    }
}

impl Quick {
    /// The short form of an instruction.
    pub fn of(op: &Op) -> Quick {
        let quick = Quick { what: What::Other, a: op.a, b: op.b, t: op.t, number: op.number, other: op.condition.into() };
        // It has an effect only if its target is not r0.
        let sets = |what: What, t: u8| Quick { what: if t == 0 { What::Nothing } else { what }, t, ..quick };
        let tests = |what: What, tested: What, t: u8| match op.condition {
            0 => Quick { what, t, ..quick },
            condition if condition & 7 <= 5 => Quick { what: tested, t, ..quick },
            _ => quick,
        };
        let logic = |what: What, tested: What| match op.condition {
            0 => sets(what, op.t),
            condition if condition & 7 <= 3 => Quick { what: tested, ..quick },
            _ => quick,
        };
        let is_plain = op.condition == 0;
        match op.kind {
            Kind::Nothing => Quick { what: What::Nothing, ..quick },
            Kind::Copy => sets(What::Copy, op.t),
            Kind::AndComplement => logic(What::AndComplement, What::AndComplementTest),
            Kind::And => logic(What::And, What::AndTest),
            Kind::Or => logic(What::Or, What::OrTest),
            Kind::Xor => logic(What::Xor, What::XorTest),
            Kind::CompareClear => tests(What::CompareClear, What::CompareClear, op.t),
            Kind::CompareImmediateClear => tests(What::CompareNumberClear, What::CompareNumberClear, op.b),
            Kind::Add if is_plain || op.number == 0 => tests(What::Add, What::AddTest, op.t),
            Kind::AddLogical if is_plain => sets(What::AddLogical, op.t),
            Kind::AddCarry if is_plain => Quick { what: What::AddCarry, ..quick },
            Kind::Subtract => tests(What::Subtract, What::SubtractTest, op.t),
            Kind::SubtractBorrow if is_plain => Quick { what: What::SubtractBorrow, ..quick },
            Kind::AddImmediate => tests(What::AddNumber, What::AddNumberTest, op.b),
            Kind::SubtractImmediate => tests(What::SubtractNumber, What::SubtractNumberTest, op.b),
            Kind::Set => sets(What::Set, op.a),
            Kind::AddLeft if op.a == 0 => sets(What::Set, 1),
            Kind::AddLeft => sets(What::AddOffset, 1),
            Kind::AddOffset if op.a == 0 => sets(What::Set, op.b),
            Kind::AddOffset => sets(What::AddOffset, op.b),
            Kind::ShiftPair if is_plain => sets(What::ShiftPair, op.t),
            Kind::ShiftPairBySar if is_plain => sets(What::ShiftPairBySar, op.t),
            Kind::Extract | Kind::ExtractBySar | Kind::ExtractSigned | Kind::ExtractSignedBySar => Quick::extract(quick, op),
            Kind::Deposit if is_plain => Quick::deposit(quick, op),
            Kind::LoadByte => quick.load(What::LoadByte, op.b, op),
            Kind::LoadHalf => quick.load(What::LoadHalf, op.b, op),
            Kind::LoadWord => quick.load(What::LoadWord, op.b, op),
            Kind::StoreByte => Quick { what: What::StoreByte, t: op.b, b: op.space, ..quick },
            Kind::StoreHalf => Quick { what: What::StoreHalf, t: op.b, b: op.space, ..quick },
            Kind::StoreWord => Quick { what: What::StoreWord, t: op.b, b: op.space, ..quick },
            Kind::Access => Quick::access(quick, op),
            Kind::System => Quick::system(quick, op),
            _ if op.is_branch() => Quick::branch(quick, op),
            _ => quick,
        }
    }

    /// A load, unless its target is r0.
    fn load(self, what: What, t: u8, op: &Op) -> Quick {
        Quick { what: if t == 0 { What::Other } else { what }, t, b: op.space, ..self }
    }

    fn extract(quick: Quick, op: &Op) -> Quick {
        let (what, other) = match op.kind {
            Kind::Extract => (What::Extract, u32::MAX >> op.t),
            Kind::ExtractBySar => (What::ExtractBySar, u32::MAX >> op.t),
            Kind::ExtractSigned => (What::ExtractSigned, op.t.into()),
            _ => (What::ExtractSignedBySar, op.t.into()),
        };
        match op.condition {
            0 if op.b == 0 => Quick { what: What::Nothing, ..quick },
            0 => Quick { what, t: op.b, other, ..quick },
            condition if what == What::Extract => {
                Quick { what: What::ExtractTest, t: op.b, b: of_word(condition), other, ..quick }
            }
            _ => quick,
        }
    }

    fn deposit(quick: Quick, op: &Op) -> Quick {
        let code = bits(op.word, 19, 21);
        let (is_by_sar, is_number, merges) = (code & 2 == 0, code >= 4, code & 1 != 0);
        let field = u32::MAX >> op.t;
        let (left, source) = (bits(op.word, 22, 26), signed5(op.b.into()) as u32);
        let mask = field << left;
        let (what, number, other) = match (is_by_sar, is_number, merges) {
            _ if op.a == 0 => (What::Nothing, 0, 0),
            (false, false, false) => (What::DepositZero, left, mask),
            (false, false, true) => (What::Deposit, left, mask),
            (false, true, false) => (What::Set, source << left & mask, 0),
            (false, true, true) => (What::DepositNumber, source << left & mask, !mask),
            (true, false, false) => (What::DepositZeroBySar, 0, field),
            (true, true, false) => (What::DepositZeroNumberBySar, source, field),
            (true, _, true) => (What::Other, 0, 0),
        };
        Quick { what, t: op.a, number, other, ..quick }
    }

    /// An access with an index or a short displacement, or one that changes its base.
    fn access(quick: Quick, op: &Op) -> Quick {
        let word = op.word;
        let quick = Quick { b: op.space, ..quick };
        // The base and a loaded register differ, and the base is not r0.
        let moves = |what: What, t: u8, is_load: bool, before: bool, distance: i32| {
            let is_simple = op.a != 0 && !(is_load && (t == op.a || t == 0));
            let (number, other) = (distance as u32, if before { distance as u32 } else { 0 });
            Quick { what: if is_simple { what } else { What::Other }, t, number, other, ..quick }
        };
        let long = signed14(word);
        match opcode(word) {
            0x13 => return moves(What::LoadWordMoved, op.b, true, long < 0, long),
            0x1b => return moves(What::StoreWordMoved, op.b, false, long < 0, long),
            _ => {}
        }
        let (is_short, modifies, first) = (bits(word, 19, 19) != 0, bits(word, 26, 26) != 0, bits(word, 18, 18) != 0);
        let size = usize::from(op.word as u8 >> 6) & 3;
        let code = bits(word, 22, 25);
        let (is_load, is_store) = (code <= 2, (8..=10).contains(&code));
        match (is_short, modifies) {
            (true, false) if is_load => {
                let what = [What::LoadByte, What::LoadHalf, What::LoadWord, What::Other][size];
                Quick { number: signed5(op.b.into()) as u32, ..quick }.load(what, op.t, op)
            }
            (true, true) if is_load => {
                let what = [What::LoadByteMoved, What::LoadHalfMoved, What::LoadWordMoved, What::Other][size];
                moves(what, op.t, true, first, signed5(op.b.into()))
            }
            (true, false) if is_store => {
                let what = [What::StoreByte, What::StoreHalf, What::StoreWord, What::Other][size];
                Quick { what, t: op.b, number: signed5(op.t.into()) as u32, ..quick }
            }
            (true, true) if is_store => {
                let what = [What::StoreByteMoved, What::StoreHalfMoved, What::StoreWordMoved, What::Other][size];
                moves(what, op.b, false, first, signed5(op.t.into()))
            }
            (false, false) if is_load => {
                let what = [What::LoadByteIndexed, What::LoadHalfIndexed, What::LoadWordIndexed, What::Other][size];
                Quick { number: if first { size as u32 } else { 0 }, other: op.b.into(), ..quick }.load(what, op.t, op)
            }
            _ => quick,
        }
    }

    /// An instruction that moves to or from a register that has no effects. It ends its block like all system instructions.
    fn system(quick: Quick, op: &Op) -> Quick {
        let code = bits(op.word, 19, 26);
        let is_plain = matches!(usize::from(op.a), number::SAR | 24..=31);
        let what = match code {
            0x25 if op.t != 0 => What::FromSpace,
            0x45 if op.t != 0 && (is_plain || matches!(usize::from(op.a), number::IIASQ..=number::IPSW)) => What::FromControl,
            0xc1 => What::ToSpace,
            0xc2 if is_plain => What::ToControl,
            _ => What::Other,
        };
        Quick { what, number: space3(op.word), ..quick }
    }

    fn branch(quick: Quick, op: &Op) -> Quick {
        let what = match op.kind {
            Kind::CompareBranch => What::CompareBranch,
            Kind::CompareImmediateBranch => What::CompareNumberBranch,
            Kind::AddBranch => What::AddBranch,
            Kind::AddImmediateBranch => What::AddNumberBranch,
            Kind::BitBranch => What::BitBranch,
            Kind::BitBranchBySar => What::BitBranchBySar,
            Kind::MoveBranch => What::MoveBranch,
            Kind::MoveImmediateBranch => What::MoveNumberBranch,
            Kind::Near => What::Near,
            Kind::ByPairs => What::ByPairs,
            Kind::Vectored => What::Vectored,
            _ => return quick,
        };
        let condition = match what {
            What::CompareBranch | What::CompareNumberBranch | What::AddBranch | What::AddNumberBranch => {
                if op.condition & 7 > 5 {
                    return quick;
                }
                op.condition
            }
            What::MoveBranch | What::MoveNumberBranch => of_word(op.condition),
            // The word of the bit is negative or not.
            What::BitBranch | What::BitBranchBySar => 2 | op.condition << 3,
            _ => 0,
        };
        Quick { what, t: condition | nullifies(op), number: op.number.wrapping_add(8), other: operand(op), ..quick }
    }
}
