//! Soft mode: the probes of an event are armed for its triggers, or for an event that switches it, while its records are held
//! back.
//!
//! The state is in [`Watched`]: the number of triggers that need the hits, and whether records are held back. Linux calls it
//! soft mode, too, and shows it as a star in the file `enable`.

use crate::engine::Engine;
use crate::events::fields;
use crate::events::set::EventSet;
use crate::events::watch::Watched;
use crate::guest::Guest;
use crate::records::EventId;
use trapline_isa::plan::Refusal;

impl EventSet {
    /// Arms the probes of an event for one more trigger (`wanted`), or disarms them when the last trigger no longer needs
    /// them. Records of an event that is not enabled are held back meanwhile.
    pub(super) fn soften(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        wanted: bool,
    ) -> Result<(), Refusal> {
        let Some(format) = self.format(event) else { return Ok(()) };
        let layout = fields::layout(format);
        let is_armed = self.is_enabled(event);
        let Some(watched) = engine.state.watch.entry(event, || layout) else { return Ok(()) };
        if wanted {
            watched.soft_mode += 1;
            if watched.soft_mode == 1 && !is_armed {
                watched.soft_disabled = true;
                self.mark_watched(engine, event);
                if let Err(refusal) = self.arm(engine, guest, event, true) {
                    if let Some(watched) = engine.state.watch.get_mut(event) {
                        (watched.soft_mode, watched.soft_disabled) = (0, false);
                    }
                    self.mark_watched(engine, event);
                    return Err(refusal);
                }
            }
        } else {
            watched.soft_mode = watched.soft_mode.saturating_sub(1);
            if watched.soft_mode == 0 {
                let disarms = core::mem::take(&mut watched.soft_disabled);
                if disarms && is_armed {
                    self.arm(engine, guest, event, false)?;
                }
            }
        }
        self.mark_watched(engine, event);
        Ok(())
    }

    /// Sets in the probes of an event whether its hits need the slow path. Drops the event's entry if it has no effect.
    pub(in crate::events) fn mark_watched(&self, engine: &mut Engine, event: EventId) {
        if engine.state.watch.get(event).is_some_and(Watched::is_idle) {
            engine.state.watch.forget(event);
        }
        let is_watched = engine.state.watch.get(event).is_some();
        for member in self.members_of(event) {
            member.programs.set_watched(is_watched);
        }
    }

    /// Whether the event's hits leave records.
    pub fn is_switched_on(&self, engine: &Engine, event: EventId) -> bool {
        self.is_enabled(event) && engine.state.watch.get(event).is_none_or(|watched| !watched.soft_disabled)
    }

    /// The text of an event's file `enable`, without the newline: a star says that triggers keep the probes armed.
    pub fn enable_text(&self, engine: &Engine, event: EventId) -> &'static str {
        let soft = engine.state.watch.get(event).is_some_and(|watched| watched.soft_disabled || watched.soft_mode > 0);
        match (self.is_switched_on(engine, event), soft) {
            (true, false) => "1",
            (true, true) => "1*",
            (false, false) => "0",
            (false, true) => "0*",
        }
    }
}
