//! The architectural state by register names, for snapshots: registers at the offsets of the core's own headers, and
//! the TLB entry by entry.
//!
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use crate::cpu::{Named, named};
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::mips::{self, TlbEntry};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::Library;
use std::ops::Range;
use std::sync::LazyLock;

/// The functions of this file for one kind of core. The core has no state shared by all CPUs.
macro_rules! named {
    ($table:ident) => {
        Named {
            save: |cpu, image, reset| save(&$table, cpu, image, reset),
            check: |values| $table.numbers(values).map(|_| ()),
            load: |cpu, _, reset, values| load(&$table, cpu, reset, values),
            save_shared: |_| Values::default(),
            check_shared: |values| values.read([].into_iter()).map(|_| ()),
            load_shared: |_, values| values.read([].into_iter()).map(|_| ()),
        }
    };
}

/// The functions for 32-bit big-endian cores.
pub const BIG_32: Named = named!(TABLE_BIG_32);
/// The functions for 32-bit little-endian cores.
pub const LITTLE_32: Named = named!(TABLE_LITTLE_32);
/// The functions for 64-bit big-endian cores.
pub const BIG_64: Named = named!(TABLE_BIG_64);
/// The functions for 64-bit little-endian cores.
pub const LITTLE_64: Named = named!(TABLE_LITTLE_64);

static TABLE_BIG_32: LazyLock<Table> = LazyLock::new(|| Table::new(&mips::BIG_32, ENTRIES));
static TABLE_LITTLE_32: LazyLock<Table> = LazyLock::new(|| Table::new(&mips::LITTLE_32, ENTRIES));
static TABLE_BIG_64: LazyLock<Table> = LazyLock::new(|| Table::new(&mips::BIG_64, ENTRIES));
static TABLE_LITTLE_64: LazyLock<Table> = LazyLock::new(|| Table::new(&mips::LITTLE_64, ENTRIES));

/// The number of TLB entries of both models.
const ENTRIES: usize = 64;

/// A value: its name, its offset in the state, its size in bytes.
struct Value {
    name: String,
    at: usize,
    bytes: usize,
}

/// The named state of one kind of core.
struct Table {
    values: Vec<Value>,
    /// The bytes that the core keeps for itself.
    own: Vec<Range<usize>>,
    /// The names and bits of all parts of the TLB entries.
    entries: Vec<(String, u128)>,
}

impl Table {
    fn new(library: &Library, entries: usize) -> Table {
        let (mut values, mut own) = (Vec::new(), Vec::new());
        for field in mips::fields(library) {
            if field.is_own {
                own.push(field.at..field.at + field.bytes);
                continue;
            }
            for number in 0..field.count {
                let name = if field.count > 1 { format!("{}{number}", field.name) } else { field.name.to_string() };
                values.push(Value { name, at: field.at + number * field.bytes, bytes: field.bytes });
            }
        }
        let word = bits(mips::word_bytes(library));
        #[rustfmt::skip]
        let parts = [
            ("page", word), ("mask", 0xffff_ffff), ("space", 0xffff), ("memory", 0xffff_ffff), ("bits", 0xffff), ("frame0", bits(8)),
            ("frame1", bits(8)),
        ];
        let entry = |number: usize| parts.iter().map(move |(part, bits)| (format!("tlb{number}.{part}"), *bits));
        Table { values, own, entries: (0..entries).flat_map(entry).collect() }
    }

    fn numbers(&self, values: &Values) -> Result<Vec<u128>, String> {
        let registers = self.values.iter().map(|value| Wanted { name: &value.name, bits: bits(value.bytes) });
        values.read(registers.chain(self.entries.iter().map(|(name, bits)| Wanted { name, bits: *bits })))
    }
}

/// A mask of that many bytes.
fn bits(bytes: usize) -> u128 {
    u128::MAX >> (128 - 8 * bytes.clamp(1, 16))
}

fn save(table: &Table, cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    image.save(cpu.handle());
    let mut values = Values::default();
    for value in &table.values {
        let mut bytes = [0; 16];
        image.read(value.at, &mut bytes[..value.bytes]);
        values.put(value.name.as_str(), u128::from_le_bytes(bytes));
    }
    let entries = cpu.handle().tlb_entries();
    if entries.as_flattened().len() != table.entries.len() {
        return Err(format!("the TLB has {} entries, but trapline knows another number", entries.len()));
    }
    for ((name, _), part) in table.entries.iter().zip(entries.as_flattened()) {
        values.put(name.as_str(), (*part).into());
    }
    let values = named::tried(cpu, image, &table.own, values, |_, values| load(table, cpu, reset, values))?;
    if cpu.handle().tlb_entries() == entries {
        Ok(values)
    } else {
        Err("the TLB has a value that no known field explains".into())
    }
}

fn load(table: &Table, cpu: &TrapContext, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = table.numbers(values)?;
    let (registers, parts) = numbers.split_at(table.values.len());
    reset.restore(cpu.handle());
    cpu.edit(|image| {
        for (value, number) in table.values.iter().zip(registers) {
            image.write(value.at, &number.to_le_bytes()[..value.bytes]);
        }
    });
    cpu.settle_mips();
    let parts: Vec<u64> = parts.iter().map(|part| *part as u64).collect();
    let (entries, _) = parts.as_chunks();
    cpu.set_tlb_entries(entries as &[TlbEntry]);
    Ok(())
}
