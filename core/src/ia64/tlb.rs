//! Address translation: regions, the translation registers that stay, and the cache that the guest fills.

use super::state::State;
use super::{Fault, cr, isr, psr, vector};
use core::cell::Cell;
use core::cmp::Ordering;

/// Translation registers of each kind.
const REGISTERS: usize = 16;
/// Cached translations of each kind.
const CACHED: usize = 64;

/// A translation of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// The virtual address of the page, without the region's bits.
    pub page: u64,
    /// The page-table entry, as the guest has inserted it.
    pub pte: u64,
    /// The region identifier.
    pub region: u64,
    /// The page size, as the number of address bits inside of the page; 0 in a free entry.
    pub bits: u32,
    /// The protection key. It is not checked.
    pub key: u32,
}

impl Entry {
    fn holds(self, region: u64, address: u64) -> bool {
        self.bits != 0 && self.region == region && ((self.page ^ address) & OFFSET) >> self.bits == 0
    }

    fn overlaps(self, region: u64, address: u64, bits: u32) -> bool {
        let larger = bits.max(self.bits);
        self.bits != 0 && self.region == region && ((self.page ^ address) & OFFSET) >> larger == 0
    }

    fn physical(self, address: u64) -> u64 {
        let inside = (1_u64 << self.bits) - 1;
        self.pte & 0x0003_ffff_ffff_f000 & !inside | address & inside
    }

    fn has(self, bit: u32) -> bool {
        self.pte >> bit & 1 != 0
    }
}

/// The bits of an address inside of its region.
const OFFSET: u64 = (1 << 61) - 1;

/// The translations of one kind: of instructions, or of data.
#[derive(Debug)]
#[repr(C)]
pub struct Half {
    /// The translation registers, which only `ptr` and another `itr` remove.
    pub registers: [Cell<Entry>; REGISTERS],
    /// The translation cache: entries of `itc`, which a later insertion may replace.
    pub cached: [Cell<Entry>; CACHED],
    /// The entry of the cache that is replaced next.
    pub next: Cell<u32>,
    /// Always 0, as in [`State::gap`].
    pub gap: Cell<u32>,
}

impl Default for Half {
    fn default() -> Half {
        Half {
            registers: core::array::from_fn(|_| Cell::default()),
            cached: core::array::from_fn(|_| Cell::default()),
            next: Cell::new(0),
            gap: Cell::new(0),
        }
    }
}

impl Half {
    fn all(&self) -> impl Iterator<Item = &Cell<Entry>> {
        self.registers.iter().chain(&self.cached)
    }

    fn find(&self, region: u64, address: u64) -> Option<Entry> {
        self.all().map(Cell::get).find(|entry| entry.holds(region, address))
    }

    /// Puts a translation into the cache.
    fn insert(&self, entry: Entry) {
        self.purge(entry.region, entry.page, entry.bits, false);
        let next = self.next.get();
        self.cached[next as usize % CACHED].set(entry);
        self.next.set((next + 1) % CACHED as u32);
    }

    /// Removes the translations of a range; those in registers only if it is asked for.
    fn purge(&self, region: u64, address: u64, bits: u32, registers_too: bool) {
        let registers = self.registers.iter().filter(|_| registers_too);
        for cell in self.cached.iter().chain(registers) {
            if cell.get().overlaps(region, address, bits) {
                cell.set(Entry::default());
            }
        }
    }
}

/// The translations of instructions and of data.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Tlb {
    /// The entries for fetches.
    pub code: Half,
    /// The entries for loads, stores and the register stack engine.
    pub data: Half,
}

/// The purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The fetch of an instruction.
    Fetch,
    /// A load or a store, or both, with further status bits.
    Data { read: bool, write: bool, status: u64 },
}

/// Whether the access rights of a page allow an access, by the table of the manual: at this level, with the page's level.
fn allows(rights: u64, page_level: u64, level: u64, purpose: Purpose) -> bool {
    // Letters: read, write, execute; at the page's level, and at levels with more privileges.
    let (own, above): (&str, &str) = match rights {
        0 => ("r", "r"),
        1 => ("rx", "rx"),
        2 => ("rw", "rw"),
        3 => ("rwx", "rwx"),
        4 => ("r", "rw"),
        5 => ("rx", "rwx"),
        6 => ("rwx", "rw"),
        _ => ("x", "rx"),
    };
    let allowed = match level.cmp(&page_level) {
        _ if level == 0 => above,
        // Any level may execute a page with rights 7, and the kernel alone reads it.
        _ if rights == 7 => own,
        Ordering::Less => above,
        Ordering::Equal => own,
        Ordering::Greater => "",
    };
    match purpose {
        Purpose::Fetch => allowed.contains('x'),
        Purpose::Data { read, write, .. } => (!read || allowed.contains('r')) && (!write || allowed.contains('w')),
    }
}

