//! Histograms of events (`hist:keys=common_pid:vals=count:sort=hitcount.descending`). A `Hist` counts at hits, in memory
//! that is allocated when the trigger is written. [`spec`] reads the trigger's text, `show` writes the file `hist`.

pub(super) mod show;
mod sort;
pub mod spec;
mod table;

pub use show::Lookup;
pub use spec::{HistCode, HistError};

use super::fields::{FieldRef, Kind, Sample};
use spec::{Key, Modifier, Source, Spec};
use table::Table;
use trapline_isa::mem::ByteOrder;

/// The largest number of frames of a call chain in a key.
const STACK_DEPTH: usize = 16;
/// Bytes that a string takes in a key.
const TEXT_BYTES: usize = 256;
/// The largest key, in bytes.
const LARGEST_KEY: usize = 384;

/// A histogram of one or more triggers: its specification and its counts.
#[derive(Debug)]
pub(super) struct Hist {
    pub spec: Spec,
    table: Table,
    order: ByteOrder,
    /// The number of triggers that use it.
    pub users: usize,
}

impl Hist {
    pub fn new(spec: Spec, order: ByteOrder) -> Hist {
        let table = Table::new(spec.bits, spec.key_bytes(), spec.values.len());
        Hist { spec, table, order, users: 0 }
    }

    /// Forgets all entries and counts.
    pub fn clear(&mut self) {
        self.table.clear();
    }

    /// Counts a record.
    pub fn take(&mut self, sample: &Sample<'_>) {
        let mut bytes = [0; LARGEST_KEY];
        let mut at = 0;
        for key in &self.spec.keys {
            let into = bytes.get_mut(at..at + key.bytes()).unwrap_or_default();
            key.write(sample, into, self.order);
            at += key.bytes();
        }
        let Some(entry) = self.table.entry(bytes.get(..at).unwrap_or_default(), &sample.header.comm) else { return };
        for (index, value) in self.spec.values.iter().enumerate() {
            self.table.add(entry, index, value.number(sample));
        }
    }
}

impl Key {
    /// Bytes in the compound key.
    fn bytes(&self) -> usize {
        match &self.source {
            Source::Stack => STACK_DEPTH * 8,
            Source::Field(FieldRef { kind: Kind::Text, .. }) => TEXT_BYTES,
            _ => 8,
        }
    }

    fn write(&self, sample: &Sample<'_>, into: &mut [u8], order: ByteOrder) {
        match &self.source {
            Source::Stack => {
                for (place, frame) in into.chunks_exact_mut(8).zip(sample.stack) {
                    place.copy_from_slice(&bytes_of(frame.address, order));
                }
            }
            Source::Field(field) if field.kind == Kind::Text => {
                let text = sample.text(field);
                let fits = text.len().min(into.len().saturating_sub(1));
                if let (Some(place), Some(text)) = (into.get_mut(..fits), text.get(..fits)) {
                    place.copy_from_slice(text);
                }
            }
            _ => into.copy_from_slice(&bytes_of(self.number(sample), order)),
        }
    }

    /// The number that is counted or summed, after its modifier.
    fn number(&self, sample: &Sample<'_>) -> u64 {
        let number = match &self.source {
            Source::Stack => 0,
            Source::Cpu(_) => u64::from(sample.header.cpu),
            Source::Timestamp if self.in_microseconds => (sample.header.time + 500) / 1000,
            Source::Timestamp => sample.header.time,
            Source::Field(field) => sample.number(field),
        };
        match self.modifier {
            Modifier::Log2 => log2(number),
            Modifier::Buckets(width) => number / width.max(1) * width,
            _ => number,
        }
    }
}

/// The exponent of the next power of two.
fn log2(number: u64) -> u64 {
    number.checked_next_power_of_two().map_or(0, |power| u64::from(power.trailing_zeros()))
}

fn bytes_of(number: u64, order: ByteOrder) -> [u8; 8] {
    match order {
        ByteOrder::Little => number.to_le_bytes(),
        ByteOrder::Big => number.to_be_bytes(),
    }
}
