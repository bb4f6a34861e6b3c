//! What was decoded last: all of one function is looked at for each of its instructions that is to be probed, and most
//! who ask about one of these ask about the next one too.

use crate::engine::Engine;
use crate::guest::Guest;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use core::cell::RefCell;
use core::ops::Range;
use trapline_isa::function::Decoded;

/// Longer stretches are decoded one by one each time: hardly a function is so long, and what is remembered takes some
/// fifty bytes for each instruction.
const MOST_BYTES: u64 = 64 << 10;

/// A function as its boundaries are counted, as jumps in it are looked for, and the part that was split off it.
const KEPT: usize = 3;

/// So many bytes are compared at a time.
const PIECE: usize = 512;

/// How data among the code is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// It is stepped over.
    SteppedOver,
    /// It is taken for code.
    Decoded,
}

/// Functions as they are without what stands in them of ours.
#[derive(Default)]
pub(crate) struct Last(RefCell<VecDeque<(Data, Arc<Decoded>)>>);

impl Engine {
    /// The instructions of a range, as the text is now; `None` where they had better be decoded one by one.
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
