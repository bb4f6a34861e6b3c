//! Compares the memory of an unprobed and of a probed guest. Three kinds of differences are accounted for, each by its
//! name: breakpoints and jumps in the text, the return pad's address where the guest keeps a return address, and
//! page-table entries for the probe window. The window itself is memory that the guest was never told of.

use super::registers::Pad;
use crate::probed::{Session, TextPiece};
use std::ops::Range;
use trapline_isa::arch::Isa;

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 16;
/// The address bits of a page-table entry, on every ISA.
const ENTRY_ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// Differences that the probes are known to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounted {
    /// Bytes of breakpoints and jumps in the guest's text. The original bytes equal the unprobed guest's.
    pub text: u64,
    /// Words of memory with the return pad's address. The unprobed guest has a return address there.
    pub pads: u64,
    /// Registers with the return pad's address.
    pub registers: u64,
    /// Page-table entries that map the probe window.
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

/// Compares all memory that the guests know of. Returns the first word that differs for no known reason.
pub fn compare(unprobed: &Session, probed: &mut Session, accounted: &mut Accounted) -> Option<Word> {
    let known = probed.machine().ram().base()..probed.machine().ram().base() + probed.machine().guest_ram_bytes();
    let rules = Rules {
        isa: probed.kernel().arch.isa(),
        pad: Pad::of(probed),
        pieces: probed.text_pieces(),
        window: probed.window_memory(),
    };
    (accounted.text, accounted.pads, accounted.tables) = (0, 0, 0);
    let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = known.start;
    while at < known.end {
        let len = CHUNK.min((known.end - at) as usize);
        let (one, other) = (&mut one[..len], &mut other[..len]);
        unprobed.machine().ram().read(at, one);
        probed.machine().ram().read(at, other);
        if one != other {
            accounted.text += probed.put_originals(&rules.pieces, at, other);
            if let Some(word) = rules.first_unknown(at, one, other, probed, accounted) {
                return Some(word);
            }
        }
        at += len as u64;
    }
    None
}

/// The known reasons for differences.
struct Rules {
    isa: &'static Isa,
    pad: Pad,
    pieces: Vec<TextPiece>,
    window: Range<u64>,
}

impl Rules {
    fn first_unknown(&self, at: u64, one: &[u8], other: &[u8], probed: &Session, accounted: &mut Accounted) -> Option<Word> {
        let words = one.chunks(self.isa.word).zip(other.chunks(self.isa.word)).enumerate();
        for (number, (one, other)) in words.filter(|(_, (one, other))| one != other) {
            let (here, there) = (self.isa.order.number(one), self.isa.order.number(other));
            if self.pad.explains(here, there, probed) {
                accounted.pads += 1;
            } else if [one, other].into_iter().any(|bytes| self.maps_window(bytes)) {
                accounted.tables += 1;
            } else {
                return Some(Word { physical: at + (number * self.isa.word) as u64, unprobed: here, probed: there });
            }
        }
        None
    }

    /// Whether a word is a page-table entry with an address of the window. On some CPUs the tables have another byte
    /// order than the kernel.
    fn maps_window(&self, bytes: &[u8]) -> bool {
        let little = bytes.iter().rev().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        let big = bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        [little, big].iter().any(|value| self.window.contains(&(value & ENTRY_ADDRESS)))
    }
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
