//! The CPUs of a board whose kernel starts all but the first, and the time of the devices that they share.

use super::{At, Order};
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};

/// The CPUs of a board. The first one runs from the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpus {
    /// The CPUs that run.
    on: Vec<bool>,
    /// The latest time at which any CPU made an access.
    latest: Ticks,
    #[serde(skip)]
    orders: Vec<Order>,
}

impl Default for Cpus {
    fn default() -> Cpus {
        Cpus::new(1)
    }
}

impl Cpus {
    /// This many CPUs.
    pub fn new(cpus: usize) -> Cpus {
        Cpus { on: (0..cpus).map(|cpu| cpu == 0).collect(), latest: 0, orders: Vec::new() }
    }

    /// Whether this many CPUs, as read from a snapshot, could be in this state before the time `last`.
    pub fn is_sound(&self, cpus: usize, last: Ticks) -> bool {
        self.on.len() == cpus && self.on.contains(&true) && self.latest < last
    }

    /// Whether there are several.
    pub fn are_several(&self) -> bool {
        self.on.len() > 1
    }

    /// The number of CPUs.
    pub fn count(&self) -> usize {
        self.on.len()
    }

    /// Which of the CPUs run.
    pub fn on(&self) -> &[bool] {
        &self.on
    }

    /// Whether this CPU runs.
    pub fn is_on(&self, cpu: usize) -> bool {
        self.on.get(cpu).is_some_and(|is_on| *is_on)
    }

    /// The time of the devices that all CPUs share. It does not go back when a CPU that is behind makes an access.
    pub fn shared_time(&mut self, at: At) -> Ticks {
        self.latest = if self.are_several() { self.latest.max(at.now) } else { at.now };
        self.latest
    }

    /// That time at the last access.
    pub fn latest(&self) -> Ticks {
        self.latest
    }

    /// Whether this CPU wakes for the events of the shared devices: the first one that runs.
    pub fn keeps_shared_time(&self, cpu: usize) -> bool {
        self.on.iter().position(|is_on| *is_on) == Some(cpu)
    }

    /// Starts a CPU. Does nothing if it runs already or is not there.
    pub fn start(&mut self, cpu: usize, entry: u64, argument: u64) {
        if let Some(is_on) = self.on.get_mut(cpu).filter(|is_on| !**is_on) {
            *is_on = true;
            self.orders.push(Order::Start { cpu, entry, argument });
        }
    }

    /// Stops a CPU, which then waits to be started. Does nothing if it is not there.
    pub fn stop(&mut self, cpu: usize) {
        if let Some(is_on) = self.on.get_mut(cpu) {
            *is_on = false;
            self.orders.push(Order::Reset(cpu));
        }
    }

    /// Takes the orders since the last call.
    pub fn take_orders(&mut self) -> Vec<Order> {
        core::mem::take(&mut self.orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Orders name CPUs that exist, a start follows a stop, and the shared time never goes back.
        #[test]
        fn orders_fit_the_cpus_and_time_never_goes_back(acts in proptest::collection::vec((any::<bool>(), 0usize..12, 0u64..1000), 0..200)) {
            let mut cpus = Cpus::new(8);
            let mut parked = [false, true, true, true, true, true, true, true];
            let mut latest = 0;
            for (starts, cpu, now) in acts {
                let seen = cpus.shared_time(At { cpu, now });
                prop_assert!(seen >= latest && seen >= now);
                latest = seen;
                if starts { cpus.start(cpu, 0, 0) } else { cpus.stop(cpu) }
                for order in cpus.take_orders() {
                    match order {
                        Order::Reset(cpu) => parked[cpu] = true,
                        Order::Start { cpu, .. } => {
                            prop_assert!(parked[cpu]);
                            parked[cpu] = false;
                        }
                    }
                }
                prop_assert!((0..12).all(|cpu| cpus.is_on(cpu) == parked.get(cpu).is_some_and(|parked| !parked)));
                prop_assert!((0..12).filter(|cpu| cpus.keeps_shared_time(*cpu)).count() <= 1);
            }
        }
    }
}
