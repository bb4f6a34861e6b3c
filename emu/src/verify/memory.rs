//! Compares the memory of an unprobed and of a probed guest. Three kinds of differences are accounted for, each by its
//! name: breakpoints and jumps in the text, the return pad's address or what it leaves in the link register, and page-table
//! entries for the probe window. The window itself is memory that the guest was never told of.

use super::registers::{Known, Pad};
use crate::probed::{Session, TextPiece};
use crate::snapshot::memory::PAGE;
use std::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::function;
use trapline_isa::mem::Fault;

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 16;
/// The address bits of a page-table or TLB entry, on every ISA: no board has memory above 1 TiB.
const ENTRY_ADDRESS: u64 = 0x0000_00ff_ffff_f000;

/// Differences that the probes are known to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounted {
    /// Bytes of breakpoints and jumps in the guest's text. The original bytes equal the unprobed guest's.
    pub text: u64,
    /// Words of memory and registers with the return pad's address. The unprobed guest has a return address there.
    pub pads: u64,
    /// Words of memory and registers with a return address that the engine has left in the link register, on ISAs whose
    /// functions may return by popping the pc, or in the link slot of a caller's frame. The unprobed guest has an old
    /// value there, which it needs no more.
    pub links: u64,
    /// Page-table and TLB entries that map the probe window.
    pub tables: u64,
}

/// A word of memory with its values in both runs, in the guest's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its physical address.
    pub physical: u64,
    /// The unprobed run's value.
    pub unprobed: u64,
    /// The probed run's value.
    pub probed: u64,
}

/// Compares all memory that the guests know of. Returns the first words that differ for no known reason, at most `most`.
/// `unprobed` reads the unprobed guest's memory.
pub fn compare(unprobed: &dyn Fn(u64, &mut [u8]), probed: &mut Session, most: usize, accounted: &mut Accounted) -> Vec<Word> {
    let known = probed.machine().ram().base()..probed.machine().ram().base() + probed.machine().guest_ram_bytes();
    let rules =
        Rules { isa: probed.kernel().arch.isa(), pad: Pad::of(probed), pieces: probed.text_pieces(), window: probed.window() };
    let mut found = Vec::new();
    let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = known.start;
    while at < known.end && found.len() < most {
        let len = CHUNK.min((known.end - at) as usize);
        let (one, other) = (&mut one[..len], &mut other[..len]);
        unprobed(at, one);
        probed.machine().ram().read(at, other);
        if one != other {
            accounted.text += probed.put_originals(&rules.pieces, at, other);
            rules.unknown(at, [one, other], probed, accounted, &mut found);
        }
        at += len as u64;
    }
    found.truncate(most);
    found
}

/// A function that reads a session's memory.
pub(super) fn reader(session: &Session) -> impl Fn(u64, &mut [u8]) {
    |at, into| {
        session.machine().ram().read(at, into);
    }
}

/// The known reasons for differences.
struct Rules {
    isa: &'static Isa,
    pad: Pad,
    pieces: Vec<TextPiece>,
    window: [Range<u64>; 2],
}

impl Rules {
    fn unknown(&self, at: u64, bytes: [&[u8]; 2], probed: &mut Session, accounted: &mut Accounted, found: &mut Vec<Word>) {
        let words = bytes[0].chunks(self.isa.word).zip(bytes[1].chunks(self.isa.word)).enumerate();
        for (number, (one, other)) in words.filter(|(_, (one, other))| one != other) {
            let (here, there) = (self.isa.order.number(one), self.isa.order.number(other));
            match self.pad.explains(here, there, probed) {
                Some(Known::Pad) => accounted.pads += 1,
                Some(Known::Link) => accounted.links += 1,
                None if self.is_rest([here, there], page_of(bytes[0], number * self.isa.word), probed) => accounted.pads += 1,
                None if self.is_across(bytes, number * self.isa.word, probed) => accounted.pads += 1,
                None if [one, other].into_iter().any(|bytes| self.maps_window(bytes)) => accounted.tables += 1,
                None => {
                    found.push(Word { physical: at + (number * self.isa.word) as u64, unprobed: here, probed: there });
                }
            }
        }
    }

