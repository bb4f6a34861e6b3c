//! The core's own CPU state, read and written where it lies: the library's calls cost some fifty instructions a
//! register, a hit reads many.
//!
//! The fields are those of an [`CoreState`], at the same offsets. Where the state lies is found by its contents, once
//! for each kind of core: a word of the library's structure points to the CPU, and a word of the CPU points to exactly
//! the bytes that the library saves. The host is asked for all these bytes, so a word that is no pointer does no harm.

use super::engine::Handle;
use super::stores::Layout;
use super::surgery::CoreState;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The core's own cache of address translations for one kind of access rights: where an entry is looked for, and the
/// entries.
///
/// It lies a little in front of the state; the self-check of a model proves that it is there (`cpu/<arch>/check.rs`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Translations {
    /// (Number of entries - 1) * bytes of an entry.
    mask: usize,
    entries: *const u8,
}

/// Where in an entry things stand: the picture is in `stores.rs`. A tag is the word of a kind of access: the page's
/// address and flags. From outside nothing is asked but whether it is the page that is wanted.
pub(super) struct TlbEntry {
    write: usize,
    addend: usize,
    /// The bits of 8 bytes that are the tag, but for the one that says that the page has been translated from: of no
    /// matter to who drops what he changes.
    tag: u64,
    /// From an address to its entry's distance in bytes from the first, but for what leads beyond the last.
    shift: u32,
    /// The bits of a page's address.
    page: u64,
}

impl TlbEntry {
    pub(super) const fn of(layout: &Layout) -> TlbEntry {
        let width = layout.address_bytes;
        let bits = u64::MAX >> (64 - 8 * width);
        TlbEntry {
            write: width,
            addend: (3 * width).next_multiple_of(WORD) + WORD,
            tag: bits & !layout.long_way(),
            shift: layout.page_bits() - ENTRY.trailing_zeros(),
            page: !((1 << layout.page_bits()) - 1),
        }
    }
}

/// More than the library ever has.
const MOST_ENTRIES: usize = 1 << 23;
const ENTRY: usize = 64;

impl Translations {
    /// In front of the state at this address, if what lies there looks like it; `distance` bytes, as the library was
    /// built.
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

    /// Where so many bytes lie in the host's memory, if the core has just been in their page.
    ///
    /// # Safety
    /// It was found by `before`, its core's entries have that shape, it is alive and runs nothing else.
    #[inline(always)]
    pub(super) unsafe fn find(&self, shape: &TlbEntry, address: u64, len: u64, write: bool) -> Option<u64> {
        let at = (address >> shape.shift) as usize & self.mask;
        // SAFETY: the core keeps `mask` + 1 entry's bytes there, and 8 bytes from any of these places on lie in the
        // entry.
        let (tag, addend) = unsafe {
            let entry = self.entries.add(at);
            let tag = if write { entry.add(shape.write) } else { entry };
            (tag.cast::<u64>().read_unaligned() & shape.tag, entry.add(shape.addend).cast::<u64>().read_unaligned())
        };
        // The last byte's page: where they cross into another one, it is not that of the entry.
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

/// Bytes of the library's structure and of the CPU that are searched.
const STRUCTURE: usize = 2 << 10;
const CPU: usize = 1 << 10;
/// The state lies in the same piece of memory as its CPU.
const NEAR: usize = 1 << 20;
const WORD: usize = size_of::<usize>();

/// An engine's CPU.
pub(super) struct Cpu {
    /// Its state, in the same piece of memory.
    pub(super) state: usize,
    /// Bytes of it that a saved image holds.
    pub(super) state_bytes: usize,
    /// Its table of functions.
    pub(super) functions: usize,
    /// Where the part of its cached address translations ends that translated code looks into.
    pub(super) translations_end: usize,
}

/// The CPU of this engine: where that of an earlier one of its kind was, or, should a stray pointer have led there,
/// looked for again.
pub(super) fn find(handle: Handle) -> Result<Cpu, String> {
    find_from(handle, &handle.kind().library.live)
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

/// What these two pointers lead to, if that is a CPU with such a state.
fn at(memory: &Memory, handle: Handle, place: Route, wanted: &[u8]) -> Option<Cpu> {
    let uc = handle.raw() as usize;
    let start = memory.word(uc + place.to_cpu)?;
    let state = memory.word(start.checked_add(place.to_state)?)?;
    if state.wrapping_sub(start) >= NEAR || !memory.holds(state, wanted) {
        return None;
    }
    // Behind the pointer to the state stands one to a counter, which lies between the translations and the state.
    let counter =
        memory.word(start + place.to_state + WORD).filter(|counter| (1..=2 * WORD).contains(&state.wrapping_sub(*counter)))?;
    // The table of functions lies behind the state, in the same piece of memory.
    let layout = handle.kind().library.layout;
    let cpu = state.checked_sub(layout.cpu_to_state)?;
    let functions = memory.word(cpu + layout.cpu_to_functions).filter(|functions| functions.wrapping_sub(state) < NEAR)?;
    Some(Cpu { state, state_bytes: wanted.len(), functions, translations_end: counter })
}

/// Twice, with different marks in the state: what is found both times is no leftover of an earlier one.
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

/// Of all that lead there, the pair that begins nearest to it: a pointer to something in front of the CPU leads there
/// in this engine alone.
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

/// What the host lets this process see of itself.
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of_this_process() -> Result<Memory, String> {
        let opened = File::open("/proc/self/mem");
        opened.map(Memory).map_err(|error| format!("the host does not show /proc/self/mem: {error}"))
    }

    /// As many bytes as there are.
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

    /// Words, as many as there are.
    pub(super) fn words(&self, at: usize, most: usize) -> Vec<usize> {
        self.read(at, most).chunks_exact(WORD).map(word).collect()
    }

    fn holds(&self, at: usize, wanted: &[u8]) -> bool {
        at != 0 && self.read(at, wanted.len()) == wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{arm, arm64, x86};
    use crate::unicorn::engine::Core;
    use crate::unicorn::ram::Ram;
    use crate::unicorn::witness::Witness;
    use trapline_isa::mem::ByteOrder;

    /// Where a pointer to something in front of the CPU was taken for that to the CPU, it leads elsewhere in the next
    /// engine.
    #[test]
    fn a_cpu_is_found_wherever_that_of_an_earlier_engine_was() {
        let ram = Ram::at(0, 4 << 20, ByteOrder::Little).unwrap();
        for kind in [&x86::core::CORE, &arm64::core::CORE, &arm::core::CORE] {
            let core: Core<Witness> = Core::new(kind, &ram).unwrap();
            let right = *kind.library.live.get().unwrap();
            let stray = [(0, 0), (right.to_cpu, right.to_state + WORD), (right.to_cpu + WORD, right.to_state), (8, usize::MAX)];
            for (to_cpu, to_state) in stray {
                let found = find_from(core.handle(), &OnceLock::from(Route { to_cpu, to_state })).unwrap();
                let expected = find(core.handle()).unwrap();
                let [found, expected] = [found, expected].map(|cpu| (cpu.state, cpu.functions, cpu.translations_end));
                assert_eq!(found, expected, "{to_cpu}, {to_state}");
            }
        }
    }
}
