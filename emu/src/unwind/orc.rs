//! Unwinding by the ORC tables of x86-64 kernels. For each piece of code an entry says where the caller's frame begins
//! and where the frame pointer was saved.
//!
//! The image has two parallel tables. One has the start of each piece, as a 32-bit relative offset. The other has six
//! bytes per piece (arch/x86/include/asm/orc_types.h): two offsets, then a word with their base registers and the frame
//! type. Linux 6.4 gave the frame types other numbers, and a release between 6.12 and 7.2 the base registers. A module
//! has the same two tables, which its kernel sorts.

use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The base of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Undefined,
    /// The caller's stack pointer.
    PreviousSp,
    Bp,
    Sp,
    /// The word at an offset from the frame pointer.
    BpIndirect,
    /// The word at the stack pointer, to which the offset is added.
    SpIndirect,
    /// A register whose value is not known here.
    Other,
}

/// The bases by number: those of Linux until 6.12, then those of 7.2, as far as its tables have them.
const OLD_BASES: &[Base] = &{
    use Base::*;
    [Undefined, PreviousSp, Other, Other, Bp, Sp, Other, Other, BpIndirect, SpIndirect]
};
const NEW_BASES: &[Base] = &{
    use Base::*;
    [Undefined, Other, Other, Sp, Bp, Other, Other, Other, PreviousSp, SpIndirect, BpIndirect]
};

/// The kind of frame that a piece of code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A call.
    Call,
    /// An interrupt with all registers.
    Registers,
    /// An interrupt with only the registers that the CPU saves.
    Saved,
    /// The outermost frame, or one that cannot be unwound.
    None,
}

/// The frame types by number: two bits until Linux 6.3, three bits since 6.4.
const OLD_KINDS: [Kind; 4] = [Kind::Call, Kind::Registers, Kind::Saved, Kind::None];
const NEW_KINDS: [Kind; 8] =
    [Kind::None, Kind::None, Kind::Call, Kind::Registers, Kind::Saved, Kind::None, Kind::None, Kind::None];

/// Offsets in the kernel's interrupt frame (pt_regs).
const SAVED_BP: u64 = 32;
const SAVED_IP: u64 = 128;
/// Offsets from the saved instruction pointer: code segment, stack pointer.
const BEHIND_IP_CS: u64 = 8;
const BEHIND_IP_SP: u64 = 24;
/// The privilege level bits of a code segment. 0 is the kernel.
const PRIVILEGE: u64 = 3;

/// The tables of one kernel.
pub struct Orc {
    starts: Vec<u64>,
    rows: Vec<OrcEntry>,
    bp: Reg,
}

/// The rule for a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrcEntry {
    sp_offset: i16,
    bp_offset: i16,
    sp: Base,
    bp: Base,
    kind: Kind,
}

impl OrcEntry {
    /// The number of the base register, given those of the stack pointer and the frame pointer. `None` if there is no caller,
    /// or the base is not a plain register.
    pub(super) fn base(self, sp: u8, bp: u8) -> Option<u8> {
        match self.sp {
            _ if self.kind == Kind::None => None,
            Base::Sp => Some(sp),
            Base::Bp => Some(bp),
            _ => None,
        }
    }

    /// The distance from the base register to the frame.
    pub(super) fn sp_distance(self) -> i64 {
        self.sp_offset.into()
    }

    /// Whether the frame is that of a call.
    pub(super) fn is_call(self) -> bool {
        self.kind == Kind::Call
    }

    /// Whether the frame has all registers.
    pub(super) fn has_registers(self) -> bool {
        self.kind == Kind::Registers
    }

    /// The distance of the saved frame pointer from the caller's stack pointer, if it is saved there.
    pub(super) fn bp_below_cfa(self) -> Option<i64> {
        (self.bp == Base::PreviousSp).then_some(self.bp_offset.into())
    }
}