impl State {
    fn region(&self, address: u64) -> u64 {
        self.regions[(address >> 61) as usize].get() >> 8 & 0xff_ffff
    }

    /// The physical address of kernel data, if the TLB and the page's rights allow the access. For the host.
    pub fn data_address(&self, address: u64, write: bool) -> Option<u64> {
        self.translate(address, Purpose::Data { read: !write, write, status: 0 }, 0).ok()
    }

    /// The physical address of kernel code. For the host.
    pub fn code_address(&self, address: u64) -> Option<u64> {
        self.translate(address, Purpose::Fetch, 0).ok()
    }

    /// The physical address of an access at a privilege level. Changes nothing.
    pub(super) fn translate(&self, address: u64, purpose: Purpose, level: u64) -> Result<u64, Fault> {
        self.look_up(address, purpose, level).map(|entry| entry.physical(address))
    }

    /// The translation of an access at a privilege level.
    pub(super) fn look_up(&self, address: u64, purpose: Purpose, level: u64) -> Result<Entry, Fault> {
        let (half, status) = match purpose {
            Purpose::Fetch => (&self.tlb.code, isr::X),
            Purpose::Data { read, write, status } => {
                (&self.tlb.data, status | if read { isr::R } else { 0 } | if write { isr::W } else { 0 })
            }
        };
        let is_fetch = purpose == Purpose::Fetch;
        let raise = |vector: u32| Err(Fault { vector, status, address, number: 0 });
        let Some(entry) = half.find(self.region(address), address & OFFSET) else {
            let has_details = self.status.get() & psr::IC != 0;
            return raise(match (is_fetch, has_details) {
                (true, _) => vector::CODE_MISS,
                (false, true) => vector::DATA_MISS,
                (false, false) => vector::NESTED_MISS,
            });
        };
        if !entry.has(0) {
            return raise(vector::NOT_PRESENT);
        }
        if !allows(entry.pte >> 9 & 7, entry.pte >> 7 & 3, level, purpose) {
            return raise(if is_fetch { vector::CODE_RIGHTS } else { vector::DATA_RIGHTS });
        }
        if !entry.has(5) {
            return raise(if is_fetch { vector::CODE_ACCESS } else { vector::DATA_ACCESS });
        }
        if matches!(purpose, Purpose::Data { write: true, .. }) && !entry.has(6) {
            return raise(vector::DIRTY);
        }
        Ok(entry)
    }

    /// Whether the page with the running code asks for deferral of speculative loads.
    pub(super) fn code_defers(&self) -> bool {
        let address = self.ip();
        self.status.get() & psr::IT != 0
            && self.tlb.code.find(self.region(address), address & OFFSET).is_some_and(|entry| entry.has(52))
    }

    /// The privilege level that `epc` gives to the running code: that of a gate page, if it is in one.
    pub(super) fn gate_level(&self) -> u64 {
        let (address, level) = (self.ip(), self.level());
        let entry = self.tlb.code.find(self.region(address), address & OFFSET);
        entry.filter(|entry| entry.pte >> 9 & 7 == 7).map_or(level, |entry| level.min(entry.pte >> 7 & 3))
    }

    /// The translation that `itc` and `itr` insert, from the registers of the interruption.
    fn inserted(&self, pte: u64) -> Result<Entry, Fault> {
        let (address, size) = (self.control[cr::IFA].get(), self.control[cr::ITIR].get());
        let bits = (size >> 2 & 0x3f) as u32;
        if !matches!(bits, 12..=28 | 30 | 32 | 34 | 36) {
            return Err(Fault::general(isr::RESERVED));
        }
        let page = address & OFFSET & !((1 << bits) - 1);
        Ok(Entry { page, pte, region: self.region(address), bits, key: (size >> 8) as u32 & 0xff_ffff })
    }

    fn half(&self, data: bool) -> &Half {
        if data { &self.tlb.data } else { &self.tlb.code }
    }

    /// `itc`: puts a translation into the cache.
    pub(super) fn insert_cached(&self, data: bool, pte: u64) -> Result<(), Fault> {
        let entry = self.inserted(pte)?;
        self.half(data).insert(entry);
        self.has_changed();
        Ok(())
    }

    /// `itr`: puts a translation into a register.
    pub(super) fn insert_register(&self, data: bool, number: u64, pte: u64) -> Result<(), Fault> {
        let entry = self.inserted(pte)?;
        let half = self.half(data);
        let place = half.registers.get((number & 0xff) as usize).ok_or(Fault::general(isr::RESERVED))?;
        half.purge(entry.region, entry.page, entry.bits, false);
        place.set(entry);
        self.has_changed();
        Ok(())
    }

