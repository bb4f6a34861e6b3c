//! Kinds of branch and of system instruction of IA-64.
//!
//! [`Condition`] and [`BranchHints`] belong to branches. [`File`] names an indexed register file, and [`System`] and
//! [`Tlb`] are the system instructions, some of which programs may execute, too.

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
