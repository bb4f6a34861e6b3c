//! Keeps the newest records of a run for the files `trace` and `snapshot`. When they take too much memory, the oldest are
//! dropped.

use std::collections::VecDeque;
use trapline_probes::records::Record;

/// The most bytes of records that `trace` keeps. `snapshot` may keep as many.
const MOST: usize = 32 << 20;
/// The bytes that a record is assumed to take besides its values.
const OVERHEAD: usize = 128;

/// The records of one of the two files.
#[derive(Debug, Default)]
struct Buffer {
    records: VecDeque<Record>,
    /// The bytes of the records.
    bytes: usize,
    /// The number of records added since the buffer was last emptied, with those that were dropped.
    seen: u64,
}

impl Buffer {
    /// Adds a record. Drops the oldest ones if there are too many bytes.
    fn add(&mut self, record: &Record) {
        self.bytes += record.payload.len() + OVERHEAD;
        self.seen += 1;
        self.records.push_back(record.clone());
        while self.bytes > MOST
            && let Some(old) = self.records.pop_front()
        {
            self.bytes -= old.payload.len() + OVERHEAD;
        }
    }
}

/// The records of the files `trace` and `snapshot`.
#[derive(Debug, Default)]
pub struct Kept {
    trace: Buffer,
    snapshot: Buffer,
    has_snapshot: bool,
}

impl Kept {
    /// Adds a record to `trace`. Drops the oldest ones if there are too many bytes.
    pub fn add(&mut self, record: &Record) {
        self.trace.add(record);
    }

    /// Exchanges the records of `trace` and `snapshot`, as the trigger `snapshot` does.
    pub fn swap(&mut self) {
        std::mem::swap(&mut self.trace, &mut self.snapshot);
        self.has_snapshot = true;
    }

    /// Empties `trace`.
    pub fn clear(&mut self) {
        self.trace = Buffer::default();
    }

    /// Empties `snapshot`. With `frees`, [`Kept::has_snapshot`] is false afterwards.
    pub fn clear_snapshot(&mut self, frees: bool) {
        self.snapshot = Buffer::default();
        self.has_snapshot &= !frees;
    }

    /// Whether a snapshot was taken since it was last freed.
    pub fn has_snapshot(&self) -> bool {
        self.has_snapshot
    }

    /// The records of `trace` or of `snapshot`, sorted by time, and their number with those that were dropped.
    pub fn records(&self, of_snapshot: bool) -> (Vec<&Record>, u64) {
        let buffer = if of_snapshot { &self.snapshot } else { &self.trace };
        let mut records: Vec<&Record> = buffer.records.iter().collect();
        records.sort_by_key(|record| record.header.time);
        (records, buffer.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: old records give way, and a snapshot takes the records with it.
    #[test]
    fn the_newest_records_are_kept() {
        let mut kept = Kept::default();
        let record = |time| {
            let mut record = Record { payload: vec![0; 1 << 20], ..Record::default() };
            record.header.time = time;
            record
        };
        (0..40).for_each(|time| kept.add(&record(time)));
        let (records, seen) = kept.records(false);
        assert_eq!((records.len(), seen, records.last().map(|record| record.header.time)), (31, 40, Some(39)));
        kept.swap();
        let lengths = |kept: &Kept, of_snapshot| (kept.records(of_snapshot).0.len(), kept.records(of_snapshot).1);
        assert_eq!((lengths(&kept, false), lengths(&kept, true), kept.has_snapshot()), ((0, 0), (31, 40), true));
        kept.add(&record(50));
        assert_eq!((lengths(&kept, false), lengths(&kept, true)), ((1, 1), (31, 40)));
        kept.clear_snapshot(true);
        assert_eq!((kept.records(false).0.len(), kept.records(true).0.len(), kept.has_snapshot()), (1, 0, false));
        kept.clear();
        assert_eq!(kept.records(false), (Vec::new(), 0));
    }
}
