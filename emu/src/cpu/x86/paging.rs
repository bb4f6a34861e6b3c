//! Walks of the guest's page tables, of each kind that x86 has.

use super::state;
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const ACCESSED_DIRTY: u64 = 1 << 5 | 1 << 6;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const ADDRESS_32: u64 = 0xffff_f000;

const CR0_PAGING: u64 = 1 << 31;
const CR0_WRITE_PROTECT: u64 = 1 << 16;
const CR4_PAGE_SIZE: u64 = 1 << 4;
const CR4_PAE: u64 = 1 << 5;

/// Which page tables are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The top table's physical address.
    pub top: u64,
    /// Their kind.
    pub kind: Kind,
    write_protect: bool,
    large_pages: bool,
}

/// Kinds of page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Paging is off.
    Off,
    /// 32 bits, entries of 4 bytes.
    TwoLevel,
    /// 32 bits, entries of 8 bytes.
    Pae,
    /// 64 bits.
    FourLevel,
}

/// An address found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub physical: u64,
    /// Every level allows writing.
    pub writable: bool,
    /// Where the last entry lies, and its bytes.
    pub entry: (u64, usize),
}

impl Paging {
    /// As the control registers say; a 64-bit guest pages in long mode only.
    #[inline]
    pub fn of(handle: &Handle, long: bool) -> Paging {
        let control = |number: usize| handle.live64(state::CR + 8 * number);
        Paging::new(control(0), control(3), control(4), long)
    }

    /// From the registers' values.
    #[inline]
    pub fn new(cr0: u64, cr3: u64, cr4: u64, long: bool) -> Paging {
        let kind = match () {
            () if cr0 & CR0_PAGING == 0 => Kind::Off,
            () if long => Kind::FourLevel,
            () if cr4 & CR4_PAE != 0 => Kind::Pae,
            () => Kind::TwoLevel,
        };
        Paging { top: cr3, kind, write_protect: cr0 & CR0_WRITE_PROTECT != 0, large_pages: cr4 & CR4_PAGE_SIZE != 0 }
    }

    /// Where an address lies.
    pub fn walk(&self, ram: &Ram, address: u64) -> Option<Found> {
        match self.kind {
            Kind::Off => Some(Found { physical: address & 0xffff_ffff, writable: true, entry: (0, 0) }),
            Kind::TwoLevel => self.walk_two(ram, address),
            Kind::Pae => walk_wide::<3>(ram, self.top & 0xffff_ffe0, address & 0xffff_ffff),
            Kind::FourLevel => walk_wide::<4>(ram, self.top & ADDRESS, address),
        }
    }

    /// Whether the kernel's rights allow writing there.
    pub fn may_write(&self, found: &Found) -> bool {
        found.writable || !self.write_protect
    }

    /// Addresses have 64 bits.
    pub fn is_long(&self) -> bool {
        self.kind == Kind::FourLevel
    }

    fn walk_two(&self, ram: &Ram, address: u64) -> Option<Found> {
        let at = (self.top & ADDRESS_32) + (address >> 22 & 1023) * 4;
        let directory = u64::from(ram.word32(at));
        if directory & PRESENT == 0 {
            return None;
        }
        if directory & LARGE != 0 && self.large_pages {
            let physical = directory & 0xffc0_0000 | address & 0x003f_ffff;
            return Some(Found { physical, writable: directory & WRITABLE != 0, entry: (at, 4) });
        }
        let at = (directory & ADDRESS_32) + (address >> 12 & 1023) * 4;
        let entry = u64::from(ram.word32(at));
        let writable = directory & entry & WRITABLE != 0;
        (entry & PRESENT != 0).then_some(Found { physical: entry & ADDRESS_32 | address & 0xfff, writable, entry: (at, 4) })
    }
}

fn walk_wide<const LEVELS: u32>(ram: &Ram, top: u64, address: u64) -> Option<Found> {
    let mut table = top;
    let mut rights = WRITABLE;
    for level in (0..LEVELS).rev() {
        let shift = 12 + 9 * level;
        let at = table | (address >> shift & 511) << 3;
        let entry = ram.word64(at);
        if entry & PRESENT == 0 {
            return None;
        }
        // The top level of three has no rights.
        rights &= if LEVELS == 3 && level == 2 { WRITABLE } else { entry };
        table = entry & ADDRESS;
        let may_be_large = level == 1 || (level == 2 && LEVELS == 4);
        if level == 0 || (may_be_large && entry & LARGE != 0) {
            let offset = (1u64 << shift) - 1;
            return Some(Found { physical: table & !offset | address & offset, writable: rights != 0, entry: (at, 8) });
        }
    }
    None
}

/// Where a kernel address lies under the tables in force, if the kernel's rights allow the access.
pub fn translate<const LONG: bool>(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let paging = Paging::of(handle, LONG);
    let found = if LONG && paging.kind == Kind::FourLevel {
        walk_wide::<4>(ram, paging.top & ADDRESS, address)
    } else {
        paging.walk(ram, address)
    };
    let refused = Fault { address, write: access == Access::Write };
    match found {
        Some(found) if access != Access::Write => Ok(found.physical),
        Some(found) if paging.may_write(&found) => {
            mark_written(ram, found.entry);
            Ok(found.physical)
        }
        _ => Err(refused),
    }
}

/// As the CPU does on a write: an engine's push must leave the same bits as the guest's own.
#[inline]
pub fn mark_written(ram: &Ram, (at, bytes): (u64, usize)) {
    if bytes != 0 {
        let low = ram.word32(at);
        let marked = low | ACCESSED_DIRTY as u32;
        if marked != low {
            ram.write(at, &marked.to_le_bytes());
        }
    }
}