    /// `ptc` and `ptr`: removes the translations of a range, whose size has the page size's bits.
    pub(super) fn purge(&self, address: u64, size: u64, kinds: [bool; 2], registers_too: bool) {
        let bits = (size >> 2 & 0x3f) as u32;
        for data in [false, true] {
            if kinds[usize::from(data)] {
                self.half(data).purge(self.region(address), address & OFFSET, bits, registers_too);
            }
        }
        self.has_changed();
    }

    /// `ptc.e`: empties the caches.
    pub(super) fn purge_all(&self) {
        for half in [&self.tlb.code, &self.tlb.data] {
            half.cached.iter().for_each(|cell| cell.set(Entry::default()));
        }
        self.has_changed();
    }

    pub(super) fn has_changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Purpose = Purpose::Data { read: true, write: false, status: 0 };
    const STORE: Purpose = Purpose::Data { read: false, write: true, status: 0 };

    /// KP-2: the manual's table of access rights: for each level of a page, the rights at levels 3, 2, 1 and 0.
    #[test]
    fn levels_above_that_of_the_page_have_rights_of_their_own() {
        #[rustfmt::skip]
        let cases: [(u64, u64, [&str; 4]); 8] = [
            (0, 3, ["r", "r", "r", "r"]),
            (2, 1, ["", "", "rw", "rw"]),
            (4, 3, ["r", "rw", "rw", "rw"]),
            (4, 2, ["", "r", "rw", "rw"]),
            (5, 3, ["rx", "rwx", "rwx", "rwx"]),
            (6, 1, ["", "", "rwx", "rw"]),
            (6, 0, ["", "", "", "rw"]),
            (7, 2, ["x", "x", "x", "rx"]),
        ];
        for (rights, page_level, expected) in cases {
            for (level, expected) in [3, 2, 1, 0].into_iter().zip(expected) {
                for (letter, purpose) in [('r', LOAD), ('w', STORE), ('x', Purpose::Fetch)] {
                    let allowed = allows(rights, page_level, level, purpose);
                    assert_eq!(
                        allowed,
                        expected.contains(letter),
                        "rights {rights} of a page of level {page_level}, {letter} at {level}"
                    );
                }
            }
        }
    }

    /// KP-2: translations are found by region and page size, replaced, and purged; registers stay.
    #[test]
    fn translations_are_found_by_region_and_page_size() {
        let state = State::new();
        state.status.set(psr::IC);
        state.regions[5].set(0x77 << 8);
        state.control[cr::IFA].set(0xa000_0000_0012_3000);
        state.control[cr::ITIR].set(14 << 2);
        // Present, accessed, rights 2: read and write at level 0; not dirty.
        state.insert_cached(true, 0x40_0000 | 1 | 1 << 5 | 2 << 9).expect("a page size");
        let at = 0xa000_0000_0012_0018;
        assert_eq!(state.translate(at, LOAD, 0), Ok(0x40_0018));
        let vector = |result: Result<u64, Fault>| result.map_err(|fault| fault.vector);
        assert_eq!(vector(state.translate(at, STORE, 0)), Err(vector::DIRTY));
        assert_eq!(vector(state.translate(at, LOAD, 3)), Err(vector::DATA_RIGHTS));
        assert_eq!(vector(state.translate(at, Purpose::Fetch, 0)), Err(vector::CODE_MISS));
        assert_eq!(vector(state.translate(at + 0x4000, LOAD, 0)), Err(vector::DATA_MISS));
        state.status.set(0);
        assert_eq!(vector(state.translate(at + 0x4000, LOAD, 0)), Err(vector::NESTED_MISS));
        state.regions[5].set(0x78 << 8);
        assert!(state.translate(at, LOAD, 0).is_err(), "another region");
        state.regions[5].set(0x77 << 8);
        state.insert_register(true, 3, 0x80_0000 | 1 | 1 << 5 | 1 << 6 | 2 << 9).expect("a register");
        assert_eq!(state.translate(at, STORE, 0), Ok(0x80_0018), "it has replaced the cached one");
        state.purge_all();
        state.purge(at, 14 << 2, [true, true], false);
        assert_eq!(state.translate(at, LOAD, 0), Ok(0x80_0018));
        state.purge(at, 14 << 2, [false, true], true);
        assert!(state.translate(at, LOAD, 0).is_err());
        assert!(state.insert_register(true, 16, 0).is_err());
        state.control[cr::ITIR].set(29 << 2);
        assert!(state.insert_cached(true, 0).is_err(), "no such page size");
    }
}
