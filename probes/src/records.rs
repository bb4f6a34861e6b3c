//! The ring buffer for event records. Hits write records, and the user reads them later.
//!
//! There is one writer (the hit path) and one reader, both through `&mut`. All memory is allocated when the ring is
//! made. A record is built in a scratch area, then copied to the ring as a whole, or dropped as a whole and counted.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// The largest payload of one record, as in Linux.
pub const LARGEST_PAYLOAD: usize = 3072;

/// Identifies an event. An id is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u32);

/// The fields that every record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The number of the event that the record belongs to.
    pub event: EventId,
    /// The CPU that was stopped.
    pub cpu: u16,
    /// Context flags, as ftrace shows them.
    pub flags: Flags,
    /// The task's pid.
    pub pid: u32,
    /// The task's name, zero-padded.
    pub comm: [u8; 16],
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// The probed address.
    pub ip: u64,
    /// The return address. 0 unless the record is of a function's return.
    pub return_ip: u64,
}

/// Context flags of a record. The low byte holds flags, the second byte two 4-bit depths (preemption, migration), the third
/// byte more flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No flag set.
    pub const NONE: Flags = Flags(0);
    /// The probed code ran with interrupts off.
    pub const INTERRUPTS_OFF: Flags = Flags(1);
    /// A string did not fit and was cut.
    pub const TRUNCATED: Flags = Flags(2);
    /// The task was to be rescheduled (TIF_NEED_RESCHED).
    pub const NEED_RESCHED: Flags = Flags(4);
    /// The CPU was in a hardware interrupt handler.
    pub const HARD_INTERRUPT: Flags = Flags(8);
    /// The CPU was running softirqs.
    pub const SOFT_INTERRUPT: Flags = Flags(16);
    /// The CPU had a pending preemption (PREEMPT_NEED_RESCHED).
    pub const PREEMPT_RESCHED: Flags = Flags(32);
    /// The CPU was in an NMI handler.
    pub const NMI: Flags = Flags(64);
    /// Softirqs (bottom halves) were disabled.
    pub const BOTTOM_HALVES_OFF: Flags = Flags(128);
    /// The task was to be rescheduled when it returns to its program (TIF_NEED_RESCHED_LAZY).
    pub const LAZY_RESCHED: Flags = Flags(1 << 16);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Sets `other` if `is_so` is true.
    #[must_use]
    pub const fn with_if(self, is_so: bool, other: Flags) -> Flags {
        if is_so { self.with(other) } else { self }
    }

    /// Sets the depths of disabled preemption and disabled migration, each capped at 15.
    pub fn depths(preemption: u64, migration: u64) -> Flags {
        let depth = |count: u64| count.min(15) as u32;
        Flags(depth(preemption) << 8 | depth(migration) << 12)
    }

    /// The flags as the field `common_flags` has them.
    pub(crate) fn of_linux(self) -> u8 {
        /// Linux gives this flag the bit that is [`Flags::TRUNCATED`] here.
        const LAZY: u8 = 2;
        let flags = self.0 as u8 & !(Flags::TRUNCATED.0 as u8);
        if self.contains(Flags::LAZY_RESCHED) { flags | LAZY } else { flags }
    }

    /// Both depths in a byte, as the field `common_preempt_count` has them.
    pub(crate) fn depth_byte(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The depths of disabled preemption and of disabled migration.
    pub fn depths_of(self) -> [u8; 2] {
        [(self.0 >> 8 & 15) as u8, (self.0 >> 12 & 15) as u8]
    }
}

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

/// Bytes in front of a payload: its length and the header.
const FRAME: usize = 60;

fn encode(header: &Header, len: usize) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&(len as u32).to_le_bytes());
    put(&header.event.0.to_le_bytes());
    put(&header.cpu.to_le_bytes());
    put(&(header.flags.0 as u16).to_le_bytes());
    put(&header.pid.to_le_bytes());
    put(&header.comm);
    put(&header.time.to_le_bytes());
    put(&header.ip.to_le_bytes());
    put(&header.return_ip.to_le_bytes());
    put(&(header.flags.0 >> 16).to_le_bytes());
    frame
}

