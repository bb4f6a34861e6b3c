//! Reports the core's accesses to watched ranges of guest memory (docs/unicorn.md, "Watched pages").
//!
//! The core's slow path for loads and stores (`translator/access.c`) looks each access up in a hash table of pages. Each row
//! has bitmaps of the watched pieces of 64 bytes in its page. Only if the access touches such a piece, the slow path calls
//! `accessed` here, which compares it with the ranges themselves and calls [`Events::accessed`].

use super::engine::{Events, InstructionContext, whom, whom_while_running};
use super::line;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::marker::PhantomPinned;
use core::ptr::null;
use std::collections::BTreeMap;
use trapline_isa::mem::ByteOrder;

/// A range of watched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedRange {
    /// The address of the first byte.
    pub start: u64,
    /// The number of bytes, at least one.
    pub len: u64,
    /// Whether `start` is a physical address.
    pub physical: bool,
    /// Whether loads are reported.
    pub loads: bool,
    /// Whether stores are reported.
    pub stores: bool,
}

impl WatchedRange {
    /// Whether the range has one of the `len` bytes at `start`, which is physical if the range is.
    #[inline]
    fn touches(&self, start: u64, len: u64) -> bool {
        let into = start.wrapping_sub(self.start);
        into < self.len || len > into.wrapping_neg()
    }
}

/// A load or a store by the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The guest address.
    pub address: u64,
    /// The physical address.
    pub physical: u64,
    /// The number of bytes: 1, 2, 4 or 8, and up to 4096 for [`Part::Block`].
    pub size: u32,
    /// Whether it is a store.
    pub is_store: bool,
    /// The number in memory before it.
    pub before: u64,
    /// The number that was loaded or stored.
    pub value: u64,
    /// The byte order of both numbers in memory.
    pub order: ByteOrder,
    /// Its relation to the instruction's operand.
    pub part: Part,
}

/// The relation of an access to an operand that a helper accesses in parts, such as those of MVC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is the whole operand.
    Whole,
    /// It is a part, and the operand is reported, too.
    Part,
    /// It is an operand whose parts are reported, too. Its numbers are its first bytes, up to eight.
    Block,
}

/// `struct trapline_blocks` of `translator/watched.h`: the operands that are accessed in parts. Only C code uses it.
type Blocks = [u64; BLOCKS_WORDS];

/// `BLOCKS_WORDS` of `translator/watched.h`.
const BLOCKS_WORDS: usize = 33;

/// `struct trapline_row` of `translator/watched.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Row {
    page: u64,
    pieces: [u64; 2],
    first: u32,
    count: u32,
}

/// `struct trapline_watched` of `translator/watched.h`.
#[repr(C)]
struct Table {
    rows: *const Row,
    mask: u64,
    accessed: extern "C" fn(*const Watched, *const Reported),
    blocks: *mut Blocks,
}

/// `struct trapline_access` of `translator/watched.h`.
#[repr(C)]
struct Reported {
    address: u64,
    physical: u64,
    other_physical: u64,
    before: u64,
    value: u64,
    host_pc: u64,
    size: u32,
    is_store: u32,
    is_big: u32,
    kind: u32,
    rows: [*const Row; 4],
}

/// The watched ranges of an engine. The core has a pointer to it.
#[repr(C)]
pub(super) struct Watched {
    table: Table,
    /// The core alone reads and writes it, through the pointer of the table.
    _blocks: Box<UnsafeCell<Blocks>>,
    rows: Box<[Row]>,
    /// For each row the numbers of the ranges in its page.
    lists: Vec<u32>,
    ranges: Vec<WatchedRange>,
    /// The argument of [`whom`].
    callbacks: *mut c_void,
    _pinned: PhantomPinned,
}

const PAGE_BITS: u32 = 12;
const PIECE_BITS: u32 = 6;
const NO_PAGE: u64 = u64::MAX;
const PHYSICAL: u64 = 1 << 63;

