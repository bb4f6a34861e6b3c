//! The architectural state by register names, for snapshots: registers at the offsets of the core's own headers, with
//! register windows, trap levels and both TLBs.
//!
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use crate::cpu::Named;
use crate::cpu::named::{self, Field};
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::sparc64;
use crate::unicorn::engine::TrapContext;
use std::ops::Range;
use std::sync::LazyLock;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named { save, check: |values| numbers(values).map(|_| ()), load, ..Named::NOTHING_SHARED };

/// The named fields, and the ranges that the core keeps for itself.
static TABLE: LazyLock<(Vec<Field>, Vec<Range<usize>>)> = LazyLock::new(|| {
    let (mut fields, mut own) = (Vec::new(), Vec::new());
    for field in sparc64::fields() {
        if field.is_own {
            own.push(field.at..field.at + field.bytes);
            continue;
        }
        for number in 0..field.count {
            let name = if field.count > 1 { format!("{}{number}", field.name) } else { field.name.to_string() };
            let bits = u128::MAX >> (128 - 8 * field.bytes.clamp(1, 16));
            fields.push(Field { name, at: field.at + number * field.bytes, bytes: field.bytes, bits });
        }
    }
    (fields, own)
});

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    let numbers = values.read(named::wanted(&TABLE.0))?;
    let limits = [("cwp", 7), ("tl", 5), ("cansave", 7), ("canrestore", 7), ("otherwin", 7), ("cleanwin", 7)];
    for (name, most) in limits {
        let found = TABLE.0.iter().zip(&numbers).find(|(field, _)| field.name == name);
        if let Some((_, number)) = found.filter(|(_, number)| **number > most) {
            return Err(format!("the register `{name}` is {number}, but at most {most} is possible"));
        }
    }
    Ok(numbers)
}

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    cpu.settle_sparc();
    image.save(cpu.handle());
    let values = named::values_of(&TABLE.0, image)?;
    named::tried(cpu, image, &TABLE.1, values, |image, values| load(cpu, image, reset, values))
}

fn load(cpu: &TrapContext, _: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = numbers(values)?;
    reset.restore(cpu.handle());
    named::set(&TABLE.0, cpu, &numbers);
    cpu.settle_sparc();
    Ok(())
}
