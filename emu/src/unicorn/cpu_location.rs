//! Finds the core's CPU structure, CPU state and TLB in the host's memory. `engine.rs` then reads and writes registers in
//! place, because a call of Unicorn costs some fifty instructions for each register, and a hit reads many registers.
//!
//! The fields of the state are those of a [`CoreState`], at the same offsets. The state is found by its contents, once for
//! each kind of core: a word of Unicorn's engine structure points to the CPU structure, and a word of that points to exactly
//! the bytes that Unicorn saves. All these bytes are read through the host's kernel, so a word that is not a pointer does no
//! harm.

use super::core_state::CoreState;
use super::engine::Handle;
use super::stores::Layout;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The descriptor of the core's TLB for one MMU mode: a mask for the index, and the entries (QEMU's `CPUTLBDescFast`).
///
/// It lies at a fixed distance before the CPU state; the self-check of a CPU model proves the location
/// (`cpu/<arch>/check.rs`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Translations {
    /// (Number of entries - 1) * bytes of an entry.
    mask: usize,
    entries: *const u8,
}

/// Offsets in a TLB entry; `stores.rs` has the layout. An entry has a tag for each kind of access: the page's address with
/// flags in the low bits. A tag without flags means that the core accesses the memory directly. Stores to pages with
/// translated code always have a flag.
pub(super) struct TlbEntry {
    write: usize,
    addend: usize,
    /// The bits of the 8 bytes at an offset that are the tag.
    tag: u64,
    /// Shift from an address to the offset of its entry, before the mask is applied.
    shift: u32,
    /// The bits of a page's address.
    page: u64,
}

impl TlbEntry {
    pub(super) const fn of(layout: &Layout) -> TlbEntry {
        let width = layout.address_bytes;
        TlbEntry {
            write: width,
            addend: (3 * width).next_multiple_of(WORD) + WORD,
            tag: u64::MAX >> (64 - 8 * width),
            shift: layout.page_bits() - ENTRY.trailing_zeros(),
            page: !((1 << layout.page_bits()) - 1),
        }
    }
}

/// More entries than Unicorn's TLB ever has.
const MOST_ENTRIES: usize = 1 << 23;
const ENTRY: usize = 64;

impl Translations {
    /// The TLB that lies `distance` bytes before the state at this address, if the memory there looks like one.
    pub(super) fn before(state: usize, distance: usize) -> Result<*const Translations, String> {
        let memory = Memory::of_this_process()?;
        let at = state.wrapping_sub(distance);
        let (mask, entries) = (memory.word(at), memory.word(at + WORD));
        let count = |mask: usize| mask / ENTRY + 1;
        let looks = |mask: usize| mask.is_multiple_of(ENTRY) && count(mask).is_power_of_two() && count(mask) < MOST_ENTRIES;
        match (mask, entries) {
            (Some(mask), Some(entries)) if looks(mask) && memory.read(entries, mask + ENTRY).len() == mask + ENTRY => {
                Ok(at as *const Translations)
            }
            _ => Err("the core's cache of translations is not where it was".into()),
        }
    }

    /// The host address of these bytes, if the TLB has their page without flags for such an access. The bytes must lie in
    /// one page.
    ///
    /// # Safety
    /// The TLB must have been found by `before` and its entries have that shape; its core exists and does not run.
    #[inline(always)]
    pub(super) unsafe fn find(&self, shape: &TlbEntry, address: u64, len: u64, write: bool) -> Option<u64> {
        let at = (address >> shape.shift) as usize & self.mask;
        // SAFETY: the core has `mask` + 1 entry's bytes there, and 8 bytes from any of these offsets lie in the entry.
        let (tag, addend) = unsafe {
            let entry = self.entries.add(at);
            let tag = if write { entry.add(shape.write) } else { entry };
            (tag.cast::<u64>().read_unaligned() & shape.tag, entry.add(shape.addend).cast::<u64>().read_unaligned())
        };
        // The page of the last byte: if the bytes cross a page boundary, it is not the entry's page.
        let page = address.wrapping_add(len - 1) & shape.page;
        (tag == page).then(|| address.wrapping_add(addend))
    }
}

/// Offsets of the two pointers that lead to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    to_cpu: usize,
    to_state: usize,
}

/// The number of bytes of the engine structure and of the CPU structure that are searched.
const STRUCTURE: usize = 2 << 10;
const CPU: usize = 1 << 10;
/// The maximum distance from the CPU structure to the state, which are in the same allocation.
const NEAR: usize = 1 << 20;
const WORD: usize = size_of::<usize>();

/// The CPU of an engine.
pub(super) struct Cpu {
    /// The address of its state, in the same allocation.
    pub(super) state: usize,
    /// The number of the state's bytes that a saved image holds.
    pub(super) state_bytes: usize,
    /// The address of its table of functions.
    pub(super) functions: usize,
    /// The end address of the part of its TLB that translated code reads.
    pub(super) translations_end: usize,
}

/// Finds the CPU of this engine: at the offsets of an earlier engine of its kind, or, if these are wrong because of a
/// stray pointer, by another search.
pub(super) fn find(handle: Handle) -> Result<Cpu, String> {
    find_from(handle, &handle.kind().library.route)
}

