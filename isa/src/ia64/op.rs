//! The operation of an IA-64 instruction, decoded: its kind with its operands. Registers are numbers as the instruction
//! has them, before rotation.
//!
//! [`Op`] has one variant for each form of operand list. The decoder makes it, the core executes it, and the
//! disassembler prints it. The types of its fields are in a module for each group of instructions.

mod control;
mod float;
mod integer;
mod memory;

pub use control::{BranchHints, Condition, File, System, Tlb};
pub use float::{Float, Fma, Part, Precision};
pub use integer::{Alu, Merge, Relation, Shift, Tested, Unary, Update, Value};
pub use memory::{After, Early, Order};

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the operands, named by their role.
pub enum Op {
    /// Arithmetic: `to` = `a` with `b`.
    Alu { what: Alu, to: u8, a: Value, b: u8 },
    /// `shladd` and `shladdp4`.
    ShiftAdd { pointer: bool, to: u8, a: u8, count: u8, b: u8 },
    /// `cmp` and `cmp4`.
    Compare { narrow: bool, relation: Relation, update: Update, p: [u8; 2], a: Value, b: u8 },
    /// `tbit`, `tnat` and `tf`; the result is whether the bit is 0, or 1 if `nonzero`.
    Test { nonzero: bool, update: Update, p: [u8; 2], what: Tested },
    /// An operation on one general register.
    Unary { what: Unary, to: u8, from: u8 },
    /// A shift by a register.
    Shift { what: Shift, to: u8, from: u8, by: u8 },
    /// `shrp`: `to` = the low half of the pair `a`:`b`, shifted right.
    ShiftPair { to: u8, a: u8, b: u8, count: u8 },
    /// `extr` and `extr.u`: a bit field, moved to bit 0.
    Extract { signed: bool, to: u8, from: u8, position: u8, length: u8 },
    /// `dep.z`: a bit field in zeros.
    DepositZero { to: u8, from: Value, position: u8, length: u8 },
    /// `dep`: a bit field in the bits of `into`.
    Deposit { to: u8, from: Value, into: u8, position: u8, length: u8 },
    /// `mix` and `unpack`. `upper` is `.l` of `mix` and `.h` of `unpack`.
    Merge { what: Merge, size: u8, upper: bool, to: u8, a: u8, b: u8 },
    /// A parallel operation with a text only. A number may follow the operands.
    Parallel { name: &'static str, to: u8, a: u8, b: Value },
    /// `pshladd2` and `pshradd2`.
    ParallelShiftAdd { name: &'static str, to: u8, a: u8, count: u8, b: u8 },
    /// `pmpyshr2`.
    ParallelMultiply { signed: bool, to: u8, a: u8, b: u8, count: u8 },
    /// `movl`: a 64-bit number.
    MoveLong { to: u8, value: u64 },
    /// `mov` to a branch register. `whether`, `important` and `tag` are hints for its branch; `returns` is `.ret`.
    MoveToBranch { to: u8, from: u8, returns: bool, whether: u8, important: bool, tag: i64 },
    /// `mov` from a branch register.
    MoveFromBranch { to: u8, from: u8 },
    /// `mov` to those predicates that the mask names.
    MoveToPredicates { from: u8, mask: u64 },
    /// `mov pr.rot`: sets the rotating predicates.
    MoveToRotating { value: i64 },
    /// `mov` from all predicates.
    MovePredicates { to: u8 },
    /// `mov` from `ip`.
    MoveIp { to: u8 },
    /// `mov` to an application register.
    MoveToAr { ar: u8, from: Value },
    /// `mov` from an application register.
    MoveFromAr { to: u8, ar: u8 },
    /// `mov` to a control register.
    MoveToCr { cr: u8, from: u8 },
    /// `mov` from a control register.
    MoveFromCr { to: u8, cr: u8 },
    /// `mov` to `psr.l`, or to the user mask.
    MoveToPsr { user: bool, from: u8 },
    /// `mov` from `psr`, or from the user mask.
    MoveFromPsr { user: bool, to: u8 },
    /// `mov` to a register file, at the index in a register.
    MoveToFile { file: File, index: u8, from: u8 },
    /// `mov` from a register file, at the index in a register.
    MoveFromFile { file: File, to: u8, index: u8 },
    /// `alloc`: sets the sizes of the register frame.
    Alloc { to: u8, frame: u8, locals: u8, rotating: u8 },
    /// `sum`, `rum`, `ssm`, `rsm`.
    Mask { system: bool, sets: bool, mask: u32 },
    /// An instruction without operands.
    System(System),
    /// An instruction on the TLB, with two registers.
    Tlb { what: Tlb, a: u8, b: u8 },
    /// `itc.d` and `itc.i`.
    InsertCache { data: bool, from: u8 },
    /// `ptc.e`.
    PurgeAll { at: u8 },
    /// `fc` and `fc.i`.
    FlushCache { data: bool, at: u8 },
    /// `thash`, `ttag`, `tpa`, `tak`.
    Translate { name: &'static str, to: u8, at: u8 },
    /// `probe` with a result.
    Probe { write: bool, to: u8, at: u8, level: Value },
    /// `probe` that faults.
    ProbeFault { read: bool, write: bool, at: u8, level: u8 },
    /// `invala.e`.
    InvalidateEntry { float: bool, register: u8 },
    /// A load of a general register.
    Load { size: u8, early: Early, order: Order, fill: bool, hint: u8, to: u8, at: u8, after: After },
    /// A store of a general register.
    Store { size: u8, order: Order, spill: bool, hint: u8, from: u8, at: u8, after: After },
    /// `ld16`.
    LoadPair { order: Order, hint: u8, to: u8, at: u8 },
    /// `st16`.
    StorePair { order: Order, hint: u8, from: u8, at: u8 },
    /// `cmpxchg`: stores `from` if memory holds the number in `ar.ccv`.
    CompareExchange { size: u8, order: Order, hint: u8, to: u8, at: u8, from: u8 },
    /// `cmp8xchg16`.
    CompareExchangePair { order: Order, hint: u8, to: u8, at: u8, from: u8 },
    /// `xchg`.
    Exchange { size: u8, hint: u8, to: u8, at: u8, from: u8 },
    /// `fetchadd`: adds a constant to memory.
    FetchAdd { size: u8, order: Order, hint: u8, to: u8, at: u8, by: i64 },
    /// A load of a floating-point register.
    LoadFloat { format: Float, early: Early, hint: u8, to: u8, at: u8, after: After },
    /// A load of two floating-point registers.
    LoadFloatPair { format: Float, early: Early, hint: u8, to: [u8; 2], at: u8, after: After },
    /// A store of a floating-point register.
    StoreFloat { format: Float, hint: u8, from: u8, at: u8, after: After },
    /// `lfetch`: a prefetch of a cache line.
    Prefetch { exclusive: bool, fault: bool, count: bool, hint: u8, at: u8, after: After },
    /// `getf`: from a floating-point register to a general one.
    GetFloat { format: Float, to: u8, from: u8 },
    /// `setf`: from a general register to a floating-point one.
    SetFloat { format: Float, to: u8, from: u8 },
    /// `chk.s` of a general or floating-point register.
    CheckSpeculation { float: bool, register: u8, distance: i64 },
    /// `chk.a`.
    CheckAdvanced { float: bool, clear: bool, register: u8, distance: i64 },
    /// `break`.
    Break { number: u64 },
    /// `nop`.
    Nop { number: u64 },
    /// `hint`.
    Hint { number: u64 },
    /// A branch by a distance. `whether` and `few` are hints.
    Branch { condition: Condition, distance: i64, hints: BranchHints },
    /// A call by a distance. `link` is the branch register for the return address.
    BranchCall { link: u8, distance: i64, hints: BranchHints },
    /// A branch to the address in a branch register.
    BranchIndirect { at: u8, hints: BranchHints },
    /// `br.ia`, into code of another architecture.
    BranchForeign { at: u8, hints: BranchHints },
    /// `br.ret`: a return to the address in a branch register.
    BranchReturn { at: u8, hints: BranchHints },
    /// A call of the address in a branch register.
    BranchCallIndirect { link: u8, at: u8, hints: BranchHints },
    /// `brp`: a hint about the branch at `tag`.
    Predict { whether: u8, important: bool, distance: i64, tag: i64 },
    /// `brp` of an indirect branch.
    PredictIndirect { returns: bool, whether: u8, important: bool, at: u8, tag: i64 },
    /// `xma`: `to` = the low or high part of `a` * `b` + `c`.
    MultiplyAdd { part: Part, to: u8, a: u8, b: u8, c: u8 },
    /// Floating-point multiplication and addition: `to` = `a` * `b` + `c` and its variants.
    FloatMultiplyAdd { what: Fma, precision: Precision, status: u8, to: u8, a: u8, b: u8, c: u8 },
    /// `fselect`.
    FloatSelect { to: u8, a: u8, b: u8, c: u8 },
    /// A floating-point operation on two registers, with a status field if it has one.
    FloatBinary { name: &'static str, status: Option<u8>, to: u8, a: u8, b: u8 },
    /// A floating-point operation on one register, with a status field if it has one.
    FloatUnary { name: &'static str, status: Option<u8>, to: u8, from: u8 },
    /// A comparison of two floating-point registers.
    FloatCompare { name: &'static str, unconditional: bool, status: u8, p: [u8; 2], a: u8, b: u8 },
    /// `fclass`: a test of the class of a number.
    FloatClass { unconditional: bool, p: [u8; 2], from: u8, class: u16 },
    /// `frcpa` and `fprcpa`.
    Reciprocal { parallel: bool, status: u8, to: u8, p: u8, a: u8, b: u8 },
    /// `frsqrta` and `fprsqrta`.
    ReciprocalRoot { parallel: bool, status: u8, to: u8, p: u8, from: u8 },
    /// `fsetc`.
    FloatControl { status: u8, and: u8, or: u8 },
    /// `fclrf`.
    FloatClear { status: u8 },
    /// `fchkf`.
    FloatCheck { status: u8, distance: i64 },
}
