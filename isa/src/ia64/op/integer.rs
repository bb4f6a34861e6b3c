//! Operands and kinds of the integer instructions of IA-64: arithmetic, comparisons, tests of bits, shifts and merges.
//!
//! The decoder puts them into an [`Op`](super::Op), for the core that executes it and for the disassembler. [`Value`] is
//! the operand that may be a register or an immediate. The other types are closed lists of operations.

/// A number that an instruction has as a register or as an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A general register.
    Register(u8),
    /// A number.
    Immediate(i64),
}

/// Integer arithmetic and logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    /// The sum.
    Add,
    /// The sum plus 1.
    AddOne,
    /// The difference.
    Sub,
    /// The difference minus 1.
    SubOne,
    /// The sum as a 32-bit pointer: bits 31 and 30 of the second operand become bits 62 and 61.
    AddPointer,
    /// Bitwise and.
    And,
    /// Bitwise and with the complement of the second operand.
    AndComplement,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// The relation of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less, signed.
    Less,
    /// Less, unsigned.
    Below,
    /// Less or equal, signed.
    LessOrEqual,
    /// Greater, signed.
    Greater,
    /// Greater or equal, signed.
    GreaterOrEqual,
}

/// The way in which a comparison or a test writes its two predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The result and its complement.
    Both,
    /// The result and its complement; both are cleared if the qualifying predicate is false.
    Unconditional,
    /// Both are cleared if the result is false.
    And,
    /// Both are set if the result is true.
    Or,
    /// The first is set and the second is cleared if the result is true.
    OrAndComplement,
}

/// The bit that `tbit`, `tnat` or `tf` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// A bit of a general register.
    Bit {
        /// The number of the general register.
        register: u8,
        /// The bit's number.
        bit: u8,
    },
    /// The NaT bit of a general register.
    Nat(u8),
    /// A feature of the CPU, 32 to 63.
    Feature(u8),
}

/// An operation on one general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Zero-extends this number of low bytes (`zxt`).
    ZeroExtend(u8),
    /// Sign-extends this number of low bytes (`sxt`).
    SignExtend(u8),
    /// The index of the first zero element from the left (`czx.l`). The number is the element's size in bytes.
    ZeroIndexLeft(u8),
    /// The index of the first zero element from the right (`czx.r`). The number is the element's size in bytes.
    ZeroIndexRight(u8),
    /// The number of bits that are set.
    CountOnes,
    /// The number of zero bits above the highest set one.
    CountLeadingZeros,
    /// A permutation of the bytes, by the code in the instruction.
    Bytes(u8),
    /// A permutation of the 16-bit parts: 2 bits for each one.
    Halves(u8),
}

/// A shift by a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// A shift to the left (`shl`).
    Left,
    /// An arithmetic shift to the right (`shr`).
    Right,
    /// A logical shift to the right (`shr.u`).
    UnsignedRight,
}

/// A combination of parts of two general registers that integer code uses, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// `mix`: the even or the odd elements of both, interleaved.
    Mix,
    /// `unpack`: the elements of one half of both, interleaved.
    Unpack,
}
