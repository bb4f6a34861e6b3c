//! Probes in user programs, on the machine's side: passes the core's callbacks at probed instructions to the listener,
//! reports faults of programs, and has code translated again after the set of probed instructions changed.

use super::{Inner, Listener, Machine};
use crate::clock::nanoseconds;
use crate::cpu::mappings::MappingPlace;
use crate::cpu::user_places::{ARRIVAL, UserPlaces};
use crate::cpu::{Exception, Trap};

impl<L: Listener> Inner<L> {
    /// A program is about to execute an instruction that is observed.
    pub(super) fn user_instruction(&mut self, pc: u64, point: u32) {
        let (listener, view) = self.show(pc);
        view.as_program(|view| match point {
            ARRIVAL => listener.user_arrival(view),
            _ => listener.user_hit(view, point),
        });
        self.look_at_listener();
    }

    /// Checks a block start while a program is awaited at a return address whose page was not mapped, so that no probe point
    /// could be set there. Calls the listener if the program has arrived.
    #[cold]
    pub(super) fn look_for_awaited(&mut self, pc: u64) {
        let now = nanoseconds(self.view.clock.time());
        let is_back =
            !self.view.in_kernel() && self.view.user_places.as_mut().is_some_and(|places| places.takes_awaited(pc, now));
        if is_back {
            let (listener, view) = self.show(pc);
            view.as_program(|view| {
                view.add_arrival(pc);
                listener.user_arrival(view);
            });
            self.look_at_listener();
        }
        if !self.awaits_programs() {
            self.set_gate();
        }
    }

    #[inline]
    pub(super) fn awaits_programs(&self) -> bool {
        self.view.user_places.as_ref().is_some_and(|places| places.awaits())
    }

    /// Reports to the listener that an instruction of a program has faulted. The program may execute it again after the
    /// fault was handled, which must not count as a second hit.
    pub(super) fn note_user_fault(&mut self, trap: &Trap) {
        let Trap { exception: Exception { fetch, vector, .. }, resume, .. } = *trap;
        if !self.view.in_kernel() {
            // Not every CPU marks a fetch fault as one, so any fault at this pc counts.
            let (pc, now) = (resume & self.view.mask, nanoseconds(self.view.clock.time()));
            if self.view.user_places.as_mut().is_some_and(|places| places.faulted(pc, now)) {
                self.set_gate();
            }
        }
        // An instruction whose fetch faults was not hit yet.
        if fetch || Some(vector) == self.view.model.exceptions.system_call || self.view.in_kernel() {
            return;
        }
        let (listener, view) = self.show(resume);
        view.as_program(|view| listener.user_fault(view));
    }
}

impl<L: Listener> Machine<L> {
    /// Drops translated code if the set of observed instructions has changed. Called before the CPUs run.
    #[inline]
    pub(super) fn settle_user_code(&mut self) {
        if self.inner.view.user_places.is_some() {
            self.settle_user_places();
        }
    }

    #[cold]
    fn settle_user_places(&mut self) {
        let view = &mut self.inner.view;
        view.pc = (view.model.registers.pc)(&self.core.handle());
        if view.model.tasks.in_program.is_none() && view.in_kernel() {
            view.note_running_task();
        }
        if let Some(places) = &mut view.user_places
            && places.take_change()
        {
            self.core.ask_for_points(places.some());
        }
    }
}

/// The observed instructions, for changes between runs.
pub(super) fn places(places: &mut Option<Box<UserPlaces>>, mapping: Option<MappingPlace>) -> &mut UserPlaces {
    places.get_or_insert_with(|| Box::new(UserPlaces::new(mapping)))
}
