//! The ring buffer for event records. Hits write records, and the user reads them later.
//!
//! There is one writer (the hit path) and one reader, both through `&mut`. All memory is allocated when the ring is
//! made. A record is built in a scratch area, then copied to the ring as a whole, or dropped as a whole and counted.
//! `records/header.rs` has the fields that every record has.

mod header;

pub use header::{EventId, Flags, Header};

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use header::{FRAME, decode, encode};

/// The largest payload of one record, as in Linux.
pub const LARGEST_PAYLOAD: usize = 3072;

/// A record as the reader gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The fields that every record has.
    pub header: Header,
    /// The values of the event's arguments, encoded by the event's format.
    pub payload: Vec<u8>,
}

/// The payload of a record that is being built. Bytes that do not fit are dropped, and the record is marked as
/// truncated.
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: &'a mut [u8],
    len: usize,
    truncated: bool,
}

impl Payload<'_> {
    /// Number of bytes that still fit.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Number of bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes, as many as fit.
    pub fn put(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(self.room());
        self.bytes[self.len..self.len + fits].copy_from_slice(&bytes[..fits]);
        self.len += fits;
        self.truncated |= fits < bytes.len();
    }

    /// Overwrites bytes that were put earlier. Ignored if the range was not put.
    pub fn amend(&mut self, at: usize, bytes: &[u8]) {
        if at + bytes.len() <= self.len {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Removes everything after the first `len` bytes.
    pub fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Marks the record as truncated.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }
}

/// A payload in the scratch area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Composed {
    len: usize,
    truncated: bool,
}

/// The ring buffer.
#[derive(Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    scratch: Box<[u8]>,
    /// The most bytes that may be used: all of them, or none while recording is off.
    limit: usize,
    /// The offset of the oldest record.
    read_at: usize,
    /// The bytes of all records that wait to be read. They may wrap around the end.
    used: usize,
    /// The number of these records.
    records: usize,
    written: u64,
    dropped: u64,
}

impl Ring {
    /// A ring of that many bytes. A record takes 60 bytes plus its payload.
    pub fn with_capacity(bytes: usize) -> Ring {
        Ring {
            bytes: vec![0; bytes].into_boxed_slice(),
            scratch: vec![0; LARGEST_PAYLOAD].into_boxed_slice(),
            limit: bytes,
            read_at: 0,
            used: 0,
            records: 0,
            written: 0,
            dropped: 0,
        }
    }

    /// Appends a record whose payload `fill` writes. Returns false if there was no room. The new record is then dropped
    /// and counted; older ones stay. Records nothing while recording is off.
    #[inline]
    pub fn push(&mut self, header: &Header, fill: impl FnOnce(&mut Payload<'_>)) -> bool {
        let composed = self.compose(fill);
        self.commit(header, composed)
    }

    /// Writes a payload into the scratch area.
    #[inline]
    pub(crate) fn compose(&mut self, fill: impl FnOnce(&mut Payload<'_>)) -> Composed {
        let mut payload = Payload { bytes: &mut self.scratch, len: 0, truncated: false };
        fill(&mut payload);
        Composed { len: payload.len, truncated: payload.truncated }
    }

    /// The payload that was composed last.
    pub(crate) fn composed(&self, composed: Composed) -> &[u8] {
        self.scratch.get(..composed.len).unwrap_or_default()
    }

    /// Appends a record with the payload that was composed last. Returns false if the buffer has no room for it.
    #[inline]
    pub(crate) fn commit(&mut self, header: &Header, Composed { len, truncated }: Composed) -> bool {
        if self.used + FRAME + len > self.limit {
            self.dropped += u64::from(self.is_on());
            return false;
        }
        let flags = if truncated { header.flags.with(Flags::TRUNCATED) } else { header.flags };
        let frame = encode(&Header { flags, ..*header }, len);
        let at = self.wrapped(self.used);
        copy_in(&mut self.bytes, at, &frame);
        let at = self.wrapped(self.used + FRAME);
        copy_in(&mut self.bytes, at, &self.scratch[..len]);
        self.used += FRAME + len;
        self.records += 1;
        self.written += 1;
        true
    }

    /// Appends a record without a payload even while recording is off. It is a mark between the records, which is not counted.
    pub(crate) fn mark(&mut self, header: &Header) {
        let limit = core::mem::replace(&mut self.limit, self.bytes.len());
        let marks = u64::from(self.push(header, |_| ()));
        self.written -= marks;
        self.limit = limit;
    }

    /// Whether records are kept, like ftrace's file `tracing_on`.
    pub fn is_on(&self) -> bool {
        self.limit > 0 || self.bytes.is_empty()
    }

    /// Switches recording on or off. While it is off, new records are neither kept nor counted.
    pub fn switch(&mut self, on: bool) {
        self.limit = if on { self.bytes.len() } else { 0 };
    }

    /// Takes the oldest record.
    pub fn pop(&mut self) -> Option<Record> {
        let mut record = Record::default();
        self.pop_into(&mut record).then_some(record)
    }

    /// Takes the oldest record into an existing one, reusing its memory. Returns false if the ring is empty.
    pub fn pop_into(&mut self, record: &mut Record) -> bool {
        if self.records == 0 {
            return false;
        }
        let mut frame = [0; FRAME];
        copy_out(&self.bytes, self.read_at, &mut frame);
        let (header, len) = decode(&frame);
        record.header = header;
        record.payload.resize(len, 0);
        copy_out(&self.bytes, self.wrapped(FRAME), &mut record.payload);
        self.read_at = self.wrapped(FRAME + len);
        self.used -= FRAME + len;
        self.records -= 1;
        true
    }

    /// The events of the records that wait to be read.
    pub fn events(&self) -> BTreeSet<EventId> {
        let mut at = 0;
        let next = (0..self.records).map(|_| {
            let mut frame = [0; FRAME];
            copy_out(&self.bytes, self.wrapped(at), &mut frame);
            let (header, len) = decode(&frame);
            at += FRAME + len;
            header.event
        });
        next.collect()
    }

    /// Number of records that wait to be read.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Number of records ever written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Number of records dropped because the ring was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn wrapped(&self, offset: usize) -> usize {
        (self.read_at + offset) % self.bytes.len().max(1)
    }
}

fn copy_in(ring: &mut [u8], at: usize, bytes: &[u8]) {
    let before_the_end = bytes.len().min(ring.len() - at);
    let (first, second) = bytes.split_at(before_the_end);
    ring[at..at + first.len()].copy_from_slice(first);
    ring[..second.len()].copy_from_slice(second);
}

fn copy_out(ring: &[u8], at: usize, into: &mut [u8]) {
    let before_the_end = into.len().min(ring.len() - at);
    let (first, second) = into.split_at_mut(before_the_end);
    first.copy_from_slice(&ring[at..at + first.len()]);
    second.copy_from_slice(&ring[..second.len()]);
}

#[cfg(test)]
mod tests;