impl Orc {
    /// The tables of a kernel, if it has them.
    pub fn of(kernel: &Kernel) -> Option<Orc> {
        let held = |from: &str, to: &str| {
            let start = kernel.symbols.address_of(from)?;
            Some((start, kernel.held(&(start..kernel.symbols.address_of(to)?))?))
        };
        let (first, places) = held("__start_orc_unwind_ip", "__stop_orc_unwind_ip")?;
        let (_, rows) = held("__start_orc_unwind", "__stop_orc_unwind")?;
        let (starts, rows) = read(first, places, rows);
        // The tables are sorted at build time. Tables that the kernel sorts at boot are not supported.
        let is_whole = !starts.is_empty() && starts.len() == rows.len() && starts.is_sorted();
        Some(Orc { starts, rows, bp: kernel.arch.isa().abi.register("bp")? }).filter(|_| is_whole)
    }

    /// Tables that a kernel has sorted, by the address of the first place. `None`: they are of another form.
    pub fn sorted(first: u64, places: &[u8], rows: &[u8], bp: Reg) -> Option<Orc> {
        let (starts, rows) = read(first, places, rows);
        Some(Orc { starts, rows, bp }).filter(|orc| orc.starts.len() == orc.rows.len() && orc.starts.is_sorted())
    }

    /// The tables of a module, if it has them.
    pub fn of_module(module: &Kernel) -> Option<Orc> {
        let held = |name: &str| {
            let section = module.sections().iter().find(|section| section.name == name)?;
            Some((section.range.start, module.held(&section.range)?))
        };
        let ((first, places), (_, rows)) = (held(".orc_unwind_ip")?, held(".orc_unwind")?);
        let (starts, rows) = read(first, places, rows);
        let mut pairs: Vec<(u64, OrcEntry)> = starts.into_iter().zip(rows).collect();
        // Two sections that meet both have an entry there. That of the section that ends comes first.
        pairs.sort_by_key(|(start, row)| (*start, row.kind != Kind::None));
        let (starts, rows) = pairs.into_iter().unzip();
        Some(Orc { starts, rows, bp: module.arch.isa().abi.register("bp")? })
    }

    /// The rules in a range of addresses. The first one may begin in front of it.
    pub(super) fn rows_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, OrcEntry)> {
        let first = self.starts.partition_point(|start| *start <= range.start).saturating_sub(1);
        let behind = self.starts.partition_point(|start| *start < range.end).max(first);
        let starts = self.starts.get(first..behind).unwrap_or_default();
        starts.iter().copied().zip(self.rows.get(first..behind).unwrap_or_default().iter().copied())
    }

    fn row(&self, pc: u64) -> Option<OrcEntry> {
        let behind = self.starts.partition_point(|start| *start <= pc);
        self.rows.get(behind.checked_sub(1)?).copied()
    }
}

/// Reads the two tables. Linux versions number bases and frame types in different ways. Chooses the bases by which more
/// rows have the stack pointer, and the types by which more rows are calls.
fn read(first: u64, places: &[u8], rows: &[u8]) -> (Vec<u64>, Vec<OrcEntry>) {
    let place = |(number, bytes): (usize, &[u8])| {
        let at = first + 4 * number as u64;
        Some(at.wrapping_add_signed(i32::from_le_bytes(bytes.try_into().ok()?).into()))
    };
    let starts: Vec<u64> = places.chunks_exact(4).enumerate().map_while(place).collect();
    let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let how = |row: &[u8]| half(row, 4);
    let number = |fits: &dyn Fn(u16) -> bool| rows.chunks_exact(6).filter(|row| fits(how(row))).count();
    let has_new_kinds = number(&|how| how >> 8 & 7 == 2) > number(&|how| how >> 8 & 7 == 0);
    let bases = if number(&|how| how & 15 == 3) > number(&|how| how & 15 == 5) { NEW_BASES } else { OLD_BASES };
    let base = |number: u16| bases.get(usize::from(number & 15)).copied().unwrap_or(Base::Other);
    let kind = |how: u16| match has_new_kinds {
        true => NEW_KINDS[usize::from(how >> 8 & 7)],
        false => OLD_KINDS[usize::from(how >> 8 & 3)],
    };
    let row = |bytes: &[u8]| OrcEntry {
        sp_offset: half(bytes, 0).cast_signed(),
        bp_offset: half(bytes, 2).cast_signed(),
        sp: base(how(bytes)),
        bp: base(how(bytes) >> 4),
        kind: kind(how(bytes)),
    };
    (starts, rows.chunks_exact(6).map(row).collect())
}

