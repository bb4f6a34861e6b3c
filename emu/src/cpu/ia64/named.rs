//! The architectural state by register names, for snapshots: all words of the core's state, which is our own.

use crate::cpu::Named;
use crate::cpu::named::{self, Field, HALF, OwnState, WORD};
use std::mem::offset_of;
use std::sync::LazyLock;
use trapline_core::ia64::{Alat, Claim, Entry, Half, STACKED, State};

/// The functions for snapshots.
pub const NAMED: Named = named::of_own::<Ia64>();

/// The state of IA-64 CPUs.
pub struct Ia64;

/// The number of entries of each half of the TLB, registers included, and of the ALAT.
const ENTRIES: usize = offset_of!(Half, next) / size_of::<Entry>();
const CLAIMS: usize = offset_of!(Alat, next) / size_of::<Claim>();

static TABLE: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: &str, at: usize, count: usize, bytes: usize, bits: u128| {
        for number in 0..count {
            let name = if count > 1 { format!("{name}{number}") } else { name.to_string() };
            // r0 is always 0.
            let bits = if name == "gr0" { 0 } else { bits };
            fields.push(Field { name, at: at + bytes * number, bytes, bits });
        }
    };
    add("gr", offset_of!(State, general), 32, 8, WORD);
    add("banked", offset_of!(State, banked), 16, 8, WORD);
    add("stacked", offset_of!(State, stacked), STACKED as usize, 8, WORD);
    add("nat", offset_of!(State, nat), 1, 4, HALF);
    add("banked_nat", offset_of!(State, banked_nat), 1, 4, HALF);
    add("stacked_nat", offset_of!(State, stacked_nat), 2, 8, WORD);
    add("bottom", offset_of!(State, bottom), 1, 4, HALF);
    add("dirty", offset_of!(State, dirty), 1, 4, HALF);
    add("loads", offset_of!(State, loads), 1, 4, 1);
    add("gap", offset_of!(State, gap), 1, 4, 0);
    add("cfm", offset_of!(State, frame), 1, 8, (1 << 38) - 1);
    add("pr", offset_of!(State, predicates), 1, 8, WORD);
    add("br", offset_of!(State, branch), 8, 8, WORD);
    for number in 0..128 {
        let at = offset_of!(State, real) + 16 * number;
        add(&format!("fr{number}"), at, 1, 8, WORD);
        add(&format!("fr{number}_exponent"), at + 8, 1, 8, WORD);
    }
    add("ar", offset_of!(State, application), 128, 8, WORD);
    add("bspstore", offset_of!(State, store_at), 1, 8, WORD);
    add("rnat", offset_of!(State, collection), 1, 8, WORD);
    add("cr", offset_of!(State, control), 128, 8, WORD);
    add("pending", offset_of!(State, pending), 4, 8, WORD);
    add("in_service", offset_of!(State, serviced), 4, 8, WORD);
    add("psr", offset_of!(State, status), 1, 8, WORD);
    add("ip", offset_of!(State, pc), 1, 8, WORD);
    add("last", offset_of!(State, last), 1, 8, WORD);
    add("rr", offset_of!(State, regions), 8, 8, WORD);
    add("kept", offset_of!(State, kept), 5 * 16, 8, WORD);
    for (name, half) in [("itlb", offset_of!(State, tlb.code)), ("dtlb", offset_of!(State, tlb.data))] {
        for number in 0..ENTRIES {
            let (entry, at) = (format!("{name}{number}"), half + size_of::<Entry>() * number);
            add(&format!("{entry}_page"), at + offset_of!(Entry, page), 1, 8, WORD);
            add(&format!("{entry}_pte"), at + offset_of!(Entry, pte), 1, 8, WORD);
            add(&format!("{entry}_region"), at + offset_of!(Entry, region), 1, 8, WORD);
            // A page is smaller than a region.
            add(&format!("{entry}_bits"), at + offset_of!(Entry, bits), 1, 4, 0x3f);
            add(&format!("{entry}_key"), at + offset_of!(Entry, key), 1, 4, HALF);
        }
        add(&format!("{name}_next"), half + offset_of!(Half, next), 1, 4, 0x3f);
        add(&format!("{name}_gap"), half + offset_of!(Half, gap), 1, 4, 0);
    }
    for number in 0..CLAIMS {
        let (claim, at) = (format!("alat{number}"), offset_of!(State, alat) + size_of::<Claim>() * number);
        add(&format!("{claim}_register"), at + offset_of!(Claim, register), 1, 4, 0x1ff);
        add(&format!("{claim}_size"), at + offset_of!(Claim, size), 1, 4, 0x1f);
        add(&format!("{claim}_address"), at + offset_of!(Claim, address), 1, 8, WORD);
    }
    add("alat_next", offset_of!(State, alat) + offset_of!(Alat, next), 1, 4, 0x1f);
    add("alat_used", offset_of!(State, alat) + offset_of!(Alat, used), 1, 4, 0x3f);
    fields
});

