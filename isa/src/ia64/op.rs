//! The operation of an IA-64 instruction, decoded: its kind with its operands. Registers are numbers as the instruction
//! has them, before rotation.

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

/// A branch's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The qualifying predicate.
    Predicate,
    /// `br.wexit`.
    WhileExit,
    /// `br.wtop`.
    WhileTop,
    /// `br.cloop`.
    CountedLoop,
    /// `br.cexit`.
    CountedExit,
    /// `br.ctop`.
    CountedTop,
}

/// A register file with an index in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// Region registers.
    Rr,
    /// Data breakpoints.
    Dbr,
    /// Instruction breakpoints.
    Ibr,
    /// Protection keys.
    Pkr,
    /// Performance monitors' configuration.
    Pmc,
    /// Performance monitors' data.
    Pmd,
    /// Registers of a model.
    Msr,
    /// CPU identification.
    Cpuid,
    /// Hints of data accesses.
    Dahr,
}

/// The way in which a load may be early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// An ordinary load.
    No,
    /// Speculative: a fault sets NaT instead.
    Speculative,
    /// Advanced: an entry of the ALAT is made.
    Advanced,
    /// Speculative and advanced (`ld.sa`).
    SpeculativeAdvanced,
    /// A check that clears the entry: loads only if the ALAT has none.
    CheckClear,
    /// A check that keeps the entry.
    CheckKeep,
}

/// The change of the base register behind an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// None.
    Nothing,
    /// A number or register is added.
    Add(Value),
}

/// The order of an access among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None.
    Free,
    /// Acquire.
    Acquire,
    /// Release.
    Release,
    /// A hint that a store follows.
    Bias,
}

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

/// A system instruction without further operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names are the mnemonics.
pub enum System {
    Invala,
    Fwb,
    Mf,
    MfA,
    SrlzD,
    SrlzI,
    SyncI,
    Loadrs,
    Flushrs,
    Cover,
    Clrrrb,
    ClrrrbPr,
    Rfi,
    Bsw0,
    Bsw1,
    Epc,
    Vmsw0,
    Vmsw1,
}

