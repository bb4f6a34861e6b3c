//! Decodes an instruction word to an [`Op`], the form in which the core executes it.

use trapline_isa::parisc::fields::{
    bits, distance12, distance17, distance22, left21, opcode, signed5, signed11, signed14, space3,
};

/// An instruction's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Nothing,
    Copy,
    AndComplement,
    And,
    Or,
    Xor,
    UnitXor,
    UnitAdd,
    UnitAddTrap,
    Decimal,
    DecimalIntermediate,
    CompareClear,
    DivideStep,
    /// `add` and `sh1add` to `sh3add`. `number` is the shift of the first operand.
    Add,
    AddLogical,
    AddOverflow,
    AddCarry,
    AddCarryOverflow,
    Subtract,
    SubtractTrap,
    SubtractOverflow,
    SubtractTrapOverflow,
    SubtractBorrow,
    SubtractBorrowOverflow,
    AddImmediate,
    AddImmediateOverflow,
    AddImmediateTrap,
    AddImmediateTrapOverflow,
    SubtractImmediate,
    SubtractImmediateOverflow,
    CompareImmediateClear,
    /// Sets register a to `number`.
    Set,
    AddLeft,
    /// Sets b to the sum of a and `number`.
    AddOffset,
    LoadByte,
    LoadHalf,
    LoadWord,
    StoreByte,
    StoreHalf,
    StoreWord,
    /// A load or store that changes its base register or has an index (`access.rs`).
    Access,
    ShiftPairBySar,
    ShiftPair,
    Extract,
    ExtractSigned,
    ExtractBySar,
    ExtractSignedBySar,
    Deposit,
    CompareBranch,
    CompareImmediateBranch,
    AddBranch,
    AddImmediateBranch,
    BitBranchBySar,
    BitBranch,
    MoveBranch,
    MoveImmediateBranch,
    Near,
    Gate,
    ByPairs,
    Vectored,
    Base,
    Space,
    SpaceAndLink,
    System,
    Manage,
    Diagnose,
    Assist,
    Illegal,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    /// The condition in bits 0 to 2, and whether it is negated in bit 3.
    pub condition: u8,
    /// The register in bits 6 to 10.
    pub a: u8,
    /// The register in bits 11 to 15.
    pub b: u8,
    /// The register in bits 27 to 31.
    pub t: u8,
    /// The number of the space register. For an access 0 means that the top address bits choose one of sr4 to sr7.
    pub space: u8,
    /// The immediate operand, by kind: an addend, a shift, or a branch's distance.
    pub number: u32,
    /// The instruction word.
    pub word: u32,
}

impl Op {
    /// Whether it is a branch.
    pub fn is_branch(&self) -> bool {
        self.kind as u8 >= Kind::CompareBranch as u8 && self.kind as u8 <= Kind::SpaceAndLink as u8
    }

    /// Whether the next instruction may run as its delay slot. If not, the branch nullifies it when it is taken.
    pub fn has_slot(&self) -> bool {
        let is_conditional = (self.kind as u8) < Kind::Near as u8;
        self.word & 2 == 0 || is_conditional && (self.number as i32) < 0
    }

    /// Whether it is `break`, which is always an exception.
    pub fn is_break(&self) -> bool {
        self.word & 0xfc00_1fe0 == 0
    }

    /// Whether the block must end behind it, because it may change the state by which blocks are found: the PSW, the
    /// TLB, the queue.
    pub fn ends_block(&self) -> bool {
        matches!(self.kind, Kind::System | Kind::Manage | Kind::Diagnose | Kind::Illegal | Kind::Assist) && !self.is_break()
    }
}

