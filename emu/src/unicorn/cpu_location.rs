//! Finds the core's CPU structure, CPU state and TLB in the host's memory. `engine.rs` then reads and writes registers in
//! place, because a call of Unicorn costs some fifty instructions for each register, and a hit reads many registers.
//!
//! The fields of the state are those of a [`CoreState`], at the same offsets. The C part knows the offsets of the pointers from
//! the engine to the CPU structure and from there to the state (`line::Layout`). That they are those of the running library is
//! proved for each engine: the state has exactly the bytes that Unicorn saves. All these bytes are read through the host's
//! kernel, so a word that is not a pointer does no harm.

use super::core_state::CoreState;
use super::engine::Handle;
use super::stores::Layout;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

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

/// Finds the CPU of this engine.
pub(super) fn find(handle: Handle) -> Result<Cpu, String> {
    let memory = Memory::of_this_process()?;
    let mut image = CoreState::new(handle)?;
    image.save(handle);
    look(&memory, handle, &image.bytes()).ok_or_else(|| "the CPU core does not keep its state where it is expected".into())
}

/// Follows the pointers from the engine; returns the CPU if they lead to one with such a state.
fn look(memory: &Memory, handle: Handle, wanted: &[u8]) -> Option<Cpu> {
    let layout = handle.kind().library.layout;
    let cpu = memory.word((handle.raw() as usize).checked_add(layout.engine_to_cpu)?)?;
    let pointer = cpu.checked_add(layout.cpu_to_state_pointer)?;
    let state = memory.word(pointer)?;
    if state.checked_sub(cpu)? != layout.cpu_to_state || !memory.holds(state, wanted) {
        return None;
    }
    // The counter lies between the TLB and the state.
    let counter = memory.word(pointer + WORD).filter(|counter| (1..=2 * WORD).contains(&state.wrapping_sub(*counter)))?;
    // The table of functions lies behind the state, in the same allocation.
    let functions = memory.word(cpu + layout.cpu_to_functions).filter(|functions| functions.wrapping_sub(state) < NEAR)?;
    Some(Cpu { state, state_bytes: wanted.len(), functions, translations_end: counter })
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

    fn holds(&self, at: usize, wanted: &[u8]) -> bool {
        at != 0 && self.read(at, wanted.len()) == wanted
    }
}
