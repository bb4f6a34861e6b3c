//! The architectural state by register names, for snapshots: all words of the core's state, which is our own.

use crate::cpu::Named;
use crate::cpu::named::{self, Field, HALF, WORD};
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::LazyLock;
use trapline_core::ia64::{Alat, State, Tlb};

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named { save, check: |values| numbers(values).map(|_| ()), load, ..Named::NOTHING_SHARED };

static TABLE: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: &str, at: usize, count: usize, bytes: usize| {
        for number in 0..count {
            let name = if count > 1 { format!("{name}{number}") } else { name.to_string() };
            let bits = match (name.as_str(), bytes) {
                ("gr0", _) => 0,
                (_, 4) => HALF,
                _ => WORD,
            };
            fields.push(Field { name, at: at + bytes * number, bytes, bits });
        }
    };
    add("gr", offset_of!(State, general), 32, 8);
    add("banked", offset_of!(State, banked), 16, 8);
    add("stacked", offset_of!(State, stacked), 96, 8);
    add("nat", offset_of!(State, nat), 1, 4);
    add("banked_nat", offset_of!(State, banked_nat), 1, 4);
    add("stacked_nat", offset_of!(State, stacked_nat), 2, 8);
    add("bottom", offset_of!(State, bottom), 1, 4);
    add("dirty", offset_of!(State, dirty), 1, 4);
    add("loads", offset_of!(State, loads), 1, 4);
    add("gap", offset_of!(State, gap), 1, 4);
    add("cfm", offset_of!(State, frame), 1, 8);
    add("pr", offset_of!(State, predicates), 1, 8);
    add("br", offset_of!(State, branch), 8, 8);
    // The significand, then the exponent with the sign.
    add("fr", offset_of!(State, real), 2 * 128, 8);
    add("ar", offset_of!(State, application), 128, 8);
    add("bspstore", offset_of!(State, store_at), 1, 8);
    add("rnat", offset_of!(State, collection), 1, 8);
    add("cr", offset_of!(State, control), 128, 8);
    add("pending", offset_of!(State, pending), 4, 8);
    add("in_service", offset_of!(State, serviced), 4, 8);
    add("psr", offset_of!(State, status), 1, 8);
    add("ip", offset_of!(State, pc), 1, 8);
    add("last", offset_of!(State, last), 1, 8);
    add("rr", offset_of!(State, regions), 8, 8);
    add("kept", offset_of!(State, kept), 5 * 16, 8);
    add("tlb", offset_of!(State, tlb), size_of::<Tlb>() / 4, 4);
    add("alat", offset_of!(State, alat), size_of::<Alat>() / 4, 4);
    fields
});

/// No bytes are the core's own.
const OWN: &[Range<usize>] = &[];

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    values.read(named::wanted(&TABLE))
}

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    image.save(cpu.handle());
    let values = named::values_of(&TABLE, image)?;
    named::tried(cpu, image, OWN, values, |image, values| load(cpu, image, reset, values))
}

fn load(cpu: &TrapContext, _: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = numbers(values)?;
    reset.restore(cpu.handle());
    named::set(&TABLE, cpu, &numbers);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_core::ia64::SAVED;

    /// Every word of the state that belongs to a CPU has a name.
    #[test]
    fn every_word_has_a_name() {
        let mut words: Vec<usize> = TABLE.iter().flat_map(|field| (field.at..field.at + field.bytes).step_by(4)).collect();
        words.sort_unstable();
        assert_eq!(words, (0..SAVED / 4).map(|number| 4 * number).collect::<Vec<_>>());
    }
}