/// The TLB instructions and others with two registers and no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names are the mnemonics.
pub enum Tlb {
    PtcL,
    PtcG,
    PtcGa,
    PtrD,
    PtrI,
    ItrD,
    ItrI,
}

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the operands, named by their role.
pub enum Op {
    /// Arithmetic: `to` = `a` with `b`.
    Alu {
        what: Alu,
        to: u8,
        a: Value,
        b: u8,
    },
    /// `shladd` and `shladdp4`.
    ShiftAdd {
        pointer: bool,
        to: u8,
        a: u8,
        count: u8,
        b: u8,
    },
    /// `cmp` and `cmp4`.
    Compare {
        narrow: bool,
        relation: Relation,
        update: Update,
        p: [u8; 2],
        a: Value,
        b: u8,
    },
    /// `tbit`, `tnat` and `tf`; the result is whether the bit is 0, or 1 if `nonzero`.
    Test {
        nonzero: bool,
        update: Update,
        p: [u8; 2],
        what: Tested,
    },
    Unary {
        what: Unary,
        to: u8,
        from: u8,
    },
    Shift {
        what: Shift,
        to: u8,
        from: u8,
        by: u8,
    },
    ShiftPair {
        to: u8,
        a: u8,
        b: u8,
        count: u8,
    },
    Extract {
        signed: bool,
        to: u8,
        from: u8,
        position: u8,
        length: u8,
    },
    DepositZero {
        to: u8,
        from: Value,
        position: u8,
        length: u8,
    },
    Deposit {
        to: u8,
        from: Value,
        into: u8,
        position: u8,
        length: u8,
    },
    /// `mix` and `unpack`. `upper` is `.l` of `mix` and `.h` of `unpack`.
    Merge {
        what: Merge,
        size: u8,
        upper: bool,
        to: u8,
        a: u8,
        b: u8,
    },
    /// A parallel operation with a text only. A number may follow the operands.
    Parallel {
        name: &'static str,
        to: u8,
        a: u8,
        b: Value,
    },
    /// `pshladd2` and `pshradd2`.
    ParallelShiftAdd {
        name: &'static str,
        to: u8,
        a: u8,
        count: u8,
        b: u8,
    },
    /// `pmpyshr2`.
    ParallelMultiply {
        signed: bool,
        to: u8,
        a: u8,
        b: u8,
        count: u8,
    },
    MoveLong {
        to: u8,
        value: u64,
    },
    MoveToBranch {
        to: u8,
        from: u8,
        returns: bool,
        whether: u8,
        important: bool,
        tag: i64,
    },
    MoveFromBranch {
        to: u8,
        from: u8,
    },
    MoveToPredicates {
        from: u8,
        mask: u64,
    },
    MoveToRotating {
        value: i64,
    },
    MovePredicates {
        to: u8,
    },
    MoveIp {
        to: u8,
    },
    MoveToAr {
        ar: u8,
        from: Value,
    },
    MoveFromAr {
        to: u8,
        ar: u8,
    },
    MoveToCr {
        cr: u8,
        from: u8,
    },
    MoveFromCr {
        to: u8,
        cr: u8,
    },
    MoveToPsr {
        user: bool,
        from: u8,
    },
    MoveFromPsr {
        user: bool,
        to: u8,
    },
    MoveToFile {
        file: File,
        index: u8,
        from: u8,
    },
    MoveFromFile {
        file: File,
        to: u8,
        index: u8,
    },
    Alloc {
        to: u8,
        frame: u8,
        locals: u8,
        rotating: u8,
    },
    /// `sum`, `rum`, `ssm`, `rsm`.
    Mask {
        system: bool,
        sets: bool,
        mask: u32,
    },
    System(System),
    Tlb {
        what: Tlb,
        a: u8,
        b: u8,
    },
    /// `itc.d` and `itc.i`.
    InsertCache {
        data: bool,
        from: u8,
    },
    /// `ptc.e`.
    PurgeAll {
        at: u8,
    },
    /// `fc` and `fc.i`.
    FlushCache {
        data: bool,
        at: u8,
    },
    /// `thash`, `ttag`, `tpa`, `tak`.
    Translate {
        name: &'static str,
        to: u8,
        at: u8,
    },
    /// `probe` with a result.
    Probe {
        write: bool,
        to: u8,
        at: u8,
        level: Value,
    },
    /// `probe` that faults.
    ProbeFault {
        read: bool,
        write: bool,
        at: u8,
        level: u8,
    },
    /// `invala.e`.
    InvalidateEntry {
        float: bool,
        register: u8,
    },
    Load {
        size: u8,
        early: Early,
        order: Order,
        fill: bool,
        hint: u8,
        to: u8,
        at: u8,
        after: After,
    },
    Store {
        size: u8,
        order: Order,
        spill: bool,
        hint: u8,
        from: u8,
        at: u8,
        after: After,
    },
    /// `ld16`.
    LoadPair {
        order: Order,
        hint: u8,
        to: u8,
        at: u8,
    },
    /// `st16`.
    StorePair {
        order: Order,
        hint: u8,
        from: u8,
        at: u8,
    },
    CompareExchange {
        size: u8,
        order: Order,
        hint: u8,
        to: u8,
        at: u8,
        from: u8,
    },
    /// `cmp8xchg16`.
    CompareExchangePair {
        order: Order,
        hint: u8,
        to: u8,
        at: u8,
        from: u8,
    },
    Exchange {
        size: u8,
        hint: u8,
        to: u8,
        at: u8,
        from: u8,
    },
    FetchAdd {
        size: u8,
        order: Order,
        hint: u8,
        to: u8,
        at: u8,
        by: i64,
    },
    LoadFloat {
        format: Float,
        early: Early,
        hint: u8,
        to: u8,
        at: u8,
        after: After,
    },
    LoadFloatPair {
        format: Float,
        early: Early,
        hint: u8,
        to: [u8; 2],
        at: u8,
        after: After,
    },
    StoreFloat {
        format: Float,
        hint: u8,
        from: u8,
        at: u8,
        after: After,
    },
    Prefetch {
        exclusive: bool,
        fault: bool,
        count: bool,
        hint: u8,
        at: u8,
        after: After,
    },
    GetFloat {
        format: Float,
        to: u8,
        from: u8,
    },
    SetFloat {
        format: Float,
        to: u8,
        from: u8,
    },
    /// `chk.s` of a general or floating-point register.
    CheckSpeculation {
        float: bool,
        register: u8,
        distance: i64,
    },
    /// `chk.a`.
    CheckAdvanced {
        float: bool,
        clear: bool,
        register: u8,
        distance: i64,
    },
    Break {
        number: u64,
    },
    Nop {
        number: u64,
    },
    Hint {
        number: u64,
    },
    /// A branch by a distance. `whether` and `few` are hints.
    Branch {
        condition: Condition,
        distance: i64,
        hints: BranchHints,
    },
    BranchCall {
        link: u8,
        distance: i64,
        hints: BranchHints,
    },
    BranchIndirect {
        at: u8,
        hints: BranchHints,
    },
    /// `br.ia`, into code of another architecture.
    BranchForeign {
        at: u8,
        hints: BranchHints,
    },
    BranchReturn {
        at: u8,
        hints: BranchHints,
    },
    BranchCallIndirect {
        link: u8,
        at: u8,
        hints: BranchHints,
    },
    Predict {
        whether: u8,
        important: bool,
        distance: i64,
        tag: i64,
    },
    PredictIndirect {
        returns: bool,
        whether: u8,
        important: bool,
        at: u8,
        tag: i64,
    },
    /// `xma`: `to` = the low or high part of `a` * `b` + `c`.
    MultiplyAdd {
        part: Part,
        to: u8,
        a: u8,
        b: u8,
        c: u8,
    },
    /// Floating-point multiplication and addition: `to` = `a` * `b` + `c` and its variants.
    FloatMultiplyAdd {
        what: Fma,
        precision: Precision,
        status: u8,
        to: u8,
        a: u8,
        b: u8,
        c: u8,
    },
    /// `fselect`.
    FloatSelect {
        to: u8,
        a: u8,
        b: u8,
        c: u8,
    },
    /// A floating-point operation on two registers, with a status field if it has one.
    FloatBinary {
        name: &'static str,
        status: Option<u8>,
        to: u8,
        a: u8,
        b: u8,
    },
    /// A floating-point operation on one register, with a status field if it has one.
    FloatUnary {
        name: &'static str,
        status: Option<u8>,
        to: u8,
        from: u8,
    },
    FloatCompare {
        name: &'static str,
        unconditional: bool,
        status: u8,
        p: [u8; 2],
        a: u8,
        b: u8,
    },
    FloatClass {
        unconditional: bool,
        p: [u8; 2],
        from: u8,
        class: u16,
    },
    /// `frcpa` and `fprcpa`.
    Reciprocal {
        parallel: bool,
        status: u8,
        to: u8,
        p: u8,
        a: u8,
        b: u8,
    },
    /// `frsqrta` and `fprsqrta`.
    ReciprocalRoot {
        parallel: bool,
        status: u8,
        to: u8,
        p: u8,
        from: u8,
    },
    /// `fsetc`.
    FloatControl {
        status: u8,
        and: u8,
        or: u8,
    },
    /// `fclrf`.
    FloatClear {
        status: u8,
    },
    /// `fchkf`.
    FloatCheck {
        status: u8,
        distance: i64,
    },
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

/// The hints of a branch. They change nothing that a program can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchHints {
    /// The prediction: `sptk`, `spnt`, `dptk`, `dpnt`.
    pub whether: u8,
    /// Many instructions at the target are to be fetched.
    pub many: bool,
    /// The prediction is to be dropped.
    pub clear: bool,
}
