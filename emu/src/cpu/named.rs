//! Saving by names where the core's register interface shows everything: that it does is tried out each time.

use crate::snapshot::registers::Values;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::surgery::CoreState;
use std::ops::Range;

/// Gives the values back if a core into which they are loaded holds the same bytes as before, but for those that the core keeps for itself.
/// The state before is in the image.
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
