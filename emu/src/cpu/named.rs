//! Saves state by names on cores whose register interface shows everything. Each save proves that by loading the values
//! again.

use super::Named;
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use std::ops::Range;

/// A value in the core's state.
pub struct Field {
    /// The name in a snapshot.
    pub name: String,
    /// Offset in the state.
    pub at: usize,
    /// Size in bytes, at most 16.
    pub bytes: usize,
    /// The bits that can be set.
    pub bits: u128,
}

/// All bits of 8 bytes.
pub const WORD: u128 = u64::MAX as u128;
/// All bits of 4 bytes.
pub const HALF: u128 = u32::MAX as u128;

/// The fields' names and bits, to look them up among values.
pub fn wanted(fields: &[Field]) -> impl Iterator<Item = Wanted<'_>> {
    fields.iter().map(|field| Wanted { name: &field.name, bits: field.bits })
}

/// Reads the fields of a saved state. Fails if a field has bits that it should not have.
pub fn values_of(fields: &[Field], image: &CoreState) -> Result<Values, String> {
    let mut values = Values::default();
    for field in fields {
        let mut bytes = [0; 16];
        image.read(field.at, &mut bytes[..field.bytes]);
        let value = u128::from_le_bytes(bytes);
        if value & !field.bits != 0 {
            return Err(format!("the register `{}` is {value:#x}, which it should not be", field.name));
        }
        values.put(&*field.name, value);
    }
    Ok(values)
}

/// Writes these values, in order, to the fields of the core's state.
pub fn set(fields: &[Field], cpu: &TrapContext, numbers: &[u128]) {
    cpu.edit(|image| {
        for (field, value) in fields.iter().zip(numbers) {
            image.write(field.at, &value.to_le_bytes()[..field.bytes]);
        }
    });
}

/// Returns the values if loading them restores every byte of the core's state, except the ranges `own` that the core
/// computes itself. `image` holds the state to compare with.
pub fn tried(
    cpu: &TrapContext,
    image: &mut CoreState,
    own: &[Range<usize>],
    values: Values,
    load: impl FnOnce(&mut CoreState, &Values) -> Result<(), String>,
) -> Result<Values, String> {
    let (mut before, mut after) = (vec![0; image.len()], vec![0; image.len()]);
    image.read(0, &mut before);
    load(image, &values)?;
    image.save(cpu.handle());
    image.read(0, &mut after);
    let differs = |at: &usize| before[*at] != after[*at] && !own.iter().any(|own| own.contains(at));
    match (0..before.len()).find(differs) {
        Some(at) => Err(format!("byte {at} of the CPU's state has a value that no known register explains")),
        None => Ok(values),
    }
}

/// The state of a core of our own, in which each word that belongs to a CPU has a name.
pub trait OwnState {
    /// The fields of the state.
    fn fields() -> &'static [Field];
    /// Refuses values that the core cannot have. They are in the order of the fields.
    fn check(numbers: &[u128]) -> Result<(), String> {
        let _ = numbers;
        Ok(())
    }
}

/// The table of an ISA whose core is our own. The core has no state that is shared by all CPUs.
pub const fn of_own<S: OwnState>() -> Named {
    Named {
        save: |cpu, image, reset| {
            image.save(cpu.handle());
            let values = values_of(S::fields(), image)?;
            tried(cpu, image, &[], values, |_, values| load_own::<S>(cpu, reset, values))
        },
        check: |values| numbers_of::<S>(values).map(|_| ()),
        load: |cpu, _, reset, values| load_own::<S>(cpu, reset, values),
        ..Named::NOTHING_SHARED
    }
}

fn numbers_of<S: OwnState>(values: &Values) -> Result<Vec<u128>, String> {
    let numbers = values.read(wanted(S::fields()))?;
    S::check(&numbers)?;
    Ok(numbers)
}

fn load_own<S: OwnState>(cpu: &TrapContext, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = numbers_of::<S>(values)?;
    reset.restore(cpu.handle());
    set(S::fields(), cpu, &numbers);
    Ok(())
}
