//! Files that other programs open. A [`Sink`] writes the records of a run in one format: trace.dat for trace-cmd and
//! KernelShark, Perfetto's protobuf, CSV, folded stacks and a flame graph. [`drcov`] writes block coverage, [`lcov`] line
//! coverage.
//!
//! A sink gets each record once, in the order of the ring buffer, and keeps a bounded amount of memory.

pub mod csv;
pub mod drcov;
pub mod elf;
pub mod flame;
pub mod folded;
pub mod json;
pub mod kept;
pub mod lcov;
pub mod numbers;
pub mod perfetto;
pub mod records;
pub mod report;
mod spool;
pub mod text;
pub mod tracedat;
mod values;
pub mod vmcore;

use std::io;
use trapline_probes::events::format::{Format, Reader};
use trapline_probes::events::places::Symbols;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::watch::KERNEL_STACK;
use trapline_probes::records::Record;

/// A writer of records in one format.
pub trait Sink {
    /// Writes one record.
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()>;

    /// Notes that the ring buffer dropped this many records after the last one and before the next one.
    fn lost(&mut self, count: u64) -> io::Result<()> {
        let _ = count;
        Ok(())
    }

    /// Completes the output.
    fn finish(self: Box<Self>, end: &End<'_>) -> io::Result<()>;
}

/// A record and the facts that are needed to write it.
pub struct Seen<'a> {
    /// The record, whose values are still encoded.
    pub record: &'a Record,
    /// The layout of its values.
    pub format: &'a Format,
    /// The definitions of all events of the run.
    pub events: &'a EventSet,
    /// Looks up symbols.
    pub symbols: Symbols<'a>,
    /// Looks up source lines, if they are to be shown.
    pub lines: Option<Lines<'a>>,
}

/// Gives an address's source line as text; empty if it is not known.
pub type Lines<'a> = &'a dyn Fn(u64) -> String;

impl Seen<'_> {
    /// The addresses of the record: its own, and its backtrace. The second is empty if it has none.
    pub(crate) fn addresses(&self) -> (u64, Vec<u64>) {
        let header = &self.record.header;
        // A return address is behind the call: the line is that of the call.
        let own = if self.format.returns { header.return_ip.wrapping_sub(1) } else { header.ip };
        if self.format.stack.is_none() {
            return (own, Vec::new());
        }
        let mut values = Reader::new(&self.record.payload);
        for field in self.format.fields.iter().filter(|_| header.event != KERNEL_STACK) {
            (0..field.count.unwrap_or(1)).for_each(|_| {
                values.next(field.stored);
            });
        }
        let call = |(number, address): (usize, u64)| if number == 0 { address } else { address.wrapping_sub(1) };
        (own, values.stack().enumerate().map(call).collect())
    }
}

/// Facts about the guest that do not change during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Bytes in a machine word.
    pub word: usize,
    /// Whether the guest is big-endian.
    pub big_endian: bool,
    /// The name of the ISA.
    pub isa: &'static str,
    /// The number of CPUs.
    pub cpus: usize,
}

/// The end of a run.
pub struct End<'a> {
    /// Records that reached the sinks.
    pub shown: u64,
    /// Records that were made. The difference to `shown` was lost.
    pub made: u64,
    /// The guest's time, in nanoseconds.
    pub time: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// Columns that are not known on this kernel.
    pub unknown: &'a [&'a str],
    /// The events of the run.
    pub events: &'a EventSet,
    /// The guest's symbols, by address; each has its module, if any.
    pub symbols: &'a dyn Fn() -> Vec<trapline_probes::guest::Symbol>,
}
