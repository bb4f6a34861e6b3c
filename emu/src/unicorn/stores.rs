//! Quick stores: the core takes its long way for a store only where the page holds translated code.
//!
//! Left alone it begins every cached translation of an address with the long way, which looks for translated code under
//! the store, and leaves it after the first store only where the guest may not execute: never under a kernel without
//! NX, and too soon where a page is reached by two addresses (docs/unicorn.md). Here the function that fills in a
//! translation is exchanged for one that calls it and then goes by what it knows: code is fetched through a fill that
//! asks for it, so a page that none has asked for holds no translated code.
//!
//! One cached translation as the core lays it out, and as `Entry` here and `TlbEntry` in `live.rs` read it; 64 bytes:
//!
//! ```text
//! addresses of 8 bytes   of 4 bytes   what stands there
//!          0                 0        LOAD    the page's guest address | flags; all ones: not allowed
//!          8                 4        STORE   the same
//!         16                 8        FETCH   the same
//!         24                16        the page's physical address
//!         32                24        what leads from the guest's address to the host's: host - guest
//! ```
//!
//! Translated code compares the word of its access with the page that it wants. Equal, flags and all, and it goes by
//! the last word; not equal, and it calls the library: to look at the flags (the long way), or for a new translation
//! (`fill`). What `filled` makes of the words:
//!
//! ```text
//! the core asks for      the page held code?   STORE               FETCH
//! a load or a store      no                    the page alone:     page | invalid: so the first fetch, too, comes
//!                                              the short way       to `fill`, and is noticed
//! a fetch, the first     not until now         long way, in all    the page: from now on `code` has its bit
//!                                              translations of it
//! a load or a store      yes                   long way            as the library has left it, or as above
//! a store                yes, and all of it    as for a page that held none, in all translations of it
//!                        was thrown away
//! ```

use super::engine::Handle;
use super::ffi::write_request;
use super::live::{Cpu, Memory};
use super::ram::Ram;
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use unicorn_engine_sys::{self as sys, ControlType, TlbType, uc_error};

/// Where things lie in a kind of core.
pub(super) struct Layout {
    /// Sets of cached translations: user mode, kernel mode and so on.
    pub(super) modes: usize,
    /// Bits of the smallest page that such a core can have; the flags of an entry lie right below.
    pub(super) smallest_page_bits: u32,
    /// Bytes of a guest address.
    pub(super) address_bytes: usize,
    /// Puts the stores to these host addresses on the long way in all cached translations.
    pub(super) guard: unsafe extern "C" fn(cpu: *mut c_void, host: usize, len: usize),
}

impl Layout {
    /// What an entry's word says of a page whose stores take the long way, beside its address.
    pub(super) const fn long_way(&self) -> u64 {
        1 << (self.smallest_page_bits - 2)
    }

    /// Bits of an address in a page of a cached translation.
    pub(super) const fn page_bits(&self) -> u32 {
        if self.smallest_page_bits > PAGE_BITS { self.smallest_page_bits } else { PAGE_BITS }
    }

    const fn page(&self) -> u64 {
        1 << self.page_bits()
    }
}

/// (cpu, address, size, access, mode, whether it may fail, the place in translated code): false if it failed.
type Fill = unsafe extern "C-unwind" fn(*mut c_void, u64, c_int, c_int, c_int, bool, usize) -> bool;

/// The same of simple ones alone, which always return (`translator/walk.h`).
type Walk = unsafe extern "C" fn(*mut c_void, u64, c_int, c_int) -> bool;

/// Who fills in a translation.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The quick walk, if it knows how.
    Walk,
    /// The library.
    Library,
    /// Nobody: only what is there.
    Nobody,
}

// Accesses for which a translation is asked (0: a load), and the words of an entry that say whether it serves them.
const STORE: usize = 1;
const FETCH: usize = 2;

/// All pages that the core keeps translations for are of this size, if the smallest is no larger: where that is ours to
/// choose, `Core::new` asks for it.
pub(super) const PAGE_BITS: u32 = 12;

