//! Several CPUs that the guest starts one after the other: orders to start and stop them, the time that they read from
//! clocks, and waiting loops.
//!
//! The CPUs take turns on one host thread (`run.rs`), so their own times differ by up to a turn. Timers and turns use a
//! CPU's own time. Clocks show the latest time that any CPU was shown, so that time never goes back for the guest.
//!
//! Boards whose CPUs all run from the beginning, and machines with one CPU, have none of this.

use super::{Inner, Listener, Wish, slice};
use crate::boards::{At, Order};
use crate::clock::{Stopped, Ticks, ticks};
use crate::cpu::Place;
use crate::unicorn::surgery::CoreState;

/// The longest wait of an instruction in a waiting loop while all other CPUs sleep. A loop that counts its rounds ends
/// soon with this limit.
const LONGEST_WAIT_NANOSECONDS: u64 = 1_000;

/// The state of several CPUs that are started one after the other.
pub(crate) struct Turns {
    /// Whether the board parks CPUs, and so has several.
    parks: bool,
    /// The latest time that a clock has shown to any CPU.
    pub(super) latest: Ticks,
    /// The state of a CPU before an order sets its start address.
    start: CoreState,
}

impl Turns {
    /// For a board that parks CPUs or does not.
    pub(super) fn new(parks: bool, start: CoreState) -> Turns {
        Turns { parks, latest: 0, start }
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
                self.slice_end = self.slice_end.min(at.now + slice());
            }
            return;
        }
        for other in (0..self.cpus.len()).filter(|other| *other != current && !self.cpus[*other].parked) {
            let wakes = self.board.pending(other).map(|_| at.now).or_else(|| self.board.next_event(other));
            if let Some(wakes) = wakes {
                self.slice_end = self.slice_end.min(wakes.max(at.now).saturating_add(slice()));
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
            self.wish.get_or_insert(Wish::Switch);
        }
    }

    fn start(&mut self, number: usize, entry: u64, argument: u64, now: Ticks) {
        let current = self.view.current;
        let Some(cpu) = self.cpus.get_mut(number).filter(|cpu| cpu.parked && number != current) else { return };
        cpu.state.copy_from(&self.turns.start);
        (self.view.model.entry.start.set)(&mut cpu.state, entry, argument);
        cpu.clock = Stopped { time: now.max(cpu.clock.time), goes_on_at: None };
        (cpu.fault_address, cpu.halted, cpu.frozen, cpu.parked) = (0, false, false, false);
        self.slice_end = self.slice_end.min(now.saturating_add(slice()));
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
