//! Triggers: actions at a hit of an event, each with a count and a filter of its own (`traceoff:3 if count > 4`).
//!
//! [`parse`] reads a line of the file `trigger`. At a hit `events/watch.rs` asks each trigger's filter and fires it.

mod error;
mod hists;
pub mod parse;
mod set;
mod show;
mod soft;
#[cfg(test)]
mod tests;

pub use error::TriggerError;
pub(super) use set::events_of;

use super::fields::{FieldRef, Sample};
use super::filter::Filter;
use super::watch::{Effects, Watch};
use crate::records::EventId;
use crate::watch::{Asked, Moves, Watchpoint};
use alloc::string::String;

/// A trigger of an event.
#[derive(Debug)]
pub(super) struct Trigger {
    /// The action when the trigger fires.
    pub action: Action,
    /// The number of times that it may still fire. `None` is no limit.
    pub count: Option<u64>,
    /// The filter that the record must pass.
    pub filter: Option<Filter>,
    /// The filter as it was written, for the file `trigger`.
    pub filter_text: Option<String>,
    /// Whether the trigger fires behind the record of the present hit.
    pub is_due: bool,
    /// Whether the trigger is a histogram that does not count at present.
    pub is_paused: bool,
}

/// The action of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// `traceon` or `traceoff`.
    Record(bool),
    /// `stacktrace`
    Stack,
    /// `snapshot`
    Snapshot,
    /// `enable_event` or `disable_event`.
    Switch {
        /// The event that is switched.
        event: EventId,
        /// Its group and its name.
        name: (String, String),
        /// True for `enable_event`.
        enable: bool,
    },
    /// `hist`: the number of its histogram.
    Hist(usize),
    /// `enable_hist` or `disable_hist`.
    SwitchHist {
        /// The event whose histograms are switched.
        event: EventId,
        /// Its group and its name.
        name: (String, String),
        /// True for `enable_hist`: the histograms continue to count.
        enable: bool,
    },
    /// `set_wprobe` or `clear_wprobe`.
    Watch {
        /// The watch event that is set or cleared.
        event: EventId,
        /// Its group and its name.
        name: (String, String),
        /// The watchpoint of that event.
        watchpoint: Watched,
        /// The field that holds the address, and the distance from there. `None` clears the event at all addresses.
        place: Option<(FieldRef, i64)>,
        /// Whether it is set.
        sets: bool,
    },
}

/// The watchpoint of a watch event. Two are equal if they are the same one.
#[derive(Clone, Debug)]
pub(super) struct Watched(pub Watchpoint);

impl PartialEq for Watched {
    fn eq(&self, other: &Watched) -> bool {
        self.0.is(&other.0)
    }
}

impl Eq for Watched {}

impl Trigger {
    /// Whether it fires behind the record: so the record that stops the recording is still in the trace.
    pub fn is_late(&self) -> bool {
        matches!(self.action, Action::Record(false) | Action::Stack)
    }

    /// Fires in front of the record. `own` is the event that was hit, with its soft switch.
    pub fn fire(
        &mut self,
        sample: &Sample<'_>,
        (watch, moves): (&mut Watch, &mut Moves),
        effects: &mut Effects,
        own: (EventId, &mut bool),
    ) {
        if self.count == Some(0) {
            return;
        }
        let has_effect = match &self.action {
            // Nothing is counted where there is nothing to switch on.
            Action::Record(true) => {
                effects.switch = Some(true);
                !effects.recording
            }
            Action::Snapshot => {
                effects.snapshot = true;
                true
            }
            Action::Switch { event, enable, .. } if *event == own.0 => core::mem::replace(own.1, !*enable) == *enable,
            Action::Switch { event, enable, .. } => watch.switch(*event, *enable),
            Action::Hist(number) => {
                if let Some(Some(hist)) = watch.hists.get_mut(*number) {
                    hist.take(sample);
                }
                false
            }
            Action::SwitchHist { event, enable, .. } => {
                watch.pause(*event, !*enable);
                true
            }
            Action::Watch { event, watchpoint, place, sets, .. } => {
                let address = place.as_ref().map(|(field, offset)| sample.number(field).wrapping_add_signed(*offset));
                let asked = moves.ask(&watchpoint.0, address, *sets);
                effects.moved |= asked == Asked::Waits;
                if *sets {
                    watch.switch(*event, true);
                }
                asked == Asked::Waits
            }
            Action::Record(false) | Action::Stack => false,
        };
        if has_effect {
            self.count_down();
        }
    }

    /// Fires behind the record.
    pub fn fire_late(&mut self, effects: &mut Effects) {
        if self.count == Some(0) {
            return;
        }
        match self.action {
            // Nothing is counted where there is nothing to switch off.
            Action::Record(false) if effects.recording => {
                (effects.recording, effects.switch) = (false, Some(false));
            }
            Action::Stack => effects.stack = effects.recording,
            _ => return,
        }
        self.count_down();
    }

    fn count_down(&mut self) {
        if let Some(count) = &mut self.count {
            *count = count.saturating_sub(1);
        }
    }
}
