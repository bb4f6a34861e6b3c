//! Fast stores: the core takes its slow path for a store only if the page has translated code.
//!
//! Unmodified, Unicorn begins every TLB entry with the slow path, which searches for translated code at the stored
//! address. It leaves the slow path after the first store only if the guest may not execute the page: never under a
//! kernel without NX, and too early if a page is mapped at two addresses (docs/unicorn.md). Here the function that
//! fills a TLB entry is replaced by one that calls it and then decides by its own knowledge: a page from which no fetch
//! has filled an entry has no translated code.
//!
//! A TLB entry as the core lays it out, and as `Entry` here and `TlbEntry` in `cpu_location.rs` read it; 64 bytes:
//!
//! ```text
//! addresses of 8 bytes   of 4 bytes   content
//!          0                 0        LOAD    the page's guest address | flags; all ones: not allowed
//!          8                 4        STORE   the same
//!         16                 8        FETCH   the same
//!         24                16        the page's physical address
//!         32                24        the addend from the guest's address to the host's: host - guest
//! ```
//!
//! Translated code compares the word for its access with the wanted page. If they are equal, including flags, it uses
//! the addend; if not, it calls Unicorn: to look at the flags (the slow path), or to fill the entry (`fill`). `filled`
//! then changes the words as follows:
//!
//! ```text
//! the core asks for      page has code?        STORE               FETCH
//! a load or a store      no                    the page alone:     page | invalid: so that the first fetch
//!                                              the fast path       calls `fill`, too, and is noticed
//! a fetch, the first     not until now         slow path, in all   the page; from now on `code` has its bit
//!                                              entries for it
//! a load or a store      yes                   slow path           as Unicorn has set it, or as above
//! a store                yes, and all of it    as for a page without code, in all entries for it
//!                        was dropped
//! ```

mod noting;

use super::cpu_location::{Cpu, Memory};
use super::engine::Handle;
use super::ffi::write_request;
use super::ram::Ram;
use super::watched::{self, Watched};
use core::cell::Cell;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;
use unicorn_engine_sys::{self as sys, ControlType, TlbType, uc_error};

/// The layout of the TLBs of a kind of core.
pub(super) struct Layout {
    /// The number of modes (user mode, kernel mode and so on), each with its own TLB.
    pub(super) modes: usize,
    /// The bits of the smallest page of such a core; the flags of a TLB entry lie right below the page's address.
    pub(super) smallest_page_bits: u32,
    /// The bytes of a guest address.
    pub(super) address_bytes: usize,
    /// Puts stores to these host addresses on the slow path in all TLB entries.
    pub(super) guard: unsafe extern "C" fn(cpu: *mut c_void, host: usize, len: usize),
}

impl Layout {
    /// The flag of a STORE word that sends stores to the slow path, which looks for translated code (`TLB_NOTDIRTY`).
    pub(super) const fn long_way(&self) -> u64 {
        1 << (self.smallest_page_bits - 2)
    }

    /// The bits of an offset in the page of a TLB entry.
    pub(super) const fn page_bits(&self) -> u32 {
        if self.smallest_page_bits > PAGE_BITS { self.smallest_page_bits } else { PAGE_BITS }
    }

    const fn page(&self) -> u64 {
        1 << self.page_bits()
    }
}

/// (cpu, address, size, access, mode, whether it may fail, the host's pc in translated code); false if it failed.
type Fill = unsafe extern "C-unwind" fn(*mut c_void, u64, c_int, c_int, c_int, bool, usize) -> bool;

/// Like [`Fill`], for simple cases; it always returns (`translator/walk.h`).
type Walk = unsafe extern "C" fn(*mut c_void, u64, c_int, c_int) -> bool;

/// The function that fills a TLB entry.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The fast walk, if it can.
    Walk,
    /// Unicorn's.
    Library,
    /// None: the entry is only read.
    Nobody,
}

// Kinds of access (0 is a load); also the indices of the words of an entry for them.
const STORE: usize = 1;
const FETCH: usize = 2;

/// The page size of all TLB entries, unless the smallest page of the ISA is larger; where the size can be chosen,
/// `Core::new` sets it.
pub(super) const PAGE_BITS: u32 = 12;

/// The TLB of a mode, as translated code reads it.
#[repr(C)]
struct Mode {
    /// The number of entries minus one, times the size of one.
    mask: usize,
    entries: *mut u8,
}

