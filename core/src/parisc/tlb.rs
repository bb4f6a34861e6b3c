//! The TLB, which the guest fills, for code and data alike. A miss raises an exception. Page entries are replaced
//! round-robin. A few block entries map many pages each and are never replaced.

use super::State;
use super::number;
use super::psw;
use core::cell::Cell;

/// The number of page entries.
pub const ENTRIES: usize = 64;

/// The number of address bits inside a page.
pub const PAGE_BITS: u32 = 12;

/// A page entry.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The identifier of the address space that the page belongs to.
    pub space: Cell<u32>,
    /// The virtual address of the page. Bit 0 is set if the entry has an address, and bit 1 if it has rights, too: only
    /// then it is used.
    pub page: Cell<u32>,
    /// The physical address of the page.
    pub physical: Cell<u32>,
    /// Rights and protection identifier, as `idtlbp` gives them.
    pub rights: Cell<u32>,
}

/// A block entry: it maps many pages of space 0. `diag` writes it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Block {
    /// The virtual address of the first page.
    pub start: Cell<u32>,
    /// The number of bytes.
    pub len: Cell<u32>,
    /// The physical address of the first page.
    pub physical: Cell<u32>,
    /// Rights and protection identifier, as `idtlbp` gives them.
    pub rights: Cell<u32>,
}

/// The number of block entries.
pub const BLOCKS: usize = 8;

/// All block entries.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Blocks(pub [Block; BLOCKS]);

/// All page entries.
#[repr(transparent)]
#[derive(Debug)]
pub struct Tlb(pub [Entry; ENTRIES]);

impl Default for Tlb {
    fn default() -> Tlb {
        Tlb(core::array::from_fn(|_| Entry::default()))
    }
}

const HAS_ADDRESS: u32 = 1;
const HAS_RIGHTS: u32 = 2;
const OFFSET: u32 = (1 << PAGE_BITS) - 1;
/// The bits of a protection identifier: 18, the most that PA-RISC 1.1 allows.
const IDENTIFIER: u32 = (1 << 18) - 1;

/// The purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An instruction fetch.
    Fetch,
}

impl Entry {
    fn is_of(&self, space: u32, address: u32) -> bool {
        let page = self.page.get();
        page & HAS_ADDRESS != 0 && (page ^ address) & !OFFSET == 0 && self.space.get() == space
    }

    /// The page type of the access rights: 0 read-only data, 1 data, 2 code, 3 code that may be written, 4 to 7 code
    /// that only runs (gateways).
    pub(super) fn kind(&self) -> u32 {
        self.rights.get() >> 24 & 7
    }

    /// Whether the rights allow the access at this privilege level.
    pub(super) fn allows(&self, purpose: Purpose, level: u32) -> bool {
        let rights = self.rights.get();
        let [lower, upper] = [rights >> 20 & 3, rights >> 22 & 3];
        let kind = self.kind();
        match purpose {
            Purpose::Load => kind < 4 && level <= upper,
            Purpose::Store => kind & 5 == 1 && level <= lower,
            Purpose::Fetch => kind >= 2 && (lower..=upper).contains(&level),
        }
    }

    /// The protection identifier.
    fn identifier(&self) -> u32 {
        self.rights.get() >> 1 & IDENTIFIER
    }

    fn is_dirty(&self) -> bool {
        self.rights.get() >> 28 & 1 != 0
    }
}

impl State {
    /// A copy of the entry that maps an address. A block entry gives an entry for the address's page. `None` on a miss.
    pub(super) fn entry(&self, space: u32, address: u32) -> Option<Entry> {
        let is_of = |block: &&Block| space == 0 && address.wrapping_sub(block.start.get()) < block.len.get();
        if let Some(block) = self.blocks.0.iter().find(is_of) {
            let physical = block.physical.get().wrapping_add(address.wrapping_sub(block.start.get())) & !OFFSET;
            let page = address & !OFFSET | HAS_ADDRESS | HAS_RIGHTS;
            return Some(Entry {
                space: Cell::new(0),
                page: Cell::new(page),
                physical: Cell::new(physical),
                rights: block.rights.clone(),
            });
        }
        self.tlb.0.iter().find(|entry| entry.is_of(space, address) && entry.page.get() & HAS_RIGHTS != 0).cloned()
    }

    /// Translates an address; `Err` is the number of the exception.
    pub fn translate(&self, space: u32, address: u32, purpose: Purpose, level: u32) -> Result<u32, u32> {
        let is_fetch = purpose == Purpose::Fetch;
        let Some(entry) = self.entry(space, address) else {
            return Err(if is_fetch { number::CODE_MISS } else { number::DATA_MISS });
        };
        if !entry.allows(purpose, level) {
            return Err(if is_fetch { number::CODE_RIGHTS } else { number::DATA_RIGHTS });
        }
        if !self.has_identifier(&entry, purpose) {
            return Err(if is_fetch { number::CODE_RIGHTS } else { number::DATA_IDENTIFIER });
        }
        if purpose == Purpose::Store && !entry.is_dirty() {
            return Err(number::DIRTY);
        }
        Ok(entry.physical.get() | address & OFFSET)
    }

    /// Whether one of the four protection registers has the entry's identifier, which is not needed for a page without
    /// one, nor while PSW P is 0. The lowest bit of a register forbids stores.
    pub(super) fn has_identifier(&self, entry: &Entry, purpose: Purpose) -> bool {
        let identifier = entry.identifier();
        let allows = |register: u32| register >> 1 & IDENTIFIER == identifier && (purpose != Purpose::Store || register & 1 == 0);
        self.status.get() & psw::P == 0
            || identifier == 0
            || [8, 9, 12, 13].iter().any(|number: &usize| allows(self.control[*number].get()))
    }

    /// `idtlba`, `iitlba`: inserts the physical address of a page. The entry is unused until [`State::insert_rights`].
    pub(super) fn insert_address(&self, space: u32, address: u32, value: u32) {
        self.purge(space, address);
        let place = self.replace.get();
        self.replace.set((place + 1) % ENTRIES as u32);
        let entry = &self.tlb.0[place as usize % ENTRIES];
        entry.space.set(space);
        entry.page.set(address & !OFFSET | HAS_ADDRESS);
        entry.physical.set((value >> 5 & 0xf_ffff) << PAGE_BITS);
    }

    /// `idtlbp`, `iitlbp`: sets the rights of a page entry. Does nothing if there is none.
    pub(super) fn insert_rights(&self, space: u32, address: u32, value: u32) {
        if let Some(entry) = self.tlb.0.iter().find(|entry| entry.is_of(space, address)) {
            entry.rights.set(value);
            entry.page.set(entry.page.get() | HAS_RIGHTS);
        }
    }

    /// Removes the page entry of an address.
    pub(super) fn purge(&self, space: u32, address: u32) {
        self.tlb.0.iter().filter(|entry| entry.is_of(space, address)).for_each(|entry| entry.page.set(0));
    }

    /// Removes all page entries.
    pub(super) fn purge_all(&self) {
        self.tlb.0.iter().for_each(|entry| entry.page.set(0));
    }
}
