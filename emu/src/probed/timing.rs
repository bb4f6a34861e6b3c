//! Measures the host time of hits, from trap to resume, for each probed address ([`super::Session::time_hits`]).

use std::collections::HashMap;
use std::time::Instant;

/// Host time spent in hits. All addresses are added before the first hit, so that recording one allocates nothing.
#[derive(Default)]
pub struct Timing {
    spent: HashMap<u64, Spent>,
}

#[derive(Clone, Copy, Default)]
struct Spent {
    hits: u64,
    nanoseconds: u64,
}

impl Timing {
    /// Measures hits at these addresses.
    pub fn of(addresses: impl Iterator<Item = u64>) -> Timing {
        Timing { spent: addresses.map(|address| (address, Spent::default())).collect() }
    }

    /// Adds addresses to measure.
    pub fn add(&mut self, addresses: impl Iterator<Item = u64>) {
        for address in addresses {
            self.spent.entry(address).or_default();
        }
    }

    /// Adds the time since `started` for a trap of the probe at `address`. `first` is false for the second trap of a
    /// stepped hit.
    pub fn note(&mut self, address: u64, started: Instant, first: bool) {
        if let Some(spent) = self.spent.get_mut(&address) {
            spent.hits += u64::from(first);
            spent.nanoseconds += started.elapsed().as_nanos() as u64;
        }
    }

    /// Nanoseconds per hit. `None` without hits.
    pub fn per_hit(&self, address: u64) -> Option<f64> {
        let spent = self.spent.get(&address).filter(|spent| spent.hits > 0)?;
        Some(spent.nanoseconds as f64 / spent.hits as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_addresses_are_timed_and_a_step_belongs_to_its_hit() {
        let mut timing = Timing::of([0x10].into_iter());
        let started = Instant::now() - std::time::Duration::from_micros(1);
        timing.note(0x10, started, true);
        timing.note(0x10, started, false);
        timing.note(0x20, started, true);
        assert!(timing.per_hit(0x10).is_some_and(|nanoseconds| nanoseconds >= 2000.0));
        assert_eq!(timing.per_hit(0x20), None);
    }
}
