//! The size of a script's maps, in bytes. Each map has a limit, and all maps of a script share another one.
//!
//! A map charges its [`Total`] when it stores something, and gives the bytes back when it drops it. Nothing is stored for
//! which there is no room.

use super::{MOST_BYTES, Map};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the size of all maps of a script together, in bytes.
const MOST_BYTES_OF_ALL: usize = 1 << 30;

/// The size of all maps of a script, which share a limit.
#[derive(Clone, Debug)]
pub struct Total(Arc<Held>);

/// The state that all copies of a total share.
#[derive(Debug)]
struct Held {
    /// The bytes that all maps hold.
    bytes: AtomicUsize,
    /// The limit, in bytes.
    most: usize,
}

impl Total {
    /// A total with a limit in bytes.
    pub(super) fn of(most: usize) -> Total {
        Total(Arc::new(Held { bytes: AtomicUsize::new(0), most }))
    }

    /// The bytes that are free.
    pub(super) fn room(&self) -> u64 {
        self.0.most.saturating_sub(self.0.bytes.load(Ordering::Relaxed)) as u64
    }
}

impl Default for Total {
    fn default() -> Total {
        Total::of(MOST_BYTES_OF_ALL)
    }
}

impl Map {
    /// Notes that the map holds more bytes than before.
    pub(super) fn hold(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        // The total is at most its limit, so the numbers fit.
        self.total.0.bytes.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    /// Notes that the map holds fewer bytes than before.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.total.0.bytes.fetch_sub(bytes as usize, Ordering::Relaxed);
    }

    /// Whether a value may have `after` bytes instead of `before`.
    pub(super) fn has_room(&self, before: u64, after: u64) -> bool {
        let more = after.saturating_sub(before);
        self.bytes.saturating_add(more) <= MOST_BYTES && more <= self.total.room()
    }
}
