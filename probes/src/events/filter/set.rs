//! Sets and removes the filters of events, as writing the file `filter` of tracefs does.

use super::super::fields;
use super::super::set::EventSet;
use super::{Filter, FilterError};
use crate::engine::Engine;
use crate::records::EventId;
use alloc::borrow::ToOwned;
use alloc::string::String;

impl EventSet {
    /// Writes an event's file `filter`. The text `0` removes the filter. A wrong filter is removed, too, as in Linux.
    pub fn write_filter(&mut self, engine: &mut Engine, event: EventId, text: &str) -> Result<(), FilterError> {
        let text = text.trim();
        let Some(format) = self.format(event) else { return Ok(()) };
        let layout = fields::layout(format);
        let parsed = match text {
            "0" => Ok(None),
            text => Filter::parse(text, format, engine.isa.word).map(Some),
        };
        if let Some(watched) = engine.state.watch.entry(event, || layout) {
            watched.filter = parsed.as_ref().ok().and_then(Clone::clone);
            watched.filter_text = watched.filter.is_some().then(|| text.to_owned());
        }
        self.mark_watched(engine, event);
        parsed.map(|_| ())
    }

    /// The text of an event's filter.
    pub fn filter_text(&self, engine: &Engine, event: EventId) -> Option<String> {
        engine.state.watch.get(event)?.filter_text.clone()
    }
}