/// One mode's cached translations, as translated code looks into them.
#[repr(C)]
struct Mode {
    /// The number of entries less one, times the size of one.
    mask: usize,
    entries: *mut u8,
}

const ENTRY_BITS: u32 = 6;

/// What is known of an engine's RAM.
pub(super) struct Stores {
    /// Null until the core has called for it the first time.
    cpu: *mut c_void,
    /// The CPU's state.
    state: usize,
    layout: &'static Layout,
    choose_size: unsafe extern "C" fn(*mut c_void, u64, c_int),
    holds_code: unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool,
    release: unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool,
    walk: Walk,
    #[cfg(test)]
    kept: unsafe extern "C" fn(*mut c_void, u64, c_int, *mut u64),
    library: Fill,
    modes: *const Mode,
    ram: Ram,
    /// A bit for each page that code was fetched from.
    code: Vec<u64>,
    /// The store that a translation was last asked for: its address, its bytes.
    last: (u64, u64),
    next: *mut Stores,
}

thread_local! {
    /// The engines of this thread: one is made, run and closed by one thread.
    static FIRST: Cell<*mut Stores> = const { Cell::new(null_mut()) };
}

/// From now on, until `forget` is given the answer.
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
        #[cfg(test)]
        kept: handle.kind().library.layout.kept,
        // SAFETY: the library's own, which it exchanges for another one of this type when it is asked to.
        library: unsafe { core::mem::transmute::<usize, Fill>(library) },
        modes: modes as *const Mode,
        ram: ram.clone(),
        code: vec![0; pages.div_ceil(64)],
        last: (0, 0),
        next: FIRST.get(),
    }));
    FIRST.set(stores);
    // SAFETY: the place lies in the CPU's own table and holds such a function; no translated code runs yet.
    unsafe { (place as *mut Fill).write(fill) };
    Ok(stores)
}