const ENTRY_BITS: u32 = 6;

/// The state for one engine and its RAM.
pub(super) struct Stores {
    /// Null until the core first fills an entry.
    cpu: *mut c_void,
    /// The address of the CPU's state.
    state: usize,
    layout: &'static Layout,
    choose_size: unsafe extern "C" fn(*mut c_void, u64, c_int),
    holds_code: unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool,
    release: unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool,
    walk: Walk,
    /// Sets the flag of a watched page's entry (`watched.rs`).
    flag: unsafe extern "C" fn(*mut c_void, u64, c_int),
    /// The watched pages; null if there are none.
    watched: *const Watched,
    /// Whether written pages are noted (`stores/noting.rs`).
    is_noting: bool,
    /// Whether anything is watched or noted.
    has_more: bool,
    /// Unicorn's function that fills an entry, also while `library` is another one.
    unnoted: Fill,
    rows: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_uint,
    #[cfg(test)]
    kept: unsafe extern "C" fn(*mut c_void, u64, c_int, *mut u64),
    library: Fill,
    modes: *const Mode,
    handle: Handle,
    ram: Ram,
    /// One bit for each page from which code was fetched.
    code: Vec<u64>,
    /// The last store for which an entry was filled: its address and its number of bytes.
    last: (u64, u64),
    /// The next element of the list that begins at [`FIRST`].
    next: *mut Stores,
}

thread_local! {
    /// The list of the engines of this thread: an engine is made, run and closed by one thread.
    static FIRST: Cell<*mut Stores> = const { Cell::new(null_mut()) };
}

/// Replaces the core's function that fills TLB entries by [`fill`], and returns the state for it. [`forget`] frees that state.
/// Fails if the function or the TLB is not where the C part says.
pub(super) fn watch(handle: Handle, ram: &Ram, cpu: &Cpu) -> Result<*mut Stores, String> {
    let unknown = || "the CPU core does not keep its address translations where they are expected".to_string();
    let memory = Memory::of_this_process()?;
    let layout = &handle.kind().library.stores;
    let (place, library) = find_fill(&memory, handle, cpu).ok_or_else(unknown)?;
    let modes = cpu.translations_end.checked_sub(layout.modes * size_of::<Mode>()).ok_or_else(unknown)?;
    let pages = ram.len().div_ceil(layout.page()) as usize;
    let stores = Box::into_raw(Box::new(Stores {
        cpu: null_mut(),
        state: cpu.state,
        layout,
        choose_size: handle.kind().library.layout.choose_size,
        holds_code: handle.kind().library.layout.holds_code,
        release: handle.kind().library.layout.release,
        walk: handle.kind().library.layout.walk,
        flag: handle.kind().library.layout.flag,
        watched: core::ptr::null(),
        is_noting: false,
        has_more: false,
        // SAFETY: as for `library`.
        unnoted: unsafe { core::mem::transmute::<usize, Fill>(library) },
        rows: handle.kind().library.layout.rows,
        #[cfg(test)]
        kept: handle.kind().library.layout.kept,
        // SAFETY: the function is Unicorn's own of this type; Unicorn itself replaces it by others of this type.
        library: unsafe { core::mem::transmute::<usize, Fill>(library) },
        modes: modes as *const Mode,
        handle,
        ram: ram.clone(),
        code: vec![0; pages.div_ceil(64)],
        last: (0, 0),
        next: FIRST.get(),
    }));
    FIRST.set(stores);
    ram.join(stores);
    // SAFETY: the address is in the CPU's own table and holds such a function; no translated code runs yet.
    unsafe { (place as *mut Fill).write(fill) };
    Ok(stores)
}

/// Detaches an engine from the RAM, whose writes then drop no blocks of it any more. Called before the engine is closed or
/// abandoned.
pub(super) fn leave(stores: *mut Stores) {
    // SAFETY: made in `watch`, and not yet freed.
    let ram = unsafe { (*stores).ram.clone() };
    ram.leave(stores);
}

/// Removes an engine from the list, after it was closed.
pub(super) fn forget(stores: *mut Stores) {
    let first = FIRST.get();
    // SAFETY: the elements of the list were made in `watch`; each is removed and freed here, once, and nothing accesses
    // it afterwards.
    unsafe {
        if first == stores {
            FIRST.set((*stores).next);
        } else {
            let mut before = first;
            while (*before).next != stores {
                before = (*before).next;
            }
            (*before).next = (*stores).next;
        }
        drop(Box::from_raw(stores));
    }
}

