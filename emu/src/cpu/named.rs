//! Saving by names where the core's register interface shows everything: that it does is tried out each time.

use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::surgery::CoreState;
use std::ops::Range;

/// A value that lies in the core's state.
pub struct Field {
    /// What it is called in a snapshot.
    pub name: String,
    /// Where it lies.
    pub at: usize,
    /// How many bytes it has, 16 at most.
    pub bytes: usize,
    /// The bits that it may have.
    pub bits: u128,
}

/// All bits of 8 bytes.
pub const WORD: u128 = u64::MAX as u128;
/// All bits of 4 bytes.
pub const HALF: u128 = u32::MAX as u128;

/// The fields as they are asked for among values.
pub fn wanted(fields: &[Field]) -> impl Iterator<Item = Wanted<'_>> {
    fields.iter().map(|field| Wanted { name: &field.name, bits: field.bits })
}

/// The fields of a state, as values.
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

/// Gives fields of the state on the core these values, in their order.
pub fn set(fields: &[Field], cpu: &TrapContext, numbers: &[u128]) {
    cpu.edit(|image| {
        for (field, value) in fields.iter().zip(numbers) {
            image.write(field.at, &value.to_le_bytes()[..field.bytes]);
        }
    });
}

/// Gives the values back if a core into which they are loaded holds the same bytes as before, but for those that the
/// core keeps for itself. The state before is in the image.
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
        Some(at) => Err(format!("the CPU holds something that has no name, in byte {at} of its state")),
        None => Ok(values),
    }
}