/// After the engine was closed.
pub(super) fn forget(stores: *mut Stores) {
    let first = FIRST.get();
    // SAFETY: the elements of the list were made in `watch`, each is taken out and freed here, once, and nothing runs
    // that looks at them.
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

/// The address in the CPU's table at which the function stands that fills in a translation, and that function.
///
/// The C part knows the place from the library's headers. The proof: asked for another way of filling, the library
/// changes this function, and then puts it back. Nothing else is looked at, above all not what the heap has behind the
/// table, which changes while this runs.
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

/// In place of the library's own.
unsafe extern "C-unwind" fn fill(
    cpu: *mut c_void,
    address: u64,
    size: c_int,
    access: c_int,
    mode: c_int,
    may_fail: bool,
    host_pc: usize,
) -> bool {
    // SAFETY: the core calls this on the thread of its engine, which is in the list until it has been closed. On a
    // fault the library's function does not return but jumps out, over this frame, which holds nothing that would have
    // to be dropped.
    unsafe {
        let stores = Stores::of(cpu);
        let address = if access as usize == STORE { (*stores).begins(address, size as u64) } else { address };
        ((*stores).choose_size)(cpu, address, mode);
        let filled = ((*stores).walk)(cpu, address, access, mode)
            || ((*stores).library)(cpu, address, size, access, mode, may_fail, host_pc);
        if filled {
            (*stores).filled(address, access as usize, mode as usize);
        }
        filled
    }
}

impl Stores {
    /// That of a CPU: the first time, the one whose state follows next, for that lies in the same piece of memory.
    ///
    /// # Safety
    /// Only from `fill`, with a CPU of this thread.
    unsafe fn of(cpu: *mut c_void) -> *mut Stores {
        let (mut stores, mut nearest) = (FIRST.get(), null_mut::<Stores>());
        // SAFETY: the elements of the list live until `forget`.
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
                // Nobody has made this engine: there is nothing to go on with.
                std::process::abort();
            }
            (*nearest).cpu = cpu;
        }
        nearest
    }

    /// Where the store begins that a translation is asked for. Of one that is not aligned the library asks for the page
    /// of its last byte, too, by the page's address, also where that is the page of the first, and where only the bytes
    /// at a page's start are protected that one is refused.
    fn begins(&mut self, address: u64, size: u64) -> u64 {
        let (first, bytes) = self.last;
        let is_asked_again = first & !(self.layout.page() - 1) == address
            && first != address
            && first.wrapping_add(bytes) == address.wrapping_add(size);
        let address = if is_asked_again { first } else { address };
        self.last = (address, size);
        address
    }

    /// The library has just put in the translation of this address.
    ///
    /// # Safety
    /// Only from `fill`, with what the core has given.
    unsafe fn filled(&mut self, address: u64, access: usize, mode: usize) {
        let page = address & !(self.layout.page() - 1);
        // SAFETY: as our own caller.
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
                self.guard(physical, self.layout.page() as usize);
            }
            return;
        }
        if holds_code && access == STORE && self.released(physical) {
            self.code[number / 64] &= !bit;
            holds_code = false;
        }
        if !holds_code || entry.get(FETCH) == entry.never() {
            // No fetch finds this, so the next one comes here; but it is not "never", at which the library would leave
            // the long way.
            entry.set(FETCH, page | entry.invalid());
        }
        if !holds_code && entry.get(STORE) == page | self.layout.long_way() {
            entry.set(STORE, page);
        }
    }

    /// Where this address' translation would be.
    ///
    /// # Safety
    /// `mode` is one of the core's own.
    unsafe fn entry(&self, address: u64, mode: usize) -> Entry {
        // SAFETY: the core has as many modes as its layout says, and looks an address up just so.
        unsafe {
            let mode = &*self.modes.add(mode);
            Entry {
                at: mode.entries.add((address >> self.layout.page_bits() << ENTRY_BITS) as usize & mode.mask),
                layout: self.layout,
            }
        }
    }

    #[cfg(test)]
    pub(super) unsafe fn quick(&self, address: u64) -> bool {
        // SAFETY: all modes that there are.
        (0..self.layout.modes).any(|mode| unsafe { self.entry(address, mode) }.get(STORE) == address & !(self.layout.page() - 1))
    }

    /// Fills in a translation, by a quick walk alone or by the library alone: what is kept of it then, and beside it.
    /// `None`: it was not done.
    ///
    /// # Safety
    /// `cpu` is this engine's, and `mode` one of its modes.
    #[cfg(test)]
    pub(super) unsafe fn fill_by(&self, cpu: *mut c_void, by: By, address: u64, access: i32, mode: i32) -> Option<[u64; 13]> {
        // SAFETY: between runs; a function that may fail returns in any case, and there is room for eight words.
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

    /// Whether all code of this page has been thrown away again; then its stores go the quick way.
    fn released(&self, physical: u64) -> bool {
        let page = self.ram.pointer(physical & !(self.layout.page() - 1), self.layout.page() as usize);
        // SAFETY: looks into tables of the core's, and changes cached translations of this page alone.
        page.is_some_and(|page| unsafe { (self.release)(self.cpu, page.cast()) })
    }

    /// Pages of the engine's RAM in which translated code lies.
    ///
    /// # Safety
    /// `cpu` is this engine's, between runs.
    pub(super) unsafe fn pages_with_code(&self, cpu: *mut c_void) -> usize {
        let pages = (0..self.ram.len() / self.layout.page()).map(|number| self.ram.base() + number * self.layout.page());
        let hosts = pages.filter_map(|page| self.ram.pointer(page, self.layout.page() as usize));
        // SAFETY: looks into tables of the core's.
        hosts.filter(|page| unsafe { (self.holds_code)(cpu, page.cast()) }).count()
    }

    fn guard(&self, physical: u64, len: usize) {
        if let Some(host) = self.ram.pointer(physical, len) {
            // SAFETY: compares the addresses with those in the translations, and changes these alone.
            unsafe { (self.layout.guard)(self.cpu, host as usize, len) };
        }
    }

    /// A translation is not where it should be: from now on every page may hold code.
    #[cold]
    fn distrust(&mut self) {
        self.code.fill(u64::MAX);
        self.guard(self.ram.base(), self.ram.len() as usize);
    }
}

