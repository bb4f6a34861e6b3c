//! The architectural state by register names, for snapshots: registers at the offsets of the core's own headers.
//!
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use super::core;
use crate::cpu::Named;
use crate::cpu::named::{self, Field};
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::riscv;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::CoreKind;
use std::ops::Range;
use std::sync::LazyLock;

/// The functions of this file for one width. The core has no state shared by all CPUs.
macro_rules! named {
    ($table:ident) => {
        Named {
            save: |cpu, image, reset| save(&$table, cpu, image, reset),
            check: |values| $table.numbers(values).map(|_| ()),
            load: |cpu, _, reset, values| load(&$table, cpu, reset, values),
            ..Named::NOTHING_SHARED
        }
    };
}

/// The named registers of 64-bit CPUs.
pub const WIDE: Named = named!(TABLE_WIDE);
/// The named registers of 32-bit CPUs.
pub const NARROW: Named = named!(TABLE_NARROW);

static TABLE_WIDE: LazyLock<Table> = LazyLock::new(|| Table::new(&core::WIDE));
static TABLE_NARROW: LazyLock<Table> = LazyLock::new(|| Table::new(&core::NARROW));

/// The named state of one width.
struct Table {
    fields: Vec<Field>,
    /// The bytes that the core keeps for itself.
    own: Vec<Range<usize>>,
}

/// The fields of sstatus that the core has: SIE, SPIE, SPP, FS, SUM, MXR.
const STATUS: u128 = 0xc_6122;
/// The three interrupts of a supervisor.
const INTERRUPTS: u128 = 0x222;

impl Table {
    fn new(kind: &CoreKind) -> Table {
        let (mut fields, mut own) = (Vec::new(), Vec::new());
        for field in riscv::fields(kind.library) {
            if field.is_own {
                own.push(field.at..field.at + field.bytes);
                continue;
            }
            let whole = u128::MAX >> (128 - 8 * field.bytes.clamp(1, 16));
            let bits = match field.name {
                // SD, the highest bit, says that FS is dirty.
                "status" => STATUS | whole ^ whole >> 1,
                "sip" | "sie" | "mideleg" => INTERRUPTS,
                "mode" => 1,
                "frm" => 7,
                _ => whole,
            };
            for number in 0..field.count {
                let name = if field.count > 1 { format!("{}{number}", field.name) } else { field.name.to_string() };
                fields.push(Field { name, at: field.at + number * field.bytes, bytes: field.bytes, bits });
            }
        }
        Table { fields, own }
    }

    fn numbers(&self, values: &Values) -> Result<Vec<u128>, String> {
        let numbers = values.read(named::wanted(&self.fields))?;
        let found = self.fields.iter().zip(&numbers).find(|(field, _)| field.name == "satp");
        // The core ends the process at another mode.
        if let Some((_, satp)) = found.filter(|(field, satp)| field.bytes == 8 && !matches!(**satp >> 60, 0 | 8..=10)) {
            return Err(format!("the register `satp` is {satp:#x}, whose mode does not exist"));
        }
        Ok(numbers)
    }
}

fn save(table: &Table, cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    image.save(cpu.handle());
    let values = named::values_of(&table.fields, image)?;
    named::tried(cpu, image, &table.own, values, |_, values| load(table, cpu, reset, values))
}

fn load(table: &Table, cpu: &TrapContext, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = table.numbers(values)?;
    reset.restore(cpu.handle());
    named::set(&table.fields, cpu, &numbers);
    Ok(())
}
