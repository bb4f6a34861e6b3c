//! The events of a run: they are defined before it, by commands in it, and when their module is loaded.

use super::Failure;
use super::event_error::Event;
use super::output::Paint;
use super::probe_row::Armed;
use crate::probed::Session;
use trapline_probes::events::set::{Attached, EventSet};

/// The events, with the times at which their probes were armed.
#[derive(Default)]
pub struct RunEvents {
    /// The events themselves.
    pub set: EventSet,
    /// The guest time at which each probe was first armed.
    pub armed: Armed,
    /// The number of probes of modules that could not be made.
    pub refused: usize,
}

impl RunEvents {
    /// Defines these events and enables them. `stacktrace` says whether their records have backtraces.
    pub fn define(session: &mut Session, events: &[Event], stacktrace: bool) -> Result<RunEvents, Failure> {
        let mut all = RunEvents::default();
        if stacktrace {
            all.set.leave_stacks(session.stacks());
        }
        let set = &mut all.set;
        session.with_engine(|engine, guest| {
            for event in events {
                set.carry_out(engine, guest, event.line.clone()).map_err(|error| event.failed(&error))?;
            }
            set.enable_all(engine, guest, true)
                .map_err(|refusal| Failure::failed(format!("a probe cannot be enabled: {refusal}")))
        })?;
        all.note_armed(session);
        Ok(all)
    }

    /// Notes the time of probes that are new.
    pub fn note_armed(&mut self, session: &Session) {
        let now = session.machine().now();
        for member in self.set.members().filter(|member| !matches!(member.probe, Attached::Pending)) {
            self.armed.entry((member.group().into(), member.name().into())).or_insert(now);
        }
    }

    /// Called when a module's init function is about to run: registers the probes that waited for the module.
    pub fn module_came(&mut self, session: &mut Session) {
        let set = &mut self.set;
        let refused = session.with_engine(|engine, guest| set.module_came(engine, guest));
        self.note_armed(session);
        for (event, error) in refused {
            let name = self.set.format(event).map_or("?", |format| &format.event);
            eprintln!("{} the probe {name} cannot be made: {error}", Paint::for_errors().error("error:"));
            self.refused += 1;
        }
    }
}