/// The address in the CPU's table with the function that fills a TLB entry, and that function.
///
/// The C part knows the address from Unicorn's headers. It is proved as follows: if Unicorn is told to use another kind
/// of TLB, it changes this function, and then changes it back. Nothing else is examined, in particular not the heap
/// behind the table, which changes meanwhile.
fn find_fill(memory: &Memory, handle: Handle, cpu: &Cpu) -> Option<(usize, usize)> {
    let place = cpu.functions.checked_add(handle.kind().library.layout.functions_to_fill)?;
    let look = |kind: TlbType| {
        // SAFETY: plain call; no translated code runs yet.
        let answer = unsafe { sys::uc_ctl(handle.raw(), write_request(ControlType::TLB_TYPE, 1), kind as c_int) };
        (answer == uc_error::OK).then(|| memory.word(place)).flatten()
    };
    let (before, between, after) = (look(TlbType::CPU)?, look(TlbType::VIRTUAL)?, look(TlbType::CPU)?);
    (before == after && before != between && before != 0).then_some((place, before))
}

/// Replaces Unicorn's own function.
unsafe extern "C-unwind" fn fill(
    cpu: *mut c_void,
    address: u64,
    size: c_int,
    access: c_int,
    mode: c_int,
    may_fail: bool,
    host_pc: usize,
) -> bool {
    // SAFETY: the core calls this on the thread of its engine, which stays in the list until it has been closed. On a
    // fault Unicorn's function does not return but jumps out over this frame, which holds nothing that must be dropped.
    unsafe {
        let stores = Stores::of(cpu);
        let address = if access as usize == STORE { (*stores).begins(address, size as u64) } else { address };
        ((*stores).choose_size)(cpu, address, mode);
        let quickly = ((*stores).walk)(cpu, address, access, mode);
        let filled = quickly || ((*stores).library)(cpu, address, size, access, mode, may_fail, host_pc);
        if filled {
            (*stores).filled(address, access as usize, mode as usize);
            if (*stores).has_more {
                (*stores).filled_more(address, access, mode, (!quickly).then_some(host_pc));
            }
        }
        filled
    }
}

impl Stores {
    /// Sets the watched pages.
    pub(super) fn set_watched(&mut self, watched: *const Watched) {
        self.watched = watched;
        self.has_more = self.is_noting || !watched.is_null();
    }

    /// Handles an entry that was just filled while something is watched or noted. `walked` is the host's pc in translated
    /// code, if Unicorn itself has walked the page tables.
    ///
    /// # Safety
    /// Only from `fill`, with the arguments of the core.
    #[cold]
    unsafe fn filled_more(&mut self, address: u64, access: c_int, mode: c_int, walked: Option<usize>) {
        // SAFETY: as for the caller.
        unsafe {
            if self.is_noting {
                self.note_filled(address, access as usize, mode as usize);
            }
            if !self.watched.is_null() {
                (self.flag)(self.cpu, address, mode);
                if let Some(host_pc) = walked {
                    watched::walked(self.watched, host_pc);
                }
            }
        }
    }

    /// The element of a CPU. At its first call, this is the one whose state follows next in memory, as both are in the
    /// same allocation.
    ///
    /// # Safety
    /// Only from `fill`, with a CPU of this thread.
    unsafe fn of(cpu: *mut c_void) -> *mut Stores {
        let (mut stores, mut nearest) = (FIRST.get(), null_mut::<Stores>());
        // SAFETY: the elements of the list exist until `forget`.
        unsafe {
            while !stores.is_null() {
                if (*stores).cpu == cpu {
                    return stores;
                }
                let distance = |stores: *mut Stores| (*stores).state.wrapping_sub(cpu as usize);
                if (*stores).cpu.is_null() && (nearest.is_null() || distance(stores) < distance(nearest)) {
                    nearest = stores;
                }
                stores = (*stores).next;
            }
            if nearest.is_null() {
                // No engine here has this CPU, so there is nothing to continue with.
                std::process::abort();
            }
            (*nearest).cpu = cpu;
        }
        nearest
    }