fn decode(frame: &[u8; FRAME]) -> (Header, usize) {
    let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let mut comm = [0; 16];
    comm.copy_from_slice(&frame[16..32]);
    let header = Header {
        event: EventId(word(4)),
        cpu: word(8) as u16,
        flags: Flags(word(8) >> 16 | word(56) << 16),
        pid: word(12),
        comm,
        time: long(32),
        ip: long(40),
        return_ip: long(48),
    };
    (header, word(0) as usize)
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
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    fn header(n: u32) -> Header {
        Header {
            event: EventId(n),
            cpu: n as u16,
            flags: if n.is_multiple_of(2) { Flags::NONE } else { Flags::INTERRUPTS_OFF },
            pid: n * 3,
            comm: *b"a task's name\0\0\0",
            time: u64::from(n) << 33,
            ip: 0xffff_ffff_8100_0000 + u64::from(n),
            return_ip: u64::MAX - u64::from(n),
        }
    }

    /// DV-4: a full ring drops new records and counts them. Older records stay unchanged and in order.
    #[test]
    fn a_full_ring_drops_the_new_record_and_counts_it() {
        let mut ring = Ring::with_capacity(2 * FRAME + 10);
        assert!(ring.push(&header(1), |payload| payload.put(b"12345")));
        assert!(ring.push(&header(2), |payload| payload.put(b"67890")));
        assert!(!ring.push(&header(3), |_| ()));
        assert_eq!((ring.len(), ring.written(), ring.dropped()), (2, 2, 1));
        assert_eq!(ring.pop(), Some(Record { header: header(1), payload: b"12345".to_vec() }));
        assert!(ring.push(&header(4), |_| ()));
        assert_eq!(ring.pop().map(|record| record.header), Some(header(2)));
        assert_eq!(ring.pop().map(|record| record.header), Some(header(4)));
        assert_eq!(ring.pop(), None);
        assert!(ring.is_empty());
    }

    /// DV-4: a payload that is too long is cut, and the record is marked.
    #[test]
    fn a_payload_that_does_not_fit_marks_the_record() {
        let mut ring = Ring::with_capacity(8192);
        ring.push(&header(2), |payload| payload.put(&[7; LARGEST_PAYLOAD + 1]));
        let record = ring.pop().expect("one record was put in");
        assert_eq!(record.payload, [7; LARGEST_PAYLOAD]);
        assert!(record.header.flags.contains(Flags::TRUNCATED));
    }

    /// DV-4: while recording is off, records are neither kept nor counted as lost, and the older ones stay.
    #[test]
    fn a_ring_that_is_off_keeps_what_it_has() {
        let mut ring = Ring::with_capacity(8192);
        assert!(ring.push(&header(1), |payload| payload.put(b"1")));
        ring.switch(false);
        assert!(!ring.push(&header(2), |_| ()) && !ring.is_on());
        assert_eq!((ring.len(), ring.written(), ring.dropped()), (1, 1, 0));
        ring.switch(true);
        assert!(ring.push(&header(3), |_| ()) && ring.is_on());
        assert_eq!(ring.pop().map(|record| record.header), Some(header(1)));
        assert_eq!(ring.pop().map(|record| record.header), Some(header(3)));
    }

    #[test]
    fn a_ring_of_no_bytes_drops_everything() {
        let mut ring = Ring::with_capacity(0);
        assert!(!ring.push(&header(1), |_| ()));
        assert_eq!((ring.pop(), ring.dropped()), (None, 1));
    }

    proptest! {
        /// DV-4: the ring is a FIFO queue for any sequence of writes and reads.
        #[test]
        fn the_ring_is_a_queue(steps in prop::collection::vec(prop::option::of(0_usize..200), 1..200), capacity in 0_usize..1000) {
            let mut ring = Ring::with_capacity(capacity);
            let mut model: VecDeque<Record> = VecDeque::new();
            for (n, step) in steps.into_iter().enumerate() {
                let Some(len) = step else {
                    prop_assert_eq!(ring.pop(), model.pop_front());
                    continue;
                };
                let payload: Vec<u8> = (0..len).map(|at| (at + n) as u8).collect();
                let used: usize = model.iter().map(|record| FRAME + record.payload.len()).sum();
                let fits = used + FRAME + len <= capacity;
                prop_assert_eq!(ring.push(&header(n as u32), |into| into.put(&payload)), fits);
                if fits {
                    model.push_back(Record { header: header(n as u32), payload });
                }
            }
            prop_assert_eq!(ring.len(), model.len());
        }
    }
}
