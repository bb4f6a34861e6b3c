//! The parts of multiprocessing that are not in the scheduler `run.rs`: orders of the guest to start and stop CPUs, a
//! common clock for all CPUs, waiting loops (PAUSE, YIELD), and the lengths of turns.
//!
//! The CPUs take turns on one host thread (`run.rs`), so their own times differ by up to a turn. Timers and turns use a
//! CPU's own time. Clocks show the latest time that any CPU was shown, so that time never goes back for the guest.
//!
//! On boards whose CPUs all run from power-on, and on machines with one CPU, only the lengths of turns matter.
//!
//! The order and the lengths of turns can be drawn from a seed, on all boards. A draw depends on the seed and on the times
//! of the CPUs alone, so it is the same wherever a run is stopped, saved or probed.

use super::{Inner, Listener, StopReason};
use crate::boards::{At, Order};
use crate::clock::{Stopped, Ticks, ticks};
use crate::config::Draws;
use crate::cpu::Place;
use crate::unicorn::core_state::CoreState;

/// The longest time that one PAUSE or YIELD takes while all other CPUs sleep. The limit is small because some loops count
/// their rounds instead of waiting for another CPU.
const LONGEST_WAIT_NANOSECONDS: u64 = 1_000;

/// The length of a turn while another CPU waits, in nanoseconds.
const USUAL_TURN_NANOSECONDS: u64 = 5_000;
/// The upper bound of a drawn turn is the longest turn divided by 2 to the power of at most this number, so that some
/// turns are very short.
const MOST_HALVINGS: u32 = 6;

/// The state of the turns and of the common clock.
pub(crate) struct Turns {
    /// Whether the board parks CPUs, and so has several.
    parks: bool,
    /// The latest time that a clock has shown to any CPU.
    pub(super) latest: Ticks,
    /// The state of a CPU before an order sets its start address.
    start: CoreState,
    /// The seed and the longest turn, if order and lengths of turns are random.
    draws: Option<Draws>,
}

impl Turns {
    /// `parks` says whether all CPUs but the first wait until the guest starts them. `start` is the state of such a CPU.
    pub(super) fn new(parks: bool, start: CoreState, draws: Option<Draws>) -> Turns {
        Turns { parks, latest: 0, start, draws }
    }

    /// The length of the turn of a CPU that begins, or is shortened, at this time.
    pub(super) fn length(&self, cpu: usize, time: Ticks) -> Ticks {
        self.draws.map_or_else(|| ticks(USUAL_TURN_NANOSECONDS), |draws| drawn_length(draws, cpu, time))
    }

    /// The CPU whose turn is next, with the time at which it can execute. `ready` has that time for each CPU. `None` if no
    /// CPU can ever execute.
    pub(super) fn next(&self, ready: &[Option<Ticks>]) -> Option<(Ticks, usize)> {
        let first = first_of(ready)?;
        Some(self.draws.map_or(first, |draws| drawn_cpu(draws, ready, first)))
    }

    /// The time that a clock shows to a CPU whose own time is `time`.
    #[inline]
    pub(super) fn never_back(&mut self, time: Ticks) -> Ticks {
        if !self.parks {
            return time;
        }
        self.latest = self.latest.max(time);
        self.latest
    }
}

/// The CPU that is furthest behind in time, with that time. The lowest number decides between CPUs with equal times.
pub(super) fn first_of(ready: &[Option<Ticks>]) -> Option<(Ticks, usize)> {
    ready.iter().enumerate().filter_map(|(number, at)| at.map(|at| (at, number))).min()
}

/// One of the CPUs that are at most the longest turn ahead of the first one. So no CPU gets further ahead than two such
/// turns.
fn drawn_cpu(draws: Draws, ready: &[Option<Ticks>], first: (Ticks, usize)) -> (Ticks, usize) {
    let most = first.0.saturating_add(ticks(draws.longest));
    let near = || ready.iter().enumerate().filter_map(|(number, at)| at.filter(|at| *at <= most).map(|at| (at, number)));
    let seed = near().fold(draws.seed, |seed, (at, number)| mixed(seed ^ at ^ (number as u64) << 56));
    let count = near().count().max(1) as u64;
    near().nth((seed % count) as usize).unwrap_or(first)
}

fn drawn_length(draws: Draws, cpu: usize, time: Ticks) -> Ticks {
    let random = mixed(draws.seed ^ mixed(time) ^ (cpu as u64) << 48);
    let halvings = random.trailing_zeros().min(MOST_HALVINGS);
    1 + (random >> (MOST_HALVINGS + 1)) % (ticks(draws.longest) >> halvings).max(1)
}