/// One cached translation: an address for each access with flags below, then the physical address.
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
        // SAFETY: it stands behind the three words, at the next multiple of its size.
        unsafe { self.at.add(words_end).cast::<u64>().read() }
    }

    #[cfg(test)]
    fn to_host(&self) -> u64 {
        let words_end = (3 * self.layout.address_bytes).next_multiple_of(8);
        // SAFETY: it stands behind the physical address.
        unsafe { self.at.add(words_end + 8).cast::<u64>().read() }
    }

    /// What stands in a word when the access is not allowed.
    fn never(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.layout.address_bytes)
    }

    fn invalid(&self) -> u64 {
        1 << (self.layout.smallest_page_bits - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, find_fill};
    use crate::cpu::x86::{core::CORE, state};
    use crate::cpu::{arm, arm64, mips, ppc, s390, sparc64};
    use crate::unicorn::engine::{Core, Ended};
    use crate::unicorn::fills::Numbers;
    use crate::unicorn::kinds::CoreKind;
    use crate::unicorn::ram::Ram;
    use crate::unicorn::witness::Witness;
    use trapline_isa::mem::ByteOrder;
    use unicorn_engine_sys::RegisterX86;

    /// One kind of core of each library.
    static KINDS: [&CoreKind; 12] = [
        &CORE,
        &arm::core::CORE,
        &arm64::core::CORE,
        &mips::core::BIG_32,
        &mips::core::LITTLE_32,
        &mips::core::BIG_64,
        &mips::core::LITTLE_64,
        &ppc::core::BIG,
        &ppc::core::LITTLE,
        &ppc::narrow::core::CORE,
        &s390::core::CORE,
        &sparc64::core::CORE,
    ];

    const CODE: u64 = 0x10_0000;
    const DATA: u64 = 0x30_0000;
    /// The same page as DATA, once paging is on.
    const ALIAS: u64 = 0x20_0000;

    /// Runs a program of i386 up to its HLT; the first 4 MiB are mapped where they are, but for ALIAS.
    fn run(program: &[u8]) -> Core<Witness> {
        const DIRECTORY: u64 = 0x1000;
        const TABLE: u64 = 0x2000;
        let ram = Ram::at(0, 4 << 20, ByteOrder::Little).unwrap();
        ram.set_word32(DIRECTORY, TABLE as u32 | 7);
        (0..1024).for_each(|page| assert!(ram.set_word32(TABLE + 4 * page, (page << 12) as u32 | 7)));
        ram.set_word32(TABLE + 4 * (ALIAS >> 12), DATA as u32 | 7);
        let mut core: Core<Witness> = Core::new(&CORE, &ram).unwrap();
        state::enter_flat_32(&core.stopped(), CODE);
        ram.write(CODE, program);
        for (register, value) in [
            (RegisterX86::RAX, 0),
            (RegisterX86::RBX, 0),
            (RegisterX86::RCX, 0),
            (RegisterX86::RSI, ALIAS),
            (RegisterX86::RDI, DATA),
            (RegisterX86::RSP, CODE),
            (RegisterX86::CR3, DIRECTORY),
        ] {
            core.stopped().write(register, value);
        }
        assert_eq!(core.run(&mut Witness::default()), Ended::Stopped);
        core
    }

    /// mov eax, cr0; or eax, 0x80000000; mov cr0, eax; xor eax, eax
    const PAGING: &[u8] = b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0\x31\xc0";
    /// mov word [esi], "inc eax; ret"
    const PLACE: &[u8] = b"\x66\xc7\x06\x40\xc3";
    /// mov byte [esi], "inc ebx"
    const REPLACE: &[u8] = b"\xc6\x06\x43";
    const CALL_ALIAS: &[u8] = b"\xff\xd6";
    const CALL_DATA: &[u8] = b"\xff\xd7";
    const HLT: &[u8] = b"\xf4";

    fn sums(core: &Core<Witness>) -> (u64, u64) {
        (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX))
    }

    #[test]
    fn code_that_is_overwritten_is_translated_anew_by_whatever_address_the_store_goes() {
        for (name, call) in [("the same", CALL_ALIAS), ("another", CALL_DATA)] {
            let core = run(&[PAGING, PLACE, call, REPLACE, call, HLT].concat());
            assert_eq!(sums(&core), (1, 1), "stored to by {name} address");
        }
    }

    #[test]
    fn only_pages_with_code_keep_stores_on_the_long_way() {
        // The first store comes before the page has code.
        let core = run(&[PAGING, PLACE, HLT].concat());
        assert!(core.stores_quickly(ALIAS), "data, though it may be executed");
        let core = run(&[PAGING, PLACE, CALL_DATA, HLT].concat());
        assert!(!core.stores_quickly(ALIAS) && !core.stores_quickly(DATA), "translated code");
        // mov [esp - 4], eax: the page below the program.
        let core = run(&[PAGING, PLACE, CALL_DATA, b"\x89\x44\x24\xfc", HLT].concat());
        assert!(core.stores_quickly(CODE - 4) && !core.stores_quickly(CODE));
    }

    #[test]
    fn where_all_code_is_overwritten_stores_go_quickly_until_there_is_code_again() {
        const FORGET: &[u8] = b"\x0f\x20\xda\x0f\x22\xda"; // mov edx, cr3; mov cr3, edx
        const PLACE_IN_DATA: &[u8] = b"\x66\xc7\x07\x40\xc3"; // as PLACE, by [edi]
        let once = [PAGING, PLACE, FORGET, CALL_DATA].concat();
        // The last store finds no translation of ALIAS, while that of DATA, by which the code was fetched, is there.
        let overwritten = [&once, PLACE_IN_DATA, PLACE].concat();
        let core = run(&[&overwritten, HLT].concat());
        assert!(core.stores_quickly(ALIAS));
        let core = run(&[&overwritten, CALL_DATA, HLT].concat());
        assert_eq!(sums(&core), (2, 0));
        assert!(!core.stores_quickly(ALIAS));
        let core = run(&[&overwritten, CALL_DATA, REPLACE, CALL_DATA, HLT].concat());
        assert_eq!(sums(&core), (2, 1));
    }

    #[test]
    fn engines_of_one_thread_do_not_mix_and_go_in_any_order() {
        let (one, two, three) = (run(PLACE_AND_HALT), run(PLACE_AND_HALT), run(&[PAGING, PLACE, CALL_DATA, HLT].concat()));
        assert!(one.stores_quickly(ALIAS) && two.stores_quickly(ALIAS) && !three.stores_quickly(ALIAS));
        drop(two);
        drop(three);
        drop(run(PLACE_AND_HALT));
        drop(one);
    }

    /// Without paging: the store goes to ALIAS itself.
    const PLACE_AND_HALT: &[u8] = b"\x66\xc7\x06\x40\xc3\xf4";

    /// The heap behind a CPU holds anything, and changes while the table is looked at.
    #[test]
    fn the_function_that_fills_is_found_whatever_the_heap_holds() {
        let memory = Memory::of_this_process().unwrap();
        let mut numbers = Numbers(5);
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for turn in 0..20 {
            for kind in KINDS {
                for _ in 0..numbers.any() % 40 {
                    let size = 1 + numbers.any() as usize % numbers.of(&[64, 300, 3_000, 70_000]);
                    match numbers.one_in(2) && !kept.is_empty() {
                        true => drop(kept.swap_remove(numbers.any() as usize % kept.len())),
                        false => kept.push(vec![0x5a; size]),
                    }
                }
                let ram = Ram::at(0, 1 << 20, ByteOrder::Little).unwrap();
                let core: Core<Witness> = Core::new(kind, &ram).unwrap_or_else(|why| panic!("turn {turn}: {why}"));
                let cpu = crate::unicorn::live::find(core.handle()).unwrap();
                // `watch` has put its own function there; asked again, the library puts back what it had.
                assert!(find_fill(&memory, core.handle(), &cpu).is_some(), "turn {turn}");
            }
        }
    }
}
