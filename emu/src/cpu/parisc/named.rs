//! The architectural state by register names, for snapshots: all words of the core's state, which is our own.

use crate::cpu::Named;
use crate::cpu::named::{self, Field, OwnState};
use std::mem::offset_of;
use std::sync::LazyLock;
use trapline_core::parisc::{BLOCKS, ENTRIES, State};

/// The functions for snapshots.
pub const NAMED: Named = named::of_own::<Parisc>();

static TABLE: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: &str, at: usize, count: usize, bits: u32| {
        for number in 0..count {
            let name = if count > 1 { format!("{name}{number}") } else { name.to_string() };
            // r0 is always 0.
            let bits = if name == "gr0" { 0 } else { bits };
            fields.push(Field { name, at: at + 4 * number, bytes: 4, bits: bits.into() });
        }
    };
    let all = u32::MAX;
    add("gr", offset_of!(State, general), 32, all);
    add("iaoq0", offset_of!(State, front), 1, all & !3);
    add("iaoq1", offset_of!(State, back), 1, all & !3);
    add("above_iaoq1", offset_of!(State, above_back), 1, all);
    add("iasq0", offset_of!(State, front_space), 1, all);
    add("iasq1", offset_of!(State, back_space), 1, all);
    add("level0", offset_of!(State, front_level), 1, 3);
    add("level1", offset_of!(State, back_level), 1, 3);
    add("nullify", offset_of!(State, nullify), 1, 1);
    add("carries", offset_of!(State, carries), 1, 0x8888_8888);
    add("divides", offset_of!(State, divides), 1, 1);
    add("psw", offset_of!(State, status), 1, all);
    add("sr", offset_of!(State, spaces), 8, all);
    add("cr", offset_of!(State, control), 32, all);
    add("saved_back", offset_of!(State, saved_back), 2, all);
    add("shadow", offset_of!(State, shadows), 7, all);
    add("replace", offset_of!(State, replace), 1, all);
    add("tlb", offset_of!(State, tlb), 4 * ENTRIES, all);
    add("block", offset_of!(State, blocks), 4 * BLOCKS, all);
    fields
});

/// The state of PA-RISC CPUs.
pub struct Parisc;

impl OwnState for Parisc {
    fn fields() -> &'static [Field] {
        &TABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_core::parisc::SAVED;

    /// Every word of the state that belongs to a CPU has a name.
    #[test]
    fn every_word_has_a_name() {
        let mut at: Vec<usize> = TABLE.iter().map(|field| field.at).collect();
        at.sort_unstable();
        assert_eq!(at, (0..SAVED / 4).map(|number| 4 * number).collect::<Vec<_>>());
    }
}
