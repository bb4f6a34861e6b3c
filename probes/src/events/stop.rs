//! Stops the run at a hit of an event, for actions on the whole guest, such as a core dump.

use super::fields;
use super::set::EventSet;
use crate::engine::Engine;
use crate::records::EventId;

impl EventSet {
    /// Ends the run behind the next hit of this event whose record passes the event's filter, once. Returns false if
    /// there is no such event.
    pub fn stop_at_hit(&mut self, engine: &mut Engine, event: EventId) -> bool {
        let Some(format) = self.format(event) else { return false };
        let layout = fields::layout(format);
        let Some(watched) = engine.state.watch.entry(event, || layout) else { return false };
        watched.stops = true;
        self.mark_watched(engine, event);
        true
    }

    /// The event whose hit has ended the run, once. From then on the event stops nothing.
    pub fn take_stop(&mut self, engine: &mut Engine) -> Option<EventId> {
        let event = engine.state.watch.take_stopped()?;
        self.mark_watched(engine, event);
        Some(event)
    }
}
