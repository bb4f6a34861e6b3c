//! Triggers that count hits in a histogram (`hist:...`): adding, changing, removing and printing them.
//!
//! Each such trigger uses a histogram of [`Watch`] by its number. Histograms with one name are shared by triggers of several
//! events, and the last trigger frees its histogram. Their number and their memory are limited.

use super::error::{TriggerError, refused};
use super::parse::Written;
use super::{Action, Trigger};
use crate::engine::Engine;
use crate::events::filter::Filter;
use crate::events::hist::spec::{Change, Spec};
use crate::events::hist::{Hist, HistCode, HistError, Lookup};
use crate::events::set::EventSet;
use crate::events::watch::{Watch, Watched};
use crate::guest::Guest;
use crate::records::EventId;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::Errno;

/// The largest number of histograms that may exist at a time.
const MOST_HISTS: usize = 1024;
/// The largest number of bytes that all histograms may take.
const MOST_BYTES: usize = 256 << 20;

impl EventSet {
    /// Removes all histograms of an event, as opening its file `trigger` for writing from the start does.
    pub fn clear_hists(&mut self, engine: &mut Engine, guest: &mut dyn Guest, event: EventId) -> Result<(), TriggerError> {
        while engine.state.watch.triggers(event).iter().any(|trigger| matches!(trigger.action, Action::Hist(_))) {
            self.remove_trigger(engine, guest, event, |trigger| matches!(trigger.action, Action::Hist(_)))?;
        }
        Ok(())
    }

    /// Executes a line with `hist`: adds a trigger, or changes or removes an existing one. The line means a trigger if its name,
    /// keys, values and sort fields are those of the trigger's histogram, and its filter is that of the trigger.
    pub(super) fn write_hist(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        (written, filter): (&Written<'_>, Option<Filter>),
        (spec, change): (Spec, Option<Change>),
    ) -> Result<(), TriggerError> {
        let watch = &mut engine.state.watch;
        let named = watch.named(&spec);
        let is_meant = |watch: &Watch, trigger: &Trigger| {
            let Action::Hist(number) = trigger.action else { return false };
            let Some(Some(hist)) = watch.hists.get(number) else { return false };
            let same_name = match named {
                Some(named) => named == number,
                None => hist.spec.name.is_none(),
            };
            same_name && hist.spec.counts_as(&spec) && trigger.filter_text.as_deref() == written.filter
        };
        let place = watch.triggers(event).iter().position(|trigger| is_meant(watch, trigger));
        if written.removes {
            let Some(place) = place else { return Ok(()) };
            let counter = core::cell::Cell::new(0);
            return self.remove_trigger(engine, guest, event, |_| {
                counter.set(counter.get() + 1);
                counter.get() == place + 1
            });
        }
        if let (Some(change), Some(place)) = (change, place) {
            watch.change(event, place, change);
            return Ok(());
        }
        if let Some(Some(hist)) = named.and_then(|number| watch.hists.get(number))
            && !hist.spec.counts_as(&spec)
        {
            return Err(HistError { code: HistCode::NamedMismatch, about: spec.name.unwrap_or_default() }.into());
        }
        if place.is_some() {
            return Err(HistError { code: HistCode::Exists, about: String::new() }.into());
        }
        if matches!(change, Some(Change::Continue | Change::Clear)) {
            return Err(HistError { code: HistCode::DoesNotExist, about: String::new() }.into());
        }
        let order = engine.isa.order;
        let number = match named {
            Some(number) => number,
            None => match watch.add_hist(spec, order) {
                Some(number) => number,
                None => {
                    return refused(Errno::ENOMEM, "the histograms would take more than 256 MiB: remove some, or give a size");
                }
            },
        };
        if let Some(Some(hist)) = watch.hists.get_mut(number) {
            hist.users += 1;
        }
        let filter_text = written.filter.map(str::to_owned);
        let is_paused = change == Some(Change::Pause);
        let trigger = Trigger { action: Action::Hist(number), count: None, filter, filter_text, is_due: false, is_paused };
        self.add_trigger(engine, guest, event, trigger)
    }

    /// The text of an event's file `hist`: all its histograms.
    pub fn hist_text(&self, engine: &Engine, event: EventId, lookup: &Lookup<'_>) -> String {
        let watch = &engine.state.watch;
        let mut text = String::new();
        for trigger in watch.triggers(event) {
            let Action::Hist(number) = trigger.action else { continue };
            let Some(Some(hist)) = watch.hists.get(number) else { continue };
            text.push_str(if text.is_empty() { "" } else { "\n\n" });
            text.push_str("# event histogram\n#\n# trigger info: ");
            text.push_str(&trigger.shown(watch));
            text.push_str("\n#\n\n");
            hist.write(&mut text, lookup);
        }
        text
    }
}

impl Watch {
    /// The histogram of this name that exists already.
    fn named(&self, spec: &Spec) -> Option<usize> {
        let name = spec.name.as_ref()?;
        self.hists.iter().position(|hist| hist.as_ref().is_some_and(|hist| hist.spec.name.as_ref() == Some(name)))
    }

    /// Makes a histogram and returns its number. `None` if there are too many, or they would take too much memory.
    fn add_hist(&mut self, spec: Spec, order: ByteOrder) -> Option<usize> {
        let number = self.hists.iter().position(Option::is_none).unwrap_or(self.hists.len());
        let taken: usize = self.hists.iter().flatten().map(|hist| hist.spec.bytes()).sum();
        if number >= MOST_HISTS || taken + spec.bytes() > MOST_BYTES {
            return None;
        }
        if number == self.hists.len() {
            self.hists.push(None);
        }
        *self.hists.get_mut(number)? = Some(Box::new(Hist::new(spec, order)));
        Some(number)
    }

    /// A trigger no longer uses the histogram.
    pub(super) fn release(&mut self, number: usize) {
        let Some(place) = self.hists.get_mut(number) else { return };
        if let Some(hist) = place {
            hist.users = hist.users.saturating_sub(1);
            if hist.users == 0 {
                *place = None;
            }
        }
    }

    /// Applies a change to the histogram of the trigger at this place of the event's list.
    fn change(&mut self, event: EventId, place: usize, change: Change) {
        let Some(trigger) = self.get_mut(event).and_then(|watched| watched.triggers.get_mut(place)) else { return };
        match (change, &trigger.action) {
            (Change::Pause, _) => trigger.is_paused = true,
            (Change::Continue, _) => trigger.is_paused = false,
            (Change::Clear, Action::Hist(number)) => {
                let number = *number;
                if let Some(Some(hist)) = self.hists.get_mut(number) {
                    hist.clear();
                }
            }
            (Change::Clear, _) => {}
        }
    }

    /// Pauses or continues all histograms of an event.
    pub(super) fn pause(&mut self, event: EventId, paused: bool) {
        if let Some(watched) = self.get_mut(event) {
            watched.pause(paused);
        }
    }
}

impl Watched {
    /// Pauses or continues the histograms of the event.
    fn pause(&mut self, paused: bool) {
        for trigger in &mut self.triggers {
            if let Action::Hist(_) = trigger.action {
                trigger.is_paused = paused;
            }
        }
    }
}