/// The hash function SplitMix64: each bit of the result depends on all bits of `number`.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl<L: Listener> Inner<L> {
    /// Whether the running CPU has just been ordered to stop.
    pub(super) fn is_parked(&self) -> bool {
        self.cpus[self.view.current].parked
    }

    /// The running CPU's place on the board. The CPUs of a board that parks none report that they are alone.
    pub(super) fn place(&self) -> Place {
        let own_controller = self.board.has_own_controllers();
        match self.turns.parks {
            true => Place { number: self.view.current, cpus: self.cpus.len(), own_controller },
            false => Place { number: 0, cpus: 1, own_controller },
        }
    }

    /// Ends the turn early if an access has woken another CPU, or has set the time when it wakes.
    pub(super) fn shorten_turn(&mut self, at: At) {
        let current = self.view.current;
        if !self.turns.parks {
            if (0..self.cpus.len()).any(|other| other != current && self.board.pending(other).is_some()) {
                self.slice_end = self.slice_end.min(at.now + self.turns.length(current, at.now));
            }
            return;
        }
        for other in (0..self.cpus.len()).filter(|other| *other != current && !self.cpus[*other].parked) {
            let wakes = self.board.pending(other).map(|_| at.now).or_else(|| self.board.next_event(other));
            if let Some(wakes) = wakes {
                let from = wakes.max(at.now);
                self.slice_end = self.slice_end.min(from.saturating_add(self.turns.length(current, from)));
            }
        }
    }

    /// Does what the board has ordered.
    pub(super) fn obey_orders(&mut self, at: At) {
        if !self.turns.parks {
            return;
        }
        for order in self.board.orders() {
            match order {
                Order::Reset(cpu) => self.park(cpu),
                Order::Start { cpu, entry, argument } => self.start(cpu, entry, argument, at.now),
            }
        }
    }

    fn park(&mut self, number: usize) {
        let Some(cpu) = self.cpus.get_mut(number) else { return };
        cpu.parked = true;
        if number == self.view.current {
            self.stop_reason.get_or_insert(StopReason::Switch);
        }
    }

    fn start(&mut self, number: usize, entry: u64, argument: u64, now: Ticks) {
        let current = self.view.current;
        let Some(cpu) = self.cpus.get_mut(number).filter(|cpu| cpu.parked && number != current) else { return };
        cpu.state.copy_from(&self.turns.start);
        (self.view.model.entry.start.set)(&mut cpu.state, number, entry, argument);
        cpu.clock = Stopped { time: now.max(cpu.clock.time), goes_on_at: None };
        (cpu.fault_address, cpu.halted, cpu.frozen, cpu.parked) = (0, false, false, false);
        self.slice_end = self.slice_end.min(now.saturating_add(self.turns.length(current, now)));
    }

    /// The CPU executed PAUSE, YIELD or WFE, and continues at `pc`. Until its turn ends, only the board can change what it
    /// waits for, so time moves to the next event or the turn's end.
    pub(super) fn wait_for_others(&mut self, pc: u64) {
        let current = self.view.current;
        if !self.turns.parks || self.frozen || self.board.pending(current).is_some() {
            return;
        }
        let now = self.time_at(pc);
        let others_sleep = self.cpus.iter().enumerate().all(|(number, cpu)| number == current || cpu.parked || cpu.halted);
        let mut until = self.slice_end;
        if others_sleep {
            until = until.min(now.saturating_add(ticks(LONGEST_WAIT_NANOSECONDS)));
        }
        if let Some(event) = self.board.next_event(current) {
            until = until.min(event);
        }
        if until > now && until != Ticks::MAX {
            self.view.clock.add(until - now);
            self.look_soon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// CP-6: a drawn turn is not longer than asked for, has some length, and is drawn again alike.
        #[test]
        fn drawn_turns_are_bounded_and_repeat(seed in any::<u64>(), longest in 100u64..1_000_000, cpu in 0usize..8, time in 0u64..1 << 50) {
            let draws = Draws { seed, longest };
            let length = drawn_length(draws, cpu, time);
            prop_assert!(length >= 1 && length <= ticks(longest));
            prop_assert_eq!(length, drawn_length(draws, cpu, time));
        }

        /// CP-6: a drawn CPU can execute, and is not far ahead of the first one.
        #[test]
        fn a_drawn_cpu_can_execute_and_is_not_far_ahead(
            seed in any::<u64>(),
            ready in proptest::collection::vec(proptest::option::of(0u64..4_000_000), 1..8),
        ) {
            let draws = Draws { seed, longest: 20_000 };
            if let Some(first) = first_of(&ready) {
                let (at, number) = drawn_cpu(draws, &ready, first);
                prop_assert_eq!(ready[number], Some(at));
                prop_assert!(at <= first.0 + ticks(draws.longest));
            }
        }
    }

    /// CP-6: each CPU comes first for some seed, and turns have many lengths.
    #[test]
    fn seeds_draw_different_turns() {
        let ready = [Some(100), None, Some(90), Some(95)];
        let drawn = |seed| drawn_cpu(Draws { seed, longest: 20_000 }, &ready, (90, 2)).1;
        let cpus: std::collections::BTreeSet<usize> = (0..64).map(drawn).collect();
        assert_eq!(cpus.into_iter().collect::<Vec<_>>(), [0, 2, 3]);
        let lengths: Vec<Ticks> = (0..1000).map(|seed| drawn_length(Draws { seed, longest: 20_000 }, 0, 77)).collect();
        let shorter = |than: u64| lengths.iter().filter(|length| **length < ticks(than)).count();
        assert!(shorter(1_000) > 100 && shorter(10_000) > 500 && shorter(10_000) < 950, "{} {}", shorter(1_000), shorter(10_000));
    }
}