    /// Whether a word, with its values in both runs, is the rest of a return address in a dead stack slot that later
    /// stores have partly overwritten. In the unprobed run the bytes must belong to an address behind a call. Another
    /// word of the page must be such an address too, which shows that the page is a stack.
    fn is_rest(&self, words: [u64; 2], page: &[u8], probed: &mut Session) -> bool {
        let whose = self.pad.whose_rest(words[0], words[1]);
        if !whose.into_iter().any(|address| self.is_return_address(address, probed)) {
            return false;
        }
        let mut others =
            page.chunks_exact(self.isa.word).map(|word| self.isa.order.number(word)).filter(|word| *word != words[0]);
        others.any(|word| self.is_return_address(word & self.pad.bits(), probed))
    }

    /// Whether all bytes that differ in the word at this offset of a chunk belong to a return address that lies across two
    /// words: kernels store the address that they return to in records without alignment. Those across the end of a chunk
    /// are not found.
    fn is_across(&self, chunk: [&[u8]; 2], at: usize, probed: &Session) -> bool {
        let word = self.isa.word;
        let value = |bytes: &[u8], start: usize| Some(self.isa.order.number(bytes.get(start..start + word)?));
        let differ = (at..at + word).filter(|place| chunk[0].get(*place) != chunk[1].get(*place));
        let (Some(first), Some(last)) = (differ.clone().next(), differ.clone().next_back()) else { return false };
        let mut starts = (last + 1).saturating_sub(word)..=first;
        starts.any(|start| {
            let (Some(here), Some(there)) = (value(chunk[0], start), value(chunk[1], start)) else { return false };
            start != at && matches!(self.pad.explains(here, there, probed), Some(Known::Pad))
        })
    }

    /// Whether an address is that of code behind a call.
    fn is_return_address(&self, address: u64, probed: &mut Session) -> bool {
        if !self.pad.is_code(address, probed) {
            return false;
        }
        let mut read = |at: u64, into: &mut [u8]| {
            let code = probed.original_code(at, into.len()).unwrap_or_default();
            let behind = Fault { address: at.wrapping_add(code.len() as u64), write: false };
            (code.len() == into.len()).then(|| into.copy_from_slice(&code)).ok_or(behind)
        };
        function::is_stored_by_call(self.isa, address, &mut read)
    }

    /// Whether a word is a page-table entry with an address of the window. On some CPUs the tables have another byte
    /// order than the kernel.
    fn maps_window(&self, bytes: &[u8]) -> bool {
        let little = bytes.iter().rev().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        let big = bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        [little, big].iter().any(|value| self.window[1].contains(&(value & ENTRY_ADDRESS)))
    }
}

/// The page around a byte of a chunk.
fn page_of(chunk: &[u8], at: usize) -> &[u8] {
    let start = at / PAGE * PAGE;
    chunk.get(start..chunk.len().min(start + PAGE)).unwrap_or_default()
}

/// Whether a TLB register has an address of the window, virtual or physical.
pub(super) fn maps_window(value: u64, window: &[Range<u64>; 2]) -> bool {
    window[0].contains(&(value & !0xfff)) || window[1].contains(&(value & ENTRY_ADDRESS))
}

/// Adds the guest's memory to a hash. Returns its number of bytes.
pub(super) fn hash(session: &Session, into: &mut blake3::Hasher) -> u64 {
    let machine = session.machine();
    let (start, len) = (machine.ram().base(), machine.guest_ram_bytes());
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    while done < len {
        let size = CHUNK.min((len - done) as usize);
        machine.ram().read(start + done, &mut chunk[..size]);
        into.update(&chunk[..size]);
        done += size as u64;
    }
    len
}
