//! The kinds of floating-point instruction of IA-64: formats in memory, precisions, and kinds of multiplication.
//!
//! [`Float`] is the format that a load, a store or a move converts. [`Fma`] with [`Precision`] describes the fused
//! multiplication and addition, and [`Part`] the integer multiplication in floating-point registers.

/// The format of a floating-point number in memory or in a general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// 80 bits.
    Extended,
    /// The significand.
    Integer,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
    /// Sign and exponent.
    Exponent,
    /// Any contents of the register: `ldf.fill` and `stf.spill`.
    Whole,
}

/// The part of a product that `xma` keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The low half.
    Low,
    /// The high half of an unsigned product.
    HighUnsigned,
    /// The high half of a signed product.
    High,
}

/// The kinds of floating-point multiplication and addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fma {
    /// `a` * `b` + `c`.
    Add,
    /// `a` * `b` - `c`.
    Subtract,
    /// -(`a` * `b`) + `c`.
    Negate,
}

/// The precision of a floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The precision in the status field (`pc` in `ar.fpsr`).
    Dynamic,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
    /// Two 32-bit numbers in one register.
    Parallel,
}