/// The hash of a page number: the index, before the mask, at which the search for its row begins.
fn first_place(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

impl Watched {
    /// A table of these ranges; `None` without any.
    pub(super) fn of(ranges: &[WatchedRange], callbacks: *mut c_void) -> Option<Box<Watched>> {
        let mut pages: BTreeMap<u64, ([u64; 2], Vec<u32>)> = BTreeMap::new();
        for (range, number) in ranges.iter().zip(0..) {
            let Some(last) = range.len.checked_sub(1).map(|more| range.start.saturating_add(more)) else { continue };
            for page in range.start >> PAGE_BITS..=last >> PAGE_BITS {
                let kind = if range.physical { PHYSICAL } else { 0 };
                let (pieces, list) = pages.entry(page | kind).or_default();
                let (start, end) = (page << PAGE_BITS, page << PAGE_BITS | ((1 << PAGE_BITS) - 1));
                let piece = |at: u64| (at - start) >> PIECE_BITS;
                let of_range = u64::MAX << piece(range.start.max(start)) & u64::MAX >> (63 - piece(last.min(end)));
                pieces[0] |= if range.loads { of_range } else { 0 };
                pieces[1] |= if range.stores { of_range } else { 0 };
                list.push(number);
            }
        }
        if pages.is_empty() {
            return None;
        }
        let len = (4 * pages.len()).next_power_of_two().max(16);
        let mut rows = vec![Row { page: NO_PAGE, pieces: [0; 2], first: 0, count: 0 }; len].into_boxed_slice();
        let mut lists = Vec::new();
        for (page, (pieces, list)) in pages {
            let mut at = first_place(page);
            while rows[at as usize & (len - 1)].page != NO_PAGE {
                at += 1;
            }
            rows[at as usize & (len - 1)] = Row { page, pieces, first: lists.len() as u32, count: list.len() as u32 };
            lists.extend(list);
        }
        let blocks = Box::new(UnsafeCell::new([0; BLOCKS_WORDS]));
        let table = Table { rows: rows.as_ptr(), mask: len as u64 - 1, accessed, blocks: blocks.get() };
        Some(Box::new(Watched {
            table,
            _blocks: blocks,
            rows,
            lists,
            ranges: ranges.to_vec(),
            callbacks,
            _pinned: PhantomPinned,
        }))
    }

    /// A table without ranges, for a guest whose own debug registers watch memory: the core takes its slow path for
    /// flagged pages only while it has a table.
    pub(super) fn nothing(callbacks: *mut c_void) -> Box<Watched> {
        let rows = vec![Row { page: NO_PAGE, pieces: [0; 2], first: 0, count: 0 }].into_boxed_slice();
        let blocks = Box::new(UnsafeCell::new([0; BLOCKS_WORDS]));
        let table = Table { rows: rows.as_ptr(), mask: 0, accessed, blocks: blocks.get() };
        let (lists, ranges) = (Vec::new(), Vec::new());
        Box::new(Watched { table, _blocks: blocks, rows, lists, ranges, callbacks, _pinned: PhantomPinned })
    }

    /// The row of a page, or null.
    fn row(&self, page: u64) -> *const Row {
        let (mut at, mask) = (first_place(page), self.rows.len() - 1);
        // One row in four is taken at most.
        while let Some(row) = self.rows.get(at as usize & mask).filter(|row| row.page != NO_PAGE) {
            if row.page == page {
                return row;
            }
            at += 1;
        }
        null()
    }

    /// Reports an access by a core of ours to every range that it touches. It is in one page.
    pub(super) fn look_at(
        &self,
        access: &trapline_core::Access,
        order: ByteOrder,
        cpu: &InstructionContext,
        events: &mut dyn Events,
    ) {
        let (address, physical) = (access.address, access.physical);
        let rows = [self.row(address >> PAGE_BITS), self.row(physical >> PAGE_BITS | PHYSICAL), null(), null()];
        if rows.iter().all(|row| row.is_null()) {
            return;
        }
        let (before, value) = (access.before, access.value);
        let reported = Reported {
            address,
            physical,
            other_physical: 0,
            before,
            value,
            host_pc: 0,
            size: access.size,
            is_store: access.is_store.into(),
            is_big: (order == ByteOrder::Big).into(),
            kind: 0,
            rows,
        };
        let (size, is_store) = (access.size, access.is_store);
        let access_seen = Access { address, physical, size, is_store, before, value, order, part: Part::Whole };
        self.touched(&reported, |number| events.accessed(cpu, number, &access_seen, Some(access.pc)));
    }

    /// Calls a function with the number of every range in a row's page that these bytes touch.
    #[inline(always)]
    fn touched_in(&self, row: *const Row, (start, len): (u64, u64), is_store: bool, mut each: impl FnMut(u32, &WatchedRange)) {
        // SAFETY: the core gives pointers into `rows` and null.
        let Some(row) = (unsafe { row.as_ref() }) else { return };
        let list = row.first as usize..row.first as usize + row.count as usize;
        for number in self.lists.get(list).unwrap_or_default() {
            let Some(range) = self.ranges.get(*number as usize) else { continue };
            let is_wanted = if is_store { range.stores } else { range.loads };
            if is_wanted && range.touches(start, len) {
                each(*number, range);
            }
        }
    }

    /// Calls a function with the number of every range that the access touches, once each.
    #[inline(always)]
    fn touched(&self, reported: &Reported, mut each: impl FnMut(u32)) {
        let is_store = reported.is_store != 0;
        let len = u64::from(reported.size);
        if reported.rows[2].is_null() && reported.rows[3].is_null() {
            let first = len.min((1 << PAGE_BITS) - reported.address % (1 << PAGE_BITS));
            self.touched_in(reported.rows[0], (reported.address, first), is_store, |number, _| each(number));
            self.touched_in(reported.rows[1], (reported.physical, first), is_store, |number, _| each(number));
            return;
        }
        self.touched_in_two(reported, &mut each);
    }

    /// Calls a function with the number of every range that the access touches, once each. It is in two pages.
    #[cold]
    fn touched_in_two(&self, reported: &Reported, each: &mut dyn FnMut(u32)) {
        let is_store = reported.is_store != 0;
        let len = u64::from(reported.size);
        let first = len.min((1 << PAGE_BITS) - reported.address % (1 << PAGE_BITS));
        let second = reported.address.wrapping_add(first);
        let parts = [
            (reported.address, first),
            (reported.physical, first),
            (second, len - first),
            (reported.other_physical, len - first),
        ];
        for (part, (row, bytes)) in reported.rows.iter().zip(parts).enumerate() {
            self.touched_in(*row, bytes, is_store, |number, range| {
                // A range that reaches into both pages was already reported for the first one.
                let is_told = part >= 2 && !reported.rows[part - 2].is_null() && {
                    let (start, len) = parts[part - 2];
                    range.touches(start, len)
                };
                if !is_told {
                    each(number);
                }
            });
        }
    }
}

/// Reports that Unicorn has walked the guest's page tables, and may have written to them.
///
/// # Safety
/// Only while the core fills a TLB entry, with its table.
pub(super) unsafe fn walked(watched: *const Watched, host_pc: usize) {
    // SAFETY: as for the caller; see `whom`.
    if let Some((handle, events)) = unsafe { whom_while_running((*watched).callbacks) } {
        let pc = line::pc_of_host(&handle, handle.cpu(), host_pc);
        events.walked(&InstructionContext(handle), pc);
    }
}

/// Called by the slow path after an access to a watched piece.
extern "C" fn accessed(watched: *const Watched, reported: *const Reported) {
    // SAFETY: the table that the core was given, which it holds until it gets another one; a variable of the caller's.
    let (watched, reported) = unsafe { (&*watched, &*reported) };
    let part = match reported.kind {
        0 => Part::Whole,
        1 => Part::Part,
        _ => Part::Block,
    };
    let mut pc = None;
    watched.touched(reported, |number| {
        // SAFETY: see `whom`; the core makes accesses during runs only.
        let (handle, events) = unsafe { whom(watched.callbacks) };
        // A part is not reported to anybody, so its pc is not needed.
        let pc = *pc.get_or_insert_with(|| match part {
            Part::Part => None,
            _ => line::pc_of_host(&handle, handle.cpu(), reported.host_pc as usize),
        });
        let access = Access {
            address: reported.address,
            physical: reported.physical,
            size: reported.size,
            is_store: reported.is_store != 0,
            before: reported.before,
            value: reported.value,
            order: if reported.is_big != 0 { ByteOrder::Big } else { ByteOrder::Little },
            part,
        };
        events.accessed(&InstructionContext(handle), number, &access, pc);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-3: a range holds its own bytes and no others, at the ends of pages and of the address space.
    #[test]
    fn a_range_touches_its_own_bytes_only() {
        let range = |start, len| WatchedRange { start, len, physical: false, loads: true, stores: true };
        for start in [0x1000, 0x1ffe, u64::MAX - 3] {
            let range = range(start, 4);
            for from in -9_i64..6 {
                for len in 1..9 {
                    let expected = (0..len as i64).any(|byte| (0..4).contains(&(from + byte)));
                    assert_eq!(range.touches(start.wrapping_add_signed(from), len), expected, "{start:#x} {from} {len}");
                }
            }
        }
    }

    /// BY-3: an access is reported once for each range that it touches, also across pages.
    #[test]
    fn an_access_across_two_pages_is_reported_once_per_range() {
        let range = |start, len, physical, loads, stores| WatchedRange { start, len, physical, loads, stores };
        let ranges = [
            range(0x1ff0, 0x20, false, true, true),
            range(0x2000, 1, false, false, true),
            range(0x1000, 8, false, true, true),
            range(0x9000, 2, true, true, false),
            range(0x8ffe, 1, true, true, true),
        ];
        let watched = Watched::of(&ranges, core::ptr::null_mut()).unwrap();
        let row = |page: u64| watched.rows.iter().find(|row| row.page == page).map_or(core::ptr::null(), core::ptr::from_ref);
        let told = |is_store| {
            let reported = Reported {
                address: 0x1ffe,
                physical: 0x8ffe,
                other_physical: 0x9000,
                before: 0,
                value: 0,
                host_pc: 0,
                size: 4,
                is_store,
                is_big: 0,
                kind: 0,
                rows: [row(1), row(8 | PHYSICAL), row(2), row(9 | PHYSICAL)],
            };
            let mut told = Vec::new();
            watched.touched(&reported, |number| told.push(number));
            told.sort_unstable();
            told
        };
        assert_eq!(told(0), [0, 3, 4]);
        assert_eq!(told(1), [0, 1, 4]);
        assert!(Watched::of(&[], core::ptr::null_mut()).is_none());
    }
}
