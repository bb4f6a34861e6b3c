//! The steps that a network has made since it began: times, and the guest's frames. A network that begins anew and makes the
//! same steps is in the same state.

use super::LONGEST_FRAME;
use crate::base64;
use crate::clock::Ticks;
use std::io::Read;

/// The most bytes of a journal. With longer ones a network cannot be saved.
const MOST_BYTES: usize = 64 << 20;
/// A network that is at rest begins anew behind a journal of this length.
const LONG: usize = 1 << 20;
const LEVEL: i32 = 1;

/// A journal. Each step is its time, the length of its frame, and the frame. No frame has no bytes.
#[derive(Debug)]
pub struct Journal {
    bytes: Vec<u8>,
    /// Whether it holds all steps.
    is_whole: bool,
}

/// A step: its time and its frame, if it has one.
pub type Step<'a> = (Ticks, Option<&'a [u8]>);

const TIME_BYTES: usize = 8;
const LENGTH_BYTES: usize = 2;

impl Journal {
    /// A journal without steps.
    pub fn new() -> Journal {
        Journal { bytes: Vec::new(), is_whole: true }
    }

    /// Adds a step.
    pub fn note(&mut self, now: Ticks, frame: Option<&[u8]>) {
        let frame = frame.unwrap_or_default();
        if !self.is_whole || self.bytes.len() + TIME_BYTES + LENGTH_BYTES + frame.len() > MOST_BYTES {
            *self = Journal { bytes: Vec::new(), is_whole: false };
            return;
        }
        self.bytes.extend(now.to_le_bytes());
        self.bytes.extend((frame.len() as u16).to_le_bytes());
        self.bytes.extend(frame);
    }

    /// Whether the network should begin anew when it is at rest.
    pub fn is_long(&self) -> bool {
        !self.is_whole || self.bytes.len() >= LONG
    }

    /// Whether the times go forwards and are before `last`, and no frame is too long. A damaged snapshot may hold another one.
    pub fn is_sound(&self, last: Ticks) -> bool {
        let (mut before, mut held) = (0, 0);
        for (at, frame) in self.steps() {
            let bytes = frame.map_or(0, <[u8]>::len);
            if at < before || at >= last || bytes > LONGEST_FRAME {
                return false;
            }
            (before, held) = (at, held + TIME_BYTES + LENGTH_BYTES + bytes);
        }
        held == self.bytes.len()
    }

    /// The steps, oldest first.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (time, behind) = rest.split_first_chunk::<TIME_BYTES>()?;
            let (length, behind) = behind.split_first_chunk::<LENGTH_BYTES>()?;
            let (frame, behind) = behind.split_at_checked(u16::from_le_bytes(*length).into())?;
            rest = behind;
            Some((u64::from_le_bytes(*time), (!frame.is_empty()).then_some(frame)))
        })
    }

    /// The form in a snapshot: compressed, in base 64. `None` if it does not hold all steps.
    pub fn text(&self) -> Option<String> {
        let packed = zstd::bulk::compress(&self.bytes, LEVEL).ok()?;
        self.is_whole.then(|| base64::text(&packed))
    }

    /// The journal in a snapshot. `None` if it is damaged.
    pub fn from_text(text: &str) -> Option<Journal> {
        let packed = base64::from_text(text)?;
        let mut bytes = Vec::new();
        let plain = zstd::stream::read::Decoder::with_buffer(&packed[..]).ok()?;
        plain.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= MOST_BYTES).then_some(Journal { bytes, is_whole: true })
    }
}