    /// The start of the store for which an entry is filled. For an unaligned store Unicorn also asks for the page of
    /// its last byte, by the page's address, even if that is the page of the first byte. That would fail if only the
    /// bytes at the page's start are protected.
    fn begins(&mut self, address: u64, size: u64) -> u64 {
        let (first, bytes) = self.last;
        let is_asked_again = first & !(self.layout.page() - 1) == address
            && first != address
            && first.wrapping_add(bytes) == address.wrapping_add(size);
        let address = if is_asked_again { first } else { address };
        self.last = (address, size);
        address
    }

    /// Changes the words of the TLB entry of this address, which was just filled, as the module's table says.
    ///
    /// # Safety
    /// Only from `fill`, with the arguments of the core.
    unsafe fn filled(&mut self, address: u64, access: usize, mode: usize) {
        let page = address & !(self.layout.page() - 1);
        // SAFETY: as for the caller.
        let entry = unsafe { self.entry(address, mode) };
        if entry.get(access) & !(self.layout.page() - 1) != page {
            return self.distrust();
        }
        let physical = entry.physical();
        let number = (physical.wrapping_sub(self.ram.base()) >> self.layout.page_bits()) as usize;
        let Some((bits, bit)) = self.code.get_mut(number / 64).map(|bits| (bits, 1 << (number % 64))) else { return };
        let mut holds_code = *bits & bit != 0;
        if access == FETCH {
            if !holds_code {
                *bits |= bit;
                self.ram.note_code(physical & !(self.layout.page() - 1), self.layout.page(), true);
                self.guard(physical, self.layout.page() as usize);
            }
            return;
        }
        if holds_code && access == STORE && self.released(physical) {
            holds_code = false;
        }
        if !holds_code || entry.get(FETCH) == entry.never() {
            // No fetch matches this word, so the next fetch calls `fill`; but it differs from `never`, at which Unicorn
            // would leave the slow path.
            entry.set(FETCH, page | entry.invalid());
        }
        if !holds_code && entry.get(STORE) == page | self.layout.long_way() {
            entry.set(STORE, page);
        }
    }

    /// The TLB entry for an address.
    ///
    /// # Safety
    /// `mode` must be a mode of the core.
    unsafe fn entry(&self, address: u64, mode: usize) -> Entry {
        // SAFETY: the core has as many modes as its layout says, and looks up an address in this way.
        unsafe {
            let mode = &*self.modes.add(mode);
            Entry {
                at: mode.entries.add((address >> self.layout.page_bits() << ENTRY_BITS) as usize & mode.mask),
                layout: self.layout,
            }
        }
    }

    /// Whether stores to this address take the fast path in some MMU mode.
    #[cfg(test)]
    pub(super) unsafe fn quick(&self, address: u64) -> bool {
        // SAFETY: these are all the modes.
        (0..self.layout.modes).any(|mode| unsafe { self.entry(address, mode) }.get(STORE) == address & !(self.layout.page() - 1))
    }

    /// Fills a TLB entry, by a fast walk or by Unicorn, and returns the entry's words and the data kept beside it.
    /// `None` if it was not filled.
    ///
    /// # Safety
    /// `cpu` must be this engine's, and `mode` one of its modes.
    #[cfg(test)]
    pub(super) unsafe fn fill_by(&self, cpu: *mut c_void, by: By, address: u64, access: i32, mode: i32) -> Option<[u64; 13]> {
        // SAFETY: between runs; a function that may fail always returns, and there is room for eight words.
        unsafe {
            let filled = match by {
                By::Nobody => true,
                By::Walk => {
                    (self.choose_size)(cpu, address, mode);
                    (self.walk)(cpu, address, access, mode)
                }
                By::Library => {
                    (self.choose_size)(cpu, address, mode);
                    (self.library)(cpu, address, 0, access, mode, true, 0)
                }
            };
            let entry = self.entry(address, mode as usize);
            let mut kept = [0; 13];
            kept[..5].copy_from_slice(&[entry.get(0), entry.get(STORE), entry.get(FETCH), entry.physical(), entry.to_host()]);
            (self.kept)(cpu, address, mode, kept[5..].as_mut_ptr());
            filled.then_some(kept)
        }
    }

    /// If the page of this address has no translated code any more, returns its stores to the fast path and returns true.
    fn released(&mut self, physical: u64) -> bool {
        let (start, len) = (physical & !(self.layout.page() - 1), self.layout.page());
        let page = self.ram.pointer(start, len as usize);
        // SAFETY: reads tables of the core, and changes TLB entries of this page only.
        let is_released = page.is_some_and(|page| unsafe { (self.release)(self.cpu, page.cast()) });
        let number = (start.wrapping_sub(self.ram.base()) >> self.layout.page_bits()) as usize;
        if is_released && let Some(bits) = self.code.get_mut(number / 64) {
            *bits &= !(1 << (number % 64));
            self.ram.note_code(start, len, false);
        }
        is_released
    }