impl OwnState for Ia64 {
    fn fields() -> &'static [Field] {
        &TABLE
    }

    /// The core computes with these numbers without looking at them again.
    fn check(numbers: &[u128]) -> Result<(), String> {
        let all = || TABLE.iter().map(|field| field.name.as_str()).zip(numbers.iter().copied());
        let of = |name: &str| all().find(|(known, _)| *known == name).map_or(0, |(_, value)| value);
        let refused = |name: &str, value: i128| Err(format!("the register `{name}` is {value}, which it cannot be"));
        let dirty = i128::from(of("dirty") as u32 as i32);
        let most = i128::from(STACKED);
        if of("bottom") >= STACKED.into() {
            return refused("bottom", of("bottom") as i128);
        }
        if !(-most..=most).contains(&dirty) {
            return refused("dirty", dirty);
        }
        let claims = all().filter(|(name, size)| name.starts_with("alat") && name.ends_with("_size") && *size != 0).count();
        if of("alat_used") != claims as u128 {
            return refused("alat_used", of("alat_used") as i128);
        }
        if !matches!(of("ip") & 15, 0 | 6 | 12) {
            return refused("ip", of("ip") as i128);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::registers::Values;
    use trapline_core::ia64::SAVED;

    /// Every word of the state that belongs to a CPU has a name.
    #[test]
    fn every_word_has_a_name() {
        let mut words: Vec<usize> = TABLE.iter().flat_map(|field| (field.at..field.at + field.bytes).step_by(4)).collect();
        words.sort_unstable();
        assert_eq!(words, (0..SAVED / 4).map(|number| 4 * number).collect::<Vec<_>>());
    }

    /// BY-4: values that the core cannot have are refused, each with its name.
    #[test]
    fn values_that_no_cpu_has_are_refused() {
        let checked = |changed: &[(&str, u128)]| {
            let mut values = Values::default();
            for field in TABLE.iter() {
                let value = changed.iter().find(|(name, _)| *name == field.name).map_or(0, |(_, value)| *value);
                values.put(field.name.as_str(), value);
            }
            (NAMED.check)(&values)
        };
        assert_eq!(checked(&[]), Ok(()));
        assert_eq!(checked(&[("dirty", u32::MAX.into()), ("alat3_size", 8), ("alat_used", 1)]), Ok(()));
        let wrong: &[&[(&str, u128)]] = &[
            &[("bottom", 96)],
            &[("dirty", 97)],
            &[("dirty", 0x8000_0000)],
            &[("alat_used", 1)],
            &[("alat7_size", 8)],
            &[("ip", 0x1003)],
            &[("dtlb5_bits", 64)],
            &[("itlb_next", 64)],
            &[("gap", 1)],
        ];
        for changed in wrong {
            let refused = checked(changed).expect_err(changed[0].0);
            assert!(refused.contains(changed[0].0) || refused.contains("alat_used"), "{refused}");
        }
    }
}