/// Decodes a word.
pub fn decode(word: u32) -> Op {
    let condition = (bits(word, 16, 18) | bits(word, 19, 19) << 3) as u8;
    let [a, b, t] = [bits(word, 6, 10), bits(word, 11, 15), bits(word, 27, 31)].map(|field| field as u8);
    let space = bits(word, 16, 17) as u8;
    let op = Op { kind: Kind::Illegal, condition, a, b, t, space, number: 0, word };
    let of = |kind: Kind| Op { kind, ..op };
    let with = |kind: Kind, number: u32| Op { kind, number, ..op };
    let shifts = Op { condition: bits(word, 16, 18) as u8, ..op };
    match opcode(word) {
        0x00 if matches!(word, 0x0400 | 0x0010_0400) => of(Kind::Nothing),
        0x00 => of(Kind::System),
        0x01 => of(Kind::Manage),
        0x02 => arithmetic(op),
        0x03 => of(Kind::Access),
        0x05 => of(Kind::Diagnose),
        0x08 => with(Kind::Set, left21(word)),
        0x0a => with(Kind::AddLeft, left21(word)),
        0x0d => with(Kind::AddOffset, signed14(word) as u32),
        0x10 => with(Kind::LoadByte, signed14(word) as u32),
        0x11 => with(Kind::LoadHalf, signed14(word) as u32),
        0x12 => with(Kind::LoadWord, signed14(word) as u32),
        0x18 => with(Kind::StoreByte, signed14(word) as u32),
        0x19 => with(Kind::StoreHalf, signed14(word) as u32),
        0x1a => with(Kind::StoreWord, signed14(word) as u32),
        0x13 | 0x1b => of(Kind::Access),
        0x04 | 0x06 | 0x09 | 0x0b | 0x0c | 0x0e | 0x26 | 0x2e => of(Kind::Assist),
        0x20 | 0x22 => branch(op, Kind::CompareBranch),
        0x21 | 0x23 => branch(op, Kind::CompareImmediateBranch),
        0x24 if word & 0x800 == 0 => with(Kind::CompareImmediateClear, signed11(word) as u32),
        0x25 if word & 0x800 == 0 => with(Kind::SubtractImmediate, signed11(word) as u32),
        0x25 => with(Kind::SubtractImmediateOverflow, signed11(word) as u32),
        0x28 | 0x2a => branch(op, Kind::AddBranch),
        0x29 | 0x2b => branch(op, Kind::AddImmediateBranch),
        0x2c if word & 0x800 == 0 => with(Kind::AddImmediateTrap, signed11(word) as u32),
        0x2c => with(Kind::AddImmediateTrapOverflow, signed11(word) as u32),
        0x2d if word & 0x800 == 0 => with(Kind::AddImmediate, signed11(word) as u32),
        0x2d => with(Kind::AddImmediateOverflow, signed11(word) as u32),
        0x30 => branch(op, Kind::BitBranchBySar),
        0x31 => branch(op, Kind::BitBranch),
        0x32 => branch(op, Kind::MoveBranch),
        0x33 => branch(op, Kind::MoveImmediateBranch),
        0x34 => match bits(word, 19, 21) {
            0 => Op { kind: Kind::ShiftPairBySar, ..shifts },
            2 => Op { kind: Kind::ShiftPair, number: 31 - bits(word, 22, 26), ..shifts },
            4 => Op { kind: Kind::ExtractBySar, ..shifts },
            5 => Op { kind: Kind::ExtractSignedBySar, ..shifts },
            6 => Op { kind: Kind::Extract, number: 31 - bits(word, 22, 26), ..shifts },
            7 => Op { kind: Kind::ExtractSigned, number: 31 - bits(word, 22, 26), ..shifts },
            _ => op,
        },
        0x35 => Op { kind: Kind::Deposit, ..shifts },
        0x38 | 0x39 => {
            let kind = if opcode(word) == 0x38 { Kind::Space } else { Kind::SpaceAndLink };
            Op { kind, space: space3(word) as u8, number: distance17(word) as u32, ..op }
        }
        0x3a => match (bits(word, 16, 18), bits(word, 19, 19)) {
            (0, _) => with(Kind::Near, distance17(word) as u32),
            (1, _) => with(Kind::Gate, distance17(word) as u32),
            (2, _) => of(Kind::ByPairs),
            (4 | 5, _) => Op { kind: Kind::Near, a: 2, number: distance22(word) as u32, ..op },
            (6, 0) => of(Kind::Vectored),
            (6 | 7, 1) => of(Kind::Base),
            _ => op,
        },
        _ => op,
    }
}

/// A branch with a condition. The negation is in its opcode; its operand may be in the place of register b.
fn branch(op: Op, kind: Kind) -> Op {
    let negated = (opcode(op.word) & 2) as u8;
    let condition = match kind {
        Kind::MoveBranch | Kind::MoveImmediateBranch => op.condition & 7,
        Kind::BitBranch | Kind::BitBranchBySar => op.condition >> 2 & 1,
        _ => op.condition & 7 | negated << 2,
    };
    Op { kind, condition, number: distance12(op.word) as u32, ..op }
}

/// The immediate operand of a conditional branch.
pub fn operand(op: &Op) -> u32 {
    signed5(op.b.into()) as u32
}

fn arithmetic(op: Op) -> Op {
    let code = bits(op.word, 20, 25);
    if bits(op.word, 26, 26) != 0 {
        return op;
    }
    let kind = match code {
        0x09 if op.condition == 0 && op.a == 0 => Kind::Copy,
        0x00 => Kind::AndComplement,
        0x08 => Kind::And,
        0x09 => Kind::Or,
        0x0a => Kind::Xor,
        0x0e => Kind::UnitXor,
        0x10 => Kind::Subtract,
        0x11 => Kind::DivideStep,
        0x13 => Kind::SubtractTrap,
        0x14 => Kind::SubtractBorrow,
        0x18..=0x1b => Kind::Add,
        0x1c => Kind::AddCarry,
        0x22 => Kind::CompareClear,
        0x26 => Kind::UnitAdd,
        0x27 => Kind::UnitAddTrap,
        0x28..=0x2b => Kind::AddLogical,
        0x2e => Kind::Decimal,
        0x2f => Kind::DecimalIntermediate,
        0x30 => Kind::SubtractOverflow,
        0x33 => Kind::SubtractTrapOverflow,
        0x34 => Kind::SubtractBorrowOverflow,
        0x38..=0x3b => Kind::AddOverflow,
        0x3c => Kind::AddCarryOverflow,
        _ => return op,
    };
    let shift = if matches!(kind, Kind::Add | Kind::AddLogical | Kind::AddOverflow) { code & 3 } else { 0 };
    Op { kind, number: shift, ..op }
}