impl Unwind for Orc {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (Some(self.bp), None)
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        // After a call that does not return, the return address may be the start of the next function.
        let row = self.row(if at.called { at.pc.wrapping_sub(1) } else { at.pc })?;
        let distance = i64::from(row.sp_offset);
        let base = match row.sp {
            Base::Sp => at.sp.wrapping_add_signed(distance),
            Base::Bp => at.frame.wrapping_add_signed(distance),
            Base::SpIndirect => read(at.sp)?.wrapping_add_signed(distance),
            Base::BpIndirect => read(at.frame.wrapping_add_signed(distance))?,
            // The outermost frame, or a base register whose value is not known.
            Base::Undefined | Base::PreviousSp | Base::Other => return None,
        };
        let (slot, sp, cs) = match row.kind {
            Kind::Call => (base.wrapping_sub(8), base, 0),
            Kind::Registers => {
                let slot = base.wrapping_add(SAVED_IP);
                (slot, read(slot.wrapping_add(BEHIND_IP_SP))?, read(slot.wrapping_add(BEHIND_IP_CS))?)
            }
            Kind::Saved => (base, read(base.wrapping_add(BEHIND_IP_SP))?, read(base.wrapping_add(BEHIND_IP_CS))?),
            Kind::None => return None,
        };
        if cs & PRIVILEGE != 0 {
            return None;
        }
        let kept = i64::from(row.bp_offset);
        let frame = match (row.bp, row.kind) {
            (_, Kind::Registers) => read(base.wrapping_add(SAVED_BP))?,
            (Base::PreviousSp, _) => read(base.wrapping_add_signed(kept))?,
            (Base::Bp, _) => read(at.frame.wrapping_add_signed(kept))?,
            (Base::Undefined, _) => at.frame,
            _ => return None,
        };
        let called = row.is_call();
        Some((Standing { pc: read(slot)?, sp, frame, link: 0, called }, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-1: the tables of each generation are read alike.
    #[test]
    fn all_numberings_of_frames_and_bases_are_known() {
        // Two calls with the frame pointer saved, an interrupt with all registers, one with few, the outermost frame.
        let table = |[sp, saved]: [u16; 2], kinds: [u16; 5]| -> Vec<u8> {
            let rows = [(8_i16, sp | saved << 4), (8, sp | saved << 4), (0, sp), (0, sp), (0, 0)].into_iter().zip(kinds);
            let row = |((offset, bases), kind): ((i16, u16), u16)| {
                [offset.to_le_bytes(), (-16_i16).to_le_bytes(), (bases | kind << 8).to_le_bytes()].concat()
            };
            rows.flat_map(row).collect()
        };
        let places: Vec<u8> = (0..5_i32).flat_map(|number| (0x100 + 12 * number).to_le_bytes()).collect();
        let kinds = [Kind::Call, Kind::Call, Kind::Registers, Kind::Saved];
        for (release, bases, numbers) in
            [("6.1", [5, 1], [0, 0, 1, 2, 0]), ("6.12", [5, 1], [2, 2, 3, 4, 1]), ("7.2", [3, 8], [2, 2, 3, 4, 1])]
        {
            let (starts, rows) = read(0x1000, &places, &table(bases, numbers));
            assert_eq!(starts, [0x1100, 0x1110, 0x1120, 0x1130, 0x1140], "{release}");
            assert_eq!(rows[..4].iter().map(|row| row.kind).collect::<Vec<_>>(), kinds, "{release}");
            assert_eq!((rows[0].sp, rows[0].bp_below_cfa()), (Base::Sp, Some(-16)), "{release}");
            assert_eq!(rows[4].base(7, 6), None, "{release}");
        }
    }
}
