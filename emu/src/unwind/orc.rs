//! Unwinding by the ORC tables of x86-64 kernels. For each piece of code an entry says where the caller's frame begins
//! and where the frame pointer was saved.
//!
//! The image has two parallel tables. One has the start of each piece, as a 32-bit relative offset. The other has six
//! bytes per piece (arch/x86/include/asm/orc_types.h): two offsets, then a word with their base registers and the frame
//! type.

use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// Base registers of an offset.
const UNDEFINED: u16 = 0;
const PREVIOUS_SP: u16 = 1;
const BP: u16 = 4;
const SP: u16 = 5;
const BP_INDIRECT: u16 = 8;
const SP_INDIRECT: u16 = 9;

/// Frame types: a call; an interrupt with all registers; an interrupt with only the registers that the CPU saves.
const CALL: u16 = 0;
const REGISTERS: u16 = 1;
const SAVED: u16 = 2;

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
    /// From the lowest bit on: 4 bits for each base register, 2 or 3 for the frame type.
    how: u16,
}

impl OrcEntry {
    fn kind(self) -> u16 {
        self.how >> 8 & 3
    }

    /// The number of the base register, given those of the stack pointer and the frame pointer. `None` if there is no caller,
    /// or the base is not a plain register.
    pub(super) fn base(self, sp: u8, bp: u8) -> Option<u8> {
        match self.how & 15 {
            SP => Some(sp),
            BP => Some(bp),
            _ => None,
        }
    }

    /// The distance from the base register to the frame.
    pub(super) fn sp_distance(self) -> i64 {
        self.sp_offset.into()
    }

    /// Whether the frame is that of a call.
    pub(super) fn is_call(self) -> bool {
        self.kind() == CALL
    }

    /// Whether the frame has all registers.
    pub(super) fn has_registers(self) -> bool {
        self.kind() == REGISTERS
    }

    /// The distance of the saved frame pointer from the caller's stack pointer, if it is saved there.
    pub(super) fn bp_below_cfa(self) -> Option<i64> {
        (self.how >> 4 & 15 == PREVIOUS_SP).then_some(self.bp_offset.into())
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
        let place = |(number, bytes): (usize, &[u8])| {
            let at = first + 4 * number as u64;
            Some(at.wrapping_add_signed(i32::from_le_bytes(bytes.try_into().ok()?).into()))
        };
        let starts: Vec<u64> = places.chunks_exact(4).enumerate().map_while(place).collect();
        let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let row = |bytes: &[u8]| OrcEntry {
            sp_offset: half(bytes, 0).cast_signed(),
            bp_offset: half(bytes, 2).cast_signed(),
            how: half(bytes, 4),
        };
        let rows: Vec<OrcEntry> = rows.chunks_exact(6).map(row).collect();
        // The tables are sorted at build time. Tables that the kernel sorts at boot are not supported.
        let is_whole = !starts.is_empty() && starts.len() == rows.len() && starts.is_sorted();
        Some(Orc { starts, rows, bp: kernel.arch.isa().abi.register("bp")? }).filter(|_| is_whole)
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

impl Unwind for Orc {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (Some(self.bp), None)
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        // After a call that does not return, the return address may be the start of the next function.
        let row = self.row(if at.called { at.pc.wrapping_sub(1) } else { at.pc })?;
        let distance = i64::from(row.sp_offset);
        let base = match row.how & 15 {
            SP => at.sp.wrapping_add_signed(distance),
            BP => at.frame.wrapping_add_signed(distance),
            SP_INDIRECT => read(at.sp)?.wrapping_add_signed(distance),
            BP_INDIRECT => read(at.frame.wrapping_add_signed(distance))?,
            // The outermost frame, or a base register whose value is not known.
            _ => return None,
        };
        let (slot, sp, cs) = match row.kind() {
            CALL => (base.wrapping_sub(8), base, 0),
            REGISTERS => {
                let slot = base.wrapping_add(SAVED_IP);
                (slot, read(slot.wrapping_add(BEHIND_IP_SP))?, read(slot.wrapping_add(BEHIND_IP_CS))?)
            }
            SAVED => (base, read(base.wrapping_add(BEHIND_IP_SP))?, read(base.wrapping_add(BEHIND_IP_CS))?),
            _ => return None,
        };
        if cs & PRIVILEGE != 0 {
            return None;
        }
        let kept = i64::from(row.bp_offset);
        let frame = match (row.how >> 4 & 15, row.kind()) {
            (_, REGISTERS) => read(base.wrapping_add(SAVED_BP))?,
            (PREVIOUS_SP, _) => read(base.wrapping_add_signed(kept))?,
            (BP, _) => read(at.frame.wrapping_add_signed(kept))?,
            (UNDEFINED, _) => at.frame,
            _ => return None,
        };
        let called = row.kind() == CALL;
        Some((Standing { pc: read(slot)?, sp, frame, link: 0, called }, slot))
    }
}
