//! Page-table walks in all paging modes of x86.

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

/// The current page tables and paging mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The physical address of the top table, as in CR3.
    pub top: u64,
    /// The paging mode.
    pub kind: PagingMode,
    write_protect: bool,
    large_pages: bool,
}

/// The paging mode, which CR0.PG, CR4.PAE and long mode decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingMode {
    /// Paging is off.
    Off,
    /// 32-bit addresses, 4-byte entries.
    TwoLevel,
    /// 32-bit addresses, 8-byte entries (PAE).
    Pae,
    /// 64-bit addresses, 8-byte entries.
    FourLevel,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The physical address.
    pub physical: u64,
    /// Whether all levels allow writing.
    pub writable: bool,
    /// The physical address and size of the last entry.
    pub entry: (u64, usize),
}

impl Paging {
    /// The paging of a running CPU. A 64-bit guest pages only in long mode.
    #[inline]
    pub fn of(handle: &Handle, long: bool) -> Paging {
        let [cr0, _, _, cr3, cr4] = handle.live_words(state::CR);
        Paging::new(cr0, cr3, cr4, long)
    }

    /// The paging by the values of the control registers.
    #[inline]
    pub fn new(cr0: u64, cr3: u64, cr4: u64, long: bool) -> Paging {
        let kind = match () {
            () if cr0 & CR0_PAGING == 0 => PagingMode::Off,
            () if long => PagingMode::FourLevel,
            () if cr4 & CR4_PAE != 0 => PagingMode::Pae,
            () => PagingMode::TwoLevel,
        };
        Paging { top: cr3, kind, write_protect: cr0 & CR0_WRITE_PROTECT != 0, large_pages: cr4 & CR4_PAGE_SIZE != 0 }
    }

    /// Walks the tables for an address.
    #[inline(never)]
    pub fn walk(&self, ram: &Ram, address: u64) -> Option<Found> {
        match self.kind {
            PagingMode::Off => Some(Found { physical: address & 0xffff_ffff, writable: true, entry: (0, 0) }),
            PagingMode::TwoLevel => self.walk_two(ram, address),
            PagingMode::Pae => walk_three(ram, self.top & 0xffff_ffe0, address & 0xffff_ffff),
            PagingMode::FourLevel => walk_four(ram, self.top & ADDRESS, address),
        }
    }

    /// Whether the kernel's rights allow writing there.
    pub fn may_write(&self, found: &Found) -> bool {
        found.writable || !self.write_protect
    }

    /// Whether addresses have 64 bits.
    pub fn is_long(&self) -> bool {
        self.kind == PagingMode::FourLevel
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

/// Whether a 64-bit address is canonical: bits 48 to 63 equal bit 47.
#[inline]
pub fn is_canonical(address: u64) -> bool {
    (address << 16).cast_signed() >> 16 == address.cast_signed()
}

/// Walks four levels of 8-byte entries. Every memory access of a hit in long mode uses it.
#[inline]
fn walk_four(ram: &Ram, top: u64, address: u64) -> Option<Found> {
    if !is_canonical(address) {
        return None;
    }
    let (_, fourth) = present(ram, top, address, 39)?;
    let (at, third) = present(ram, fourth & ADDRESS, address, 30)?;
    if third & LARGE != 0 {
        return Some(found(at, third, 30, address, fourth & third));
    }
    walk_last_two(ram, third & ADDRESS, address, fourth & third)
}

/// Walks three levels (PAE). The entries of the top level have no rights.
fn walk_three(ram: &Ram, top: u64, address: u64) -> Option<Found> {
    let (_, third) = present(ram, top, address, 30)?;
    walk_last_two(ram, third & ADDRESS, address, WRITABLE)
}

#[inline]
fn walk_last_two(ram: &Ram, table: u64, address: u64, rights: u64) -> Option<Found> {
    let (at, second) = present(ram, table, address, 21)?;
    if second & LARGE != 0 {
        return Some(found(at, second, 21, address, rights & second));
    }
    let (at, first) = present(ram, second & ADDRESS, address, 12)?;
    Some(found(at, first, 12, address, rights & second & first))
}

/// The entry for an address in a table, and its physical address. `None` if it is not present.
#[inline]
fn present(ram: &Ram, table: u64, address: u64, shift: u32) -> Option<(u64, u64)> {
    let at = table | (address >> (shift - 3) & 0xff8);
    let entry = ram.word64(at);
    (entry & PRESENT != 0).then_some((at, entry))
}

#[inline]
fn found(at: u64, entry: u64, shift: u32, address: u64, rights: u64) -> Found {
    let offset = (1u64 << shift) - 1;
    Found { physical: entry & ADDRESS & !offset | address & offset, writable: rights & WRITABLE != 0, entry: (at, 8) }
}

/// Walks the tables of the kernel while a program runs under Linux's page-table isolation. CR3 then leads to the program's
/// own top table, which maps little of the kernel and is in the page behind the kernel's top table.
#[cold]
fn walk_kernels_tables(handle: &Handle, ram: &Ram, paging: &Paging, address: u64) -> Option<Found> {
    const OF_PROGRAM: u64 = 1 << 12;
    let is_isolated = paging.is_long() && paging.top & OF_PROGRAM != 0 && !super::trap::in_kernel(handle);
    is_isolated.then(|| walk_four(ram, paging.top & ADDRESS & !OF_PROGRAM, address)).flatten()
}

/// Translates a kernel address by the current page tables. Fails if the kernel's rights do not allow the access.
pub fn translate<const LONG: bool>(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let paging = Paging::of(handle, LONG);
    let found = if LONG && paging.kind == PagingMode::FourLevel {
        walk_four(ram, paging.top & ADDRESS, address)
    } else {
        paging.walk(ram, address)
    };
    let refused = Fault { address, write: access == Access::Write };
    let found = found.or_else(|| if LONG { walk_kernels_tables(handle, ram, &paging, address) } else { None });
    match found {
        Some(found) if access != Access::Write => Ok(found.physical),
        Some(found) if paging.may_write(&found) => {
            mark_written(ram, found.entry);
            Ok(found.physical)
        }
        _ => Err(refused),
    }
}

/// Sets the accessed and dirty bits, as the CPU does on a write. An engine's push must leave the same bits as a
/// guest's.
#[inline]
pub fn mark_written(ram: &Ram, (at, bytes): (u64, usize)) {
    if bytes != 0 {
        let low = ram.word32(at);
        let marked = low | ACCESSED_DIRTY as u32;
        if marked != low {
            ram.set_word32(at, marked);
        }
    }
}
