//! The instructions of cases: those that the core has, with results that the manual defines. Left out is what ski has in its
//! own way: cr9, and system instructions that must end an instruction group but do not, which it finds illegal. Reads of
//! registers outside of the frame, which have any value, are left out, too.

use super::POINTER;
use trapline_isa::ia64::bundle::Unit;
use trapline_isa::ia64::op::{After, Condition, Early, File, Float, Op, System, Tested, Unary, Value};

/// Whether a case may write this general register.
fn is_target(register: u8) -> bool {
    matches!(register, 0 | 8..=11 | 14..=31 | 32..=95)
}

/// Whether a case may read this general register. Those from 40 on may lie outside of the frame.
fn is_source(register: u8) -> bool {
    matches!(register, 0 | 4..=11 | 13..=39)
}

fn is_real(register: u8) -> bool {
    matches!(register, 6..=15 | 32..=47 | 112..=127)
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

impl Place {
    /// Whether a load or a store may have these operands. The ALAT is free to lose entries, and to hold one of another
    /// address or size: advanced loads and their checks are in cases where all accesses have one address, and those
    /// of a kind of register one size.
    fn has_access(self, early: Early, at: u8, after: After, size: bool) -> bool {
        let is_plain = matches!(early, Early::No | Early::Speculative);
        let stays = match after {
            After::Nothing => true,
            After::Add(Value::Immediate(by)) => !self.is_advanced && by.abs() <= 32,
            After::Add(Value::Register(_)) => false,
        };
        at == POINTER && stays && (is_plain || self.is_advanced && size)
    }
}

/// The place of an instruction.
#[derive(Clone, Copy)]
pub struct Place {
    /// The unit.
    pub unit: Unit,
    /// The slot.
    pub slot: usize,
    /// Bundles from this one on.
    pub left: usize,
    /// Whether an instruction group ends behind it.
    pub is_last: bool,
    /// Whether the case has no privileges.
    pub is_program: bool,
    /// Whether the case may have advanced loads.
    pub is_advanced: bool,
}

/// Whether a case may have this instruction. A case without privileges may also have instructions of the kernel.
pub fn may_have(op: &Op, place: Place) -> bool {
    let Place { unit, slot, left, is_program, is_advanced, .. } = place;
    let is_near = |distance: i64| distance > 0 && distance as usize / 16 <= left;
    match *op {
        Op::Alu { to, a, b, .. } => is_target(to) && reads(a) && is_source(b),
        Op::ShiftAdd { to, a, b, .. } | Op::ShiftPair { to, a, b, .. } | Op::Merge { to, a, b, .. } => {
            is_target(to) && is_source(a) && is_source(b)
        }
        Op::Compare { a, b, .. } => reads(a) && is_source(b),
        Op::Test { what, .. } => match what {
            Tested::Bit { register, .. } | Tested::Nat(register) => is_source(register),
            Tested::Feature(_) => false,
        },
        Op::Unary { what, to, from } => {
            let bytes = matches!(what, Unary::Bytes(code) if !matches!(code, 0 | 8..=11));
            what != Unary::CountLeadingZeros && !bytes && is_target(to) && is_source(from)
        }
        Op::Shift { to, from, by, .. } => is_target(to) && is_source(from) && is_source(by),
        Op::Extract { to, from, .. } => is_target(to) && is_source(from),
        Op::DepositZero { to, from, .. } => is_target(to) && reads(from),
        Op::Deposit { to, from, into, .. } => is_target(to) && reads(from) && is_source(into),
        Op::MoveLong { to, .. } | Op::MoveIp { to } | Op::MovePredicates { to } => is_target(to),
        Op::MoveToBranch { to, from, .. } => to == 6 && is_source(from),
        Op::MoveFromBranch { to, from } => matches!(from, 0 | 4 | 6 | 7) && is_target(to),
        Op::MoveToPredicates { from, .. } => is_source(from),
        Op::MoveToRotating { .. } => true,
        Op::MoveToAr { ar, from } => may_write(ar) && has_unit(ar, unit) && reads(from),
        Op::MoveFromAr { to, ar } => may_read(ar) && has_unit(ar, unit) && is_target(to),
        Op::MoveFromPsr { user: true, to } => is_target(to),
        // The registers that cases read are outputs of all frames, so calls keep them.
        Op::Alloc { to, frame, locals, .. } => slot == 0 && frame >= locals.saturating_add(8) && is_target(to),
        Op::Load { size, early, to, at, after, .. } => is_target(to) && place.has_access(early, at, after, size == 8),
        Op::Store { from, at, after, .. } => is_source(from) && place.has_access(Early::No, at, after, true),
        Op::CompareExchange { to, at, from, .. } | Op::Exchange { to, at, from, .. } => {
            is_target(to) && is_source(from) && at == POINTER
        }
        Op::FetchAdd { to, at, .. } => is_target(to) && at == POINTER,
        Op::LoadFloat { format, early, to, at, after, .. } => {
            is_real(to) && place.has_access(early, at, after, format == Float::Double)
        }
        Op::LoadFloatPair { early, to, at, after, .. } => {
            to.into_iter().all(is_real) && place.has_access(early, at, after, false)
        }
        Op::StoreFloat { from, at, after, .. } => is_real(from) && place.has_access(Early::No, at, after, true),
        Op::Prefetch { at, after, count, .. } => !count && place.has_access(Early::No, at, after, true),
        Op::FlushCache { at, .. } => at == POINTER,
        Op::GetFloat { to, from, .. } => is_target(to) && reads_real(from),
        Op::SetFloat { to, from, .. } => is_real(to) && is_source(from),
        Op::MultiplyAdd { to, a, b, c, .. } | Op::FloatSelect { to, a, b, c } => {
            is_real(to) && [a, b, c].into_iter().all(reads_real)
        }
        Op::FloatBinary { name, status: None, to, a, b } => {
            let known = ["fmerge.s", "fmerge.ns", "fmerge.se", "fand", "fandcm", "for", "fxor"].contains(&name);
            known && is_real(to) && reads_real(a) && reads_real(b)
        }
        Op::Branch { condition, distance, .. } => is_near(distance) && (condition == Condition::Predicate || slot == 2),
        Op::BranchCall { link, distance, .. } => is_near(distance) && matches!(link, 0 | 6),
        Op::CheckAdvanced { distance, float, register, .. } | Op::CheckSpeculation { distance, float, register } => {
            let is_known = is_advanced || matches!(op, Op::CheckSpeculation { .. });
            is_known && is_near(distance) && if float { reads_real(register) } else { is_source(register) }
        }
        Op::InvalidateEntry { float, register } => {
            if float {
                is_real(register)
            } else {
                is_source(register)
            }
        }
        Op::Nop { .. } | Op::Hint { .. } | Op::Predict { .. } | Op::PredictIndirect { .. } => true,
        Op::Break { number } => !matches!(number & 0x1f_ffff, 0x8_0000..=0x9_0000 | 0x10_0000),
        Op::Probe { to, at, level, .. } => at == POINTER && is_target(to) && reads(level),
        Op::ProbeFault { at, .. } => at == POINTER,
        Op::Translate { name: "tpa", to, at } => at == POINTER && is_target(to),
        // The order of bytes and the check of alignment stay.
        Op::Mask { system: false, mask, .. } => mask & 0xa == 0,
        Op::System(what) => is_of_the_system(what, place),
        _ => is_program && is_of_the_kernel(op, place.is_last),
    }
}

/// Whether a case may have this system instruction without operands.
fn is_of_the_system(what: System, place: Place) -> bool {
    match what {
        System::Mf | System::Fwb | System::Invala | System::SrlzD | System::SrlzI | System::SyncI => true,
        System::Flushrs => place.slot == 0,
        System::Clrrrb | System::ClrrrbPr => place.is_last,
        System::Rfi | System::Bsw0 | System::Bsw1 => place.is_program && place.is_last,
        _ => false,
    }
}

/// Whether a case without privileges may have this privileged instruction, which raises an interruption.
fn is_of_the_kernel(op: &Op, is_last: bool) -> bool {
    match *op {
        // Not all CPUs have cr9, cr26 and cr27.
        Op::MoveToCr { cr, from } => !matches!(cr, 9 | 26 | 27) && is_source(from),
        Op::MoveFromPsr { user: false, to } => is_target(to),
        Op::MoveFromCr { to, cr } => !matches!(cr, 9 | 26 | 27) && is_target(to),
        Op::MoveToPsr { user: false, from } => is_source(from),
        Op::MoveToFile { file, index, from } => is_file(file) && is_source(index) && is_source(from),
        Op::MoveFromFile { file, to, index } => is_file(file) && is_target(to) && is_source(index),
        Op::Mask { system: true, .. } | Op::PurgeAll { .. } => true,
        Op::Tlb { a, b, .. } => is_last && is_source(a) && is_source(b),
        Op::InsertCache { from, .. } => is_last && is_source(from),
        _ => false,
    }
}

fn is_file(file: File) -> bool {
    matches!(file, File::Rr | File::Dbr | File::Ibr | File::Pkr | File::Pmc)
}

/// Application registers that a case reads: no clocks, and none of IA-32.
fn may_read(ar: u8) -> bool {
    !matches!(ar, 21 | 24..=31 | 44 | 45)
}

/// Application registers that a case writes: none that would lead the frame astray.
fn may_write(ar: u8) -> bool {
    !matches!(ar, 16 | 18 | 21 | 24..=31 | 40 | 44 | 45 | 64 | 65)
}

/// Whether moves of an application register belong to this unit.
fn has_unit(ar: u8, unit: Unit) -> bool {
    match ar {
        48..=63 | 112.. => true,
        0..=47 => unit == Unit::M,
        _ => unit == Unit::I,
    }
}
