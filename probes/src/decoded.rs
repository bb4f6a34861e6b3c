//! Cache of the last few decoded functions. Registration decodes a whole function for each probed instruction in it.
//! Callers usually ask for the next instruction of the same function, so [`KEPT`] entries are enough. An entry is valid
//! only if the text is unchanged, which every lookup checks.

use crate::engine::Engine;
use crate::guest::Guest;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use core::cell::RefCell;
use core::ops::Range;
use trapline_isa::function::Decoded;

/// Longer ranges are not cached but decoded instruction by instruction. Few functions are that long, and a cached
/// instruction costs about fifty bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Three entries: a function decoded for its boundaries, the same decoded for jumps into it, and its split-off `.cold`
/// part.
const KEPT: usize = 3;

/// Chunk size of the comparison with the current text, in bytes.
const PIECE: usize = 512;

/// Treatment of data that lies among the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// The decoder steps over it.
    SteppedOver,
    /// The decoder treats it as code.
    Decoded,
}

/// The cached functions, most recent first, decoded from the original text without our breakpoints and jumps.
#[derive(Default)]
pub(crate) struct Last(RefCell<VecDeque<(Data, Arc<Decoded>)>>);

impl Engine {
    /// The instructions of a range, as the text is now. `None` if the range is too long or unreadable; the caller then
    /// decodes one instruction at a time.
    pub(crate) fn decoded(&self, guest: &dyn Guest, range: &Range<u64>, data: Data) -> Option<Arc<Decoded>> {
        let length = range.end.checked_sub(range.start).filter(|length| *length <= MOST_BYTES)?;
        let is_asked = |known: &&(Data, Arc<Decoded>)| known.0 == data && known.1.range() == range;
        let known = self.last.0.borrow().iter().find(is_asked).map(|(_, known)| Arc::clone(known));
        if let Some(known) = known.filter(|known| self.is_still(guest, known)) {
            return Some(known);
        }
        let mut bytes = vec![0; length as usize + self.isa.longest];
        self.read_original(guest, range.start, &mut bytes).ok()?;
        let is_code = |at: u64| data == Data::Decoded || guest.text_kind(at).is_some();
        let decoded = Arc::new(Decoded::of(self.isa, range.clone(), bytes, is_code));
        let mut last = self.last.0.borrow_mut();
        last.retain(|known| !is_asked(&known));
        last.truncate(KEPT - 1);
        last.push_front((data, Arc::clone(&decoded)));
        Some(decoded)
    }

    fn is_still(&self, guest: &dyn Guest, known: &Decoded) -> bool {
        let mut at = known.range().start;
        known.bytes().chunks(PIECE).all(|expected| {
            let mut piece = [0; PIECE];
            let piece = &mut piece[..expected.len()];
            let is_read = self.read_original(guest, at, piece).is_ok();
            at = at.wrapping_add(expected.len() as u64);
            is_read && piece == expected
        })
    }
}