fn find_from(handle: Handle, known: &OnceLock<Route>) -> Result<Cpu, String> {
    let memory = Memory::of_this_process()?;
    let mut image = CoreState::new(handle)?;
    image.save(handle);
    let found = known.get().and_then(|place| at(&memory, handle, *place, &image.bytes())).or_else(|| {
        let place = search(&memory, handle, &mut image)?;
        let _ = known.set(place);
        at(&memory, handle, place, &image.bytes())
    });
    found.ok_or_else(|| "the CPU core does not keep its state where it is expected".into())
}

/// Follows these two pointers; returns the CPU if they lead to one with such a state.
fn at(memory: &Memory, handle: Handle, place: Route, wanted: &[u8]) -> Option<Cpu> {
    let uc = handle.raw() as usize;
    let start = memory.word(uc + place.to_cpu)?;
    let state = memory.word(start.checked_add(place.to_state)?)?;
    if state.wrapping_sub(start) >= NEAR || !memory.holds(state, wanted) {
        return None;
    }
    // The word after the pointer to the state points to a counter, which lies between the TLB and the state.
    let counter =
        memory.word(start + place.to_state + WORD).filter(|counter| (1..=2 * WORD).contains(&state.wrapping_sub(*counter)))?;
    // The table of functions lies behind the state, in the same allocation.
    let layout = handle.kind().library.layout;
    let cpu = state.checked_sub(layout.cpu_to_state)?;
    let functions = memory.word(cpu + layout.cpu_to_functions).filter(|functions| functions.wrapping_sub(state) < NEAR)?;
    Some(Cpu { state, state_bytes: wanted.len(), functions, translations_end: counter })
}

/// Searches for the two pointers by the state's contents: twice, with different marks in the state, because a stale copy of
/// an earlier state cannot match both. The state is restored afterwards.
fn search(memory: &Memory, handle: Handle, image: &mut CoreState) -> Option<Route> {
    const MARKS: [u64; 2] = [0x6b72_616d_2061_2073, 0x7265_6874_6f6e_6120];
    let original = image.get64(0);
    let [one, other] = MARKS.map(|mark| {
        image.set64(0, mark);
        image.restore(handle);
        look(memory, handle, &image.bytes())
    });
    image.set64(0, original);
    image.restore(handle);
    one.filter(|_| one == other)
}

/// Returns the pair of pointers that leads to the state and whose first pointer is nearest to it. A pointer to something
/// before the CPU has the same distance in this engine only.
fn look(memory: &Memory, handle: Handle, wanted: &[u8]) -> Option<Route> {
    let pointers = |start, len| memory.words(start, len).into_iter().enumerate().collect::<Vec<_>>();
    let pairs = pointers(handle.raw() as usize, STRUCTURE).into_iter().flat_map(|(number, cpu)| {
        let near = pointers(cpu, CPU).into_iter().filter(move |(_, state)| state.wrapping_sub(cpu) < NEAR);
        near.map(move |(to_state, _)| Route { to_cpu: number * WORD, to_state: to_state * WORD })
    });
    pairs.filter(|place| at(memory, handle, *place, wanted).is_some()).min_by_key(|place| place.to_state)
}

fn word(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// This process's memory, as the host's kernel shows it.
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of_this_process() -> Result<Memory, String> {
        let opened = File::open("/proc/self/mem");
        opened.map(Memory).map_err(|error| format!("the host does not show /proc/self/mem: {error}"))
    }

    /// Reads bytes, as many as are mapped.
    fn read(&self, at: usize, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut done = 0;
        while done < most {
            match self.0.read_at(&mut bytes[done..], (at + done) as u64) {
                Ok(count) if count > 0 => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        bytes.truncate(done);
        bytes
    }

    pub(super) fn word(&self, at: usize) -> Option<usize> {
        let bytes = self.read(at, WORD);
        (bytes.len() == WORD).then(|| word(&bytes))
    }

    /// Reads words, as many as are mapped.
    pub(super) fn words(&self, at: usize, most: usize) -> Vec<usize> {
        self.read(at, most).chunks_exact(WORD).map(word).collect()
    }

    fn holds(&self, at: usize, wanted: &[u8]) -> bool {
        at != 0 && self.read(at, wanted.len()) == wanted
    }
}

/// Asserts that the CPU is found although the offsets of an earlier engine are wrong for this one: a stray pointer may have
/// led there.
#[cfg(test)]
pub(crate) fn assert_found_whatever_is_known(kind: &super::kinds::CoreKind, handle: Handle) {
    let right = *kind.library.route.get().unwrap();
    let stray = [(0, 0), (right.to_cpu, right.to_state + WORD), (right.to_cpu + WORD, right.to_state), (8, usize::MAX)];
    for (to_cpu, to_state) in stray {
        let found = find_from(handle, &OnceLock::from(Route { to_cpu, to_state })).unwrap();
        let expected = find(handle).unwrap();
        let [found, expected] = [found, expected].map(|cpu| (cpu.state, cpu.functions, cpu.translations_end));
        assert_eq!(found, expected, "{to_cpu}, {to_state}");
    }
}