    /// Drops the blocks translated from these bytes of one page, independent of the guest's page tables.
    ///
    /// # Safety
    /// Between runs or in a callback, while the engine lives.
    pub(super) unsafe fn drop_code(&mut self, physical: u64, len: usize) {
        let Some(host) = self.ram.pointer(physical, len) else { return };
        let (uc, library) = (self.handle.raw().cast::<c_void>(), self.handle.kind().library);
        // SAFETY: `host` lies in memory that is mapped into this engine; both functions only look at its tables.
        unsafe {
            let start = (library.ram_address)(uc, host.cast());
            if start != usize::MAX {
                (library.invalidate)(uc, start, start + len);
            }
        }
        if !self.cpu.is_null() {
            self.released(physical);
        }
    }

    /// The number of pages of the engine's RAM that have translated code.
    ///
    /// # Safety
    /// `cpu` must be this engine's, and no run is on.
    pub(super) unsafe fn pages_with_code(&self, cpu: *mut c_void) -> usize {
        let pages = (0..self.ram.len() / self.layout.page()).map(|number| self.ram.base() + number * self.layout.page());
        let hosts = pages.filter_map(|page| self.ram.pointer(page, self.layout.page() as usize));
        // SAFETY: reads tables of the core.
        hosts.filter(|page| unsafe { (self.holds_code)(cpu, page.cast()) }).count()
    }

    /// Puts stores to these bytes on the slow path, in all TLB entries.
    fn guard(&self, physical: u64, len: usize) {
        if let Some(host) = self.ram.pointer(physical, len) {
            // SAFETY: compares the addresses with those in the TLB, and changes its entries only.
            unsafe { (self.layout.guard)(self.cpu, host as usize, len) };
        }
    }

    /// Called if an entry is not where it must be: from now on every page counts as having translated code, which is slow and
    /// always right.
    #[cold]
    fn distrust(&mut self) {
        self.code.fill(u64::MAX);
        self.ram.note_code(self.ram.base(), self.ram.len(), true);
        self.guard(self.ram.base(), self.ram.len() as usize);
    }
}

/// A TLB entry: for each kind of access an address with flags in its low bits, then the physical address.
struct Entry {
    at: *mut u8,
    layout: &'static Layout,
}

impl Entry {
    #[inline]
    fn get(&self, word: usize) -> u64 {
        // SAFETY: an entry has three such words.
        unsafe {
            match self.layout.address_bytes {
                4 => u64::from(self.at.cast::<u32>().add(word).read()),
                _ => self.at.cast::<u64>().add(word).read(),
            }
        }
    }

    #[inline]
    fn set(&self, word: usize, value: u64) {
        // SAFETY: as in `get`.
        unsafe {
            match self.layout.address_bytes {
                4 => self.at.cast::<u32>().add(word).write(value as u32),
                _ => self.at.cast::<u64>().add(word).write(value),
            }
        }
    }

    fn physical(&self) -> u64 {
        let words_end = (3 * self.layout.address_bytes).next_multiple_of(8);
        // SAFETY: it is behind the three words, aligned to its size.
        unsafe { self.at.add(words_end).cast::<u64>().read() }
    }

    #[cfg(test)]
    fn to_host(&self) -> u64 {
        let words_end = (3 * self.layout.address_bytes).next_multiple_of(8);
        // SAFETY: it is behind the physical address.
        unsafe { self.at.add(words_end + 8).cast::<u64>().read() }
    }

    /// The value of a word if the access is not allowed.
    fn never(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.layout.address_bytes)
    }

    fn invalid(&self) -> u64 {
        1 << (self.layout.smallest_page_bits - 1)
    }
}

/// Whether the search finds Unicorn's function that fills TLB entries again, after [`watch`] has replaced it. The
/// search makes Unicorn restore its own function.
#[cfg(test)]
pub(crate) fn finds_the_fill(handle: Handle) -> bool {
    let memory = Memory::of_this_process().unwrap();
    let cpu = super::cpu_location::find(handle).unwrap();
    find_fill(&memory, handle, &cpu).is_some()
}
