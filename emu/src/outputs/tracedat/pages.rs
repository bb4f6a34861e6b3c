//! One CPU's records as pages of the kernel's ring buffer.

use super::super::spool::spool;
use super::Order;
use std::fs::File;
use std::io::{self, Write};

/// The size of a page in the file. It need not be the size of the guest's pages.
pub const PAGE: usize = 4096;

/// The longest record that has its length in its head.
const LONGEST_SHORT: usize = 112;
/// The flag in a page's head that says that records were lost before this page.
const LOST: u64 = 1 << 31;
/// The flag in a page's head that says that the number of lost records stands behind the records.
const LOST_IS_COUNTED: u64 = 1 << 30;
/// The kind of a record that only moves the time on.
const TIME_EXTEND: u32 = 30;
/// Bits of a record's time, which is relative to the record before it.
const DELTA_BITS: u32 = 27;

/// The text that describes a page's head.
pub fn header_page(order: Order) -> String {
    let (long, data) = (order.word, 8 + order.word);
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
        PAGE - data
    )
}

/// The text that describes a record's head.
pub const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// The records of one CPU.
pub struct Cpu {
    order: Order,
    spool: File,
    bytes: u64,
    /// Records of the present page.
    page: Vec<u8>,
    /// The time of the page's first record.
    first: u64,
    /// The time of the last record.
    last: u64,
    /// Records that were lost before the present page.
    lost_before: u64,
    lost: u64,
    entries: u64,
}

impl Cpu {
    /// No records yet.
    pub fn new(order: Order) -> io::Result<Cpu> {
        let (page, spool) = (Vec::with_capacity(PAGE), spool()?);
        Ok(Cpu { order, spool, bytes: 0, page, first: 0, last: 0, lost_before: 0, lost: 0, entries: 0 })
    }

    /// Records that were written.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Records that were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of whole pages in the spool.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pages.
    pub fn spool(&mut self) -> &mut File {
        &mut self.spool
    }

    /// Records were lost before the next one, which therefore begins a page.
    pub fn lost_before_next(&mut self, count: u64) {
        // `close` fails only when the next write fails, too.
        if count > 0 && self.close().is_ok() {
            self.lost_before += count;
            self.lost += count;
        }
    }

    /// Adds a record. One that fits in no page counts as lost.
    pub fn add(&mut self, time: u64, entry: &[u8]) -> io::Result<()> {
        let room = PAGE - 8 - self.order.word;
        let padded = entry.len().next_multiple_of(4);
        let is_short = padded <= LONGEST_SHORT;
        let size = if is_short { 4 + padded } else { 8 + padded };
        if size > room {
            self.lost_before_next(1);
            return Ok(());
        }
        let time = time.max(self.last);
        let mut delta = time - self.last;
        let extend = if delta >> DELTA_BITS == 0 { 0 } else { 8 };
        if !self.page.is_empty() && self.page.len() + size + extend > room {
            self.close()?;
        }
        if self.page.is_empty() {
            (self.first, delta) = (time, 0);
        }
        if delta >> DELTA_BITS != 0 {
            self.put_head(TIME_EXTEND, delta as u32 & ((1 << DELTA_BITS) - 1));
            self.order.put(&mut self.page, delta >> DELTA_BITS, 4);
            delta = 0;
        }
        match is_short {
            true => self.put_head((padded / 4) as u32, delta as u32),
            false => {
                self.put_head(0, delta as u32);
                self.order.put(&mut self.page, padded as u64 + 4, 4);
            }
        }
        self.page.extend_from_slice(entry);
        self.page.resize(self.page.len() + padded - entry.len(), 0);
        self.last = time;
        self.entries += 1;
        Ok(())
    }

    /// Writes the present page.
    pub fn close(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let Order { word, .. } = self.order;
        let mut commit = self.page.len() as u64;
        let lost = std::mem::take(&mut self.lost_before);
        if lost > 0 {
            commit |= LOST;
            if self.page.len() + word <= PAGE - 8 - word {
                commit |= LOST_IS_COUNTED;
                self.order.put(&mut self.page, lost, word);
            }
        }
        let mut head = Vec::with_capacity(16);
        self.order.put(&mut head, self.first, 8);
        self.order.put(&mut head, commit, word);
        self.page.resize(PAGE - head.len(), 0);
        self.spool.write_all(&head)?;
        self.spool.write_all(&self.page)?;
        self.page.clear();
        self.bytes += PAGE as u64;
        Ok(())
    }

    /// A record's head: five bits of kind and 27 of time, from the other end on big-endian guests.
    fn put_head(&mut self, kind: u32, delta: u32) {
        let head = if self.order.big { kind << DELTA_BITS | delta } else { kind | delta << 5 };
        self.order.put(&mut self.page, head.into(), 4);
    }
}
