//! Programs that run at hits, such as compiled scripts. The engine knows of them only the trait [`HitProgram`].
//!
//! The handlers of a probe are shared, so they cannot change state of their own without a lock. A program can: the
//! engine owns it and lends it to one hit at a time. [`Engine::add_program`] takes a program in. Its handlers reach it
//! by its [`ProgramId`] through [`Hit::run_program`], [`Hit::collect`] and [`ReturnHit::run_program`].

use crate::context::{Hit, ReturnHit};
use crate::engine::Engine;
use crate::probe::Flow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// A program that handlers of probes run. `part` is the number of the piece to run. The program has chosen it when its
/// probes were made.
pub trait HitProgram: Any + Send {
    /// Runs a part at a hit. While it runs, the engine does not hold the program, so a nested hit does not reach it.
    fn at_hit(&mut self, part: u64, hit: &mut Hit<'_>) -> Flow;
    /// Runs a part at the return of a followed call.
    fn at_return(&mut self, part: u64, hit: &mut ReturnHit<'_>);
    /// Takes one value at a hit. This is quicker than `at_hit`, for parts that need nothing else of the hit.
    fn collect(&mut self, part: u64, value: u64);
}

/// The number of a program in its engine. It is never given to another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(usize);

/// All programs of an engine.
#[derive(Default)]
pub(crate) struct Programs {
    /// `None` while the program runs, or while the user has taken it.
    places: Vec<Option<Box<dyn HitProgram>>>,
    /// A program has asked the run to end.
    has_ended: bool,
}

impl Programs {
    #[inline]
    fn get(&mut self, id: ProgramId) -> Option<&mut dyn HitProgram> {
        Some(&mut **self.places.get_mut(id.0)?.as_mut()?)
    }

    #[inline]
    fn take(&mut self, id: ProgramId) -> Option<Box<dyn HitProgram>> {
        self.places.get_mut(id.0)?.take()
    }

    #[inline]
    fn give_back(&mut self, id: ProgramId, program: Box<dyn HitProgram>) {
        if let Some(place) = self.places.get_mut(id.0) {
            *place = Some(program);
        }
    }
}

impl Engine {
    /// Adds a program. Its id never changes, and the engine keeps the program as long as it exists.
    pub fn add_program(&mut self, program: Box<dyn HitProgram>) -> ProgramId {
        let places = &mut self.state.programs.places;
        places.push(Some(program));
        ProgramId(places.len() - 1)
    }

    /// A program by its id. `None` while it runs or is taken out.
    pub fn program(&mut self, id: ProgramId) -> Option<&mut dyn HitProgram> {
        self.state.programs.get(id)
    }

    /// Takes a program out, so that it can run outside of a hit. Until it is back, its handlers do nothing.
    pub fn take_program(&mut self, id: ProgramId) -> Option<Box<dyn HitProgram>> {
        self.state.programs.take(id)
    }

    /// Puts a program back that [`Engine::take_program`] took out.
    pub fn give_program_back(&mut self, id: ProgramId, program: Box<dyn HitProgram>) {
        self.state.programs.give_back(id, program);
    }

    /// Whether a program has called [`Hit::end_run`] since the last call of this function. The caller then stops the
    /// machine.
    pub fn take_program_end(&mut self) -> bool {
        core::mem::take(&mut self.state.programs.has_ended)
    }
}

impl Hit<'_> {
    /// Runs a part of a program. Does nothing if the program is running already or has been taken out.
    #[inline]
    pub fn run_program(&mut self, id: ProgramId, part: u64) -> Flow {
        let Some(mut program) = self.programs().take(id) else { return Flow::Continue };
        let flow = program.at_hit(part, self);
        self.programs().give_back(id, program);
        flow
    }

    /// Gives a program one value. Does nothing if the program is running already or has been taken out.
    #[inline]
    pub fn collect(&mut self, id: ProgramId, part: u64, value: u64) {
        if let Some(program) = self.programs().get(id) {
            program.collect(part, value);
        }
    }

    /// Asks whoever runs the machine to end the run behind this hit.
    pub fn end_run(&mut self) {
        self.programs().has_ended = true;
        self.machine().look_soon();
    }
}

impl ReturnHit<'_> {
    /// Runs a part of a program at this return. Does nothing if the program is running already or has been taken out.
    #[inline]
    pub fn run_program(&mut self, id: ProgramId, part: u64) {
        let Some(mut program) = self.programs().take(id) else { return };
        program.at_return(part, self);
        self.programs().give_back(id, program);
    }
}
