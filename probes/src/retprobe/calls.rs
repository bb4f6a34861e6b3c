//! The calls that return probes have seen: every entry is accounted for.

use super::Returns;
use crate::engine::Engine;

/// The calls that return probes have seen. The entries are the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls seen at the function's entry.
    pub entries: u64,
    /// Calls that returned, so that the return handler ran.
    pub returns: u64,
    /// Calls that have not returned yet.
    pub in_flight: u64,
    /// Calls that will never return, because their task has exited or has left them by a longjmp.
    pub abandoned: u64,
    /// Calls that an entry handler did not want to follow.
    pub declined: u64,
    /// Calls that could not be followed, because no instance was free.
    pub missed: u64,
}

impl Calls {
    /// Whether every entry is accounted for.
    pub fn add_up(&self) -> bool {
        self.entries == self.returns + self.in_flight + self.abandoned + self.declined + self.missed
    }
}

impl Returns {
    /// The calls of all probes that users have registered.
    pub fn calls(&self) -> Calls {
        let mut all = Calls::default();
        for pool in self.pools.iter().flatten() {
            let Some(owner) = pool.owner.as_ref().filter(|owner| !owner.kprobe().is_internal()) else { continue };
            all.entries += owner.hits();
            all.returns += owner.returns();
            all.in_flight += pool.in_flight;
            all.abandoned += owner.abandoned();
            all.declined += owner.declined();
            all.missed += owner.nmissed();
        }
        all
    }
}

impl Engine {
    /// The calls that the registered return probes have seen, without the machine's own probes.
    pub fn calls(&self) -> Calls {
        self.returns.calls()
    }
}
