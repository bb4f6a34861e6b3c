//! A kernel that does not run: the engine registers probes in a copy of its text, as it would in a machine.
//! `check` and `disasm` use it, so their answers are the engine's own.

use crate::boot::{Kernel, Segment};
use std::collections::HashMap;
use std::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::mem::Fault;
use trapline_probes::guest::{Blacklisted, Guest, Site, Symbol, Text, WINDOW_UNIT, WindowUse};

/// The largest distance between the text and the imaginary window. [`distance`] chooses less if jumps from the text do
/// not reach so far.
const WINDOW_DISTANCE: u64 = 16 << 20;
const LEAST_DISTANCE: u64 = 64 << 10;
/// Size of the imaginary window in bytes.
const WINDOW_BYTES: u64 = 64 << 20;

/// A kernel image with a writable copy of its text, and no CPU.
pub struct StillGuest<'k> {
    kernel: &'k Kernel,
    /// The segments that hold code, in the order of the file, each with a copy of its bytes. Init text may lie in a segment
    /// that is not marked executable.
    text: Vec<(Range<u64>, Vec<u8>)>,
    window: Range<u64>,
    next: u64,
    free: HashMap<usize, Vec<u64>>,
    /// Whether the boot is over, so that init text counts as freed.
    booted: bool,
}

impl<'k> StillGuest<'k> {
    /// The kernel just after loading.
    pub fn new(kernel: &'k Kernel) -> StillGuest<'k> {
        let texts = [Some(&kernel.tables.text), kernel.tables.init_text.as_ref()];
        let has_text = |segment: &&Segment| {
            let range = segment.range();
            segment.executable || texts.iter().flatten().any(|text| range.contains(&text.start))
        };
        let copy = |segment: &Segment| (segment.range(), segment.bytes.to_vec());
        let text = kernel.segments.iter().filter(has_text).map(copy).collect();
        let window = window_of(kernel);
        StillGuest { kernel, text, next: window.start, window, free: HashMap::new(), booted: false }
    }

    /// The kernel after its boot: its init text is freed. The caller must apply the patches that the kernel made to its
    /// text.
    pub fn booted(kernel: &'k Kernel) -> StillGuest<'k> {
        StillGuest { booted: true, ..StillGuest::new(kernel) }
    }
}

/// The distance at which the detour's jump still reaches the window from the start of the text. The machine chooses its
/// window by reach, too.
fn distance(kernel: &Kernel) -> u64 {
    let (isa, text) = (kernel.arch.isa(), &kernel.tables.text);
    let first = isa.detour.and_then(|detour| Some((detour, (isa.decode)(text.start, detour.lead).ok()?)));
    let Some((detour, first)) = first else { return WINDOW_DISTANCE };
    let halves = std::iter::successors(Some(WINDOW_DISTANCE), |distance| Some(distance / 2));
    let mut near = halves.take_while(|distance| *distance >= LEAST_DISTANCE);
    let reaches = |distance: &u64| (detour.jump)(&first, align(text.end.saturating_add(*distance))).is_some();
    near.find(reaches).unwrap_or(LEAST_DISTANCE)
}

fn align(address: u64) -> u64 {
    address & !(WINDOW_UNIT as u64 - 1)
}

/// The window's range: behind the text, or before it if the address space ends too soon.
fn window_of(kernel: &Kernel) -> Range<u64> {
    let last = u64::MAX >> (64 - kernel.arch.isa().word * 8);
    let text = &kernel.tables.text;
    let distance = distance(kernel);
    let behind = align(text.end.saturating_add(distance));
    match behind.checked_add(WINDOW_BYTES) {
        Some(end) if end <= last => behind..end,
        _ => {
            let end = align(text.start.saturating_sub(distance));
            end.saturating_sub(WINDOW_BYTES)..end
        }
    }
}

impl Guest for StillGuest<'_> {
    fn isa(&self) -> &'static Isa {
        self.kernel.arch.isa()
    }

    fn cpus(&self) -> usize {
        1
    }

    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.kernel.symbols.find(name)
    }

    fn symbols_named(&self, name: &str) -> usize {
        self.kernel.symbols.count(name)
    }

    fn addresses_named(&self, name: &str) -> Vec<u64> {
        self.kernel.symbols.addresses_named(name).collect()
    }

    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        self.kernel.symbols.containing(address)
    }

    fn similar_names(&self, name: &str) -> Vec<String> {
        self.kernel.symbols.similar(name)
    }

    fn text_kind(&self, address: u64) -> Option<Text> {
        let tables = &self.kernel.tables;
        match () {
            () if self.kernel.symbols.is_data(address) => None,
            () if tables.text.contains(&address) => Some(Text::Core),
            () if !self.booted && tables.init_text.as_ref().is_some_and(|range| range.contains(&address)) => Some(Text::Init),
            () => None,
        }
    }

    fn site_at(&self, address: u64) -> Option<Site> {
        self.kernel.tables.sites.get(&address).copied()
    }

    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        self.kernel.tables.is_traced(function)
    }

    fn blacklist(&self) -> &[Blacklisted] {
        &self.kernel.tables.blacklist
    }

    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.kernel.tables.expected_fault(&range)
    }

    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.kernel.tables.fixup(&range)
    }

    fn indirect_thunks(&self) -> Range<u64> {
        self.kernel.tables.indirect_thunks.clone()
    }

    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let end = address.checked_add(into.len() as u64);
        let inside = |(range, _): &&(Range<u64>, Vec<u8>)| range.contains(&address) && end.is_some_and(|end| end <= range.end);
        let Some((range, held)) = self.text.iter().find(inside) else { return self.kernel.read(address, into) };
        let held = held.get((address - range.start) as usize..).unwrap_or_default();
        let held = &held[..held.len().min(into.len())];
        into[..held.len()].copy_from_slice(held);
        into[held.len()..].fill(0);
        Ok(())
    }

    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let fault = Fault { address, write: true };
        let (range, held) = self.text.iter_mut().find(|(range, _)| range.contains(&address)).ok_or(fault)?;
        let start = (address - range.start) as usize;
        let place = start.checked_add(bytes.len()).and_then(|end| held.get_mut(start..end)).ok_or(fault)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    fn window_take(&mut self, _near: u64, len: usize) -> Option<u64> {
        if let Some(at) = self.free.get_mut(&len).and_then(Vec::pop) {
            return Some(at);
        }
        let at = self.next;
        self.next = at.checked_add(len as u64).filter(|end| *end <= self.window.end)?;
        Some(at)
    }

    fn window_give(&mut self, at: u64, len: usize) {
        self.free.entry(len).or_default().push(at);
    }

    /// Does nothing, because code in the window never runs here.
    fn window_write(&mut self, _at: u64, _bytes: &[u8], _stands_for: WindowUse) {}

    fn any_cpu_inside(&self, _range: Range<u64>) -> bool {
        false
    }
}
