//! Triggers of an [`EventSet`]: writing, removing and listing them.

use super::super::fields::{self, Kind};
use super::super::filter::{Filter, FilterError};
use super::super::format::Format;
use super::super::hist::spec::{Change, Spec};
use super::super::hist::{Hist, HistCode, HistError, Lookup};
use super::super::memory;
use super::super::set::{Attached, EventSet};
use super::super::watch::{Watch, Watched};
use super::parse::{self, Written, WrittenAction};
use super::{Action, Trigger, Watched as Watchpoint};
use crate::engine::Engine;
use crate::guest::Guest;
use crate::records::EventId;
use crate::unwind::Stacks;
use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Errno, Refusal};

/// The largest number of histograms that may exist at a time.
const MOST_HISTS: usize = 1024;
/// The largest number of bytes that all histograms may take.
const MOST_BYTES: usize = 256 << 20;

/// A refused trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerError {
    /// Its filter is wrong.
    Filter {
        /// The text of the filter.
        text: String,
        /// The error in it.
        error: FilterError,
    },
    /// Its histogram is wrong.
    Hist(HistError),
    /// Another reason.
    Refused(Errno, Cow<'static, str>),
}

impl TriggerError {
    /// The errno that Linux returns.
    pub fn errno(&self) -> Errno {
        match self {
            TriggerError::Hist(HistError { code: HistCode::Exists, .. }) => Errno::EEXIST,
            TriggerError::Hist(HistError { code: HistCode::DoesNotExist, .. }) => Errno::ENOENT,
            TriggerError::Filter { .. } | TriggerError::Hist(_) => Errno::EINVAL,
            TriggerError::Refused(errno, _) => *errno,
        }
    }
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggerError::Filter { text, error } => write!(f, "the filter `{text}`: {error}"),
            TriggerError::Hist(error) => write!(f, "{}: {error}", self.errno().name()),
            TriggerError::Refused(errno, why) => write!(f, "{}: {why}", errno.name()),
        }
    }
}

impl core::error::Error for TriggerError {}

impl From<HistError> for TriggerError {
    fn from(error: HistError) -> Self {
        TriggerError::Hist(error)
    }
}

fn refused<T>(errno: Errno, why: impl Into<Cow<'static, str>>) -> Result<T, TriggerError> {
    Err(TriggerError::Refused(errno, why.into()))
}

fn of_probe(refusal: Refusal) -> TriggerError {
    TriggerError::Refused(refusal.errno, refusal.to_string().into())
}

impl EventSet {
    /// Gives the rule by which triggers and histograms find call chains.
    pub fn stacks_for_triggers(&mut self, engine: &mut Engine, stacks: Stacks) {
        self.know_stacks(stacks.rule.is_none());
        engine.state.watch.stacks = Some(Arc::new(stacks));
    }

    /// Executes a line of an event's file `trigger`.
    pub fn write_trigger(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        text: &str,
    ) -> Result<(), TriggerError> {
        let written = parse::line(text).or_else(|why| refused(Errno::EINVAL, why))?;
        let Some(format) = self.format(event).cloned() else { return refused(Errno::ENODEV, "the event is gone") };
        let word = engine.isa.word;
        let filter = match written.filter {
            Some(text) => {
                Some(Filter::parse(text, &format, word).map_err(|error| TriggerError::Filter { text: text.to_owned(), error })?)
            }
            None => None,
        };
        let action = match written.action {
            WrittenAction::Hist(text) => {
                let (spec, change) = Spec::parse(text, &format, word)?;
                return self.write_hist(engine, guest, event, (&written, filter), (spec, change));
            }
            WrittenAction::Record(on) => Action::Record(on),
            WrittenAction::Stack => Action::Stack,
            WrittenAction::Snapshot => Action::Snapshot,
            WrittenAction::Watch { sets, event: watched, place } => {
                self.watch_action(&format, word, (sets, watched, place)).or_else(|why| refused(Errno::EINVAL, why))?
            }
            WrittenAction::Switch { hist, enable, group, event } => {
                let Some(other) = self.find(group, event) else {
                    let why = format!("there is no event {group}/{event}");
                    return refused(Errno::EINVAL, why);
                };
                let name = (group.to_owned(), event.to_owned());
                match hist {
                    true => Action::SwitchHist { event: other, name, enable },
                    false => Action::Switch { event: other, name, enable },
                }
            }
        };
        if written.removes {
            return self.remove_trigger(engine, guest, event, |trigger| trigger.action.clashes(&action));
        }
        if engine.state.watch.triggers(event).iter().any(|trigger| trigger.action.clashes(&action)) {
            return refused(Errno::EEXIST, "the event has such a trigger already: a line that begins with '!' removes it");
        }
        if let Action::Switch { event: other, .. } | Action::Watch { event: other, sets: true, .. } = &action {
            self.soften(engine, guest, *other, true).map_err(of_probe)?;
        }
        let filter_text = written.filter.map(str::to_owned);
        let trigger = Trigger { action, count: written.count, filter, filter_text, is_due: false, is_paused: false };
        self.add_trigger(engine, guest, event, trigger)
    }

    /// The action of `set_wprobe` and `clear_wprobe`. The error says what to write instead.
    fn watch_action(
        &self,
        format: &Format,
        word: usize,
        (sets, watched, place): (bool, &str, Option<(&str, i64)>),
    ) -> Result<Action, String> {
        let (group, name) = watched.split_once('/').unwrap_or((memory::GROUP, watched));
        let event = self.find(group, name).ok_or_else(|| format!("there is no watch event {group}/{name}"))?;
        let mut members = self.members_of(event);
        let watchpoint = match (members.next().map(|member| &member.probe), members.next()) {
            (Some(Attached::Watchpoint(watchpoint)), None) => Watchpoint(watchpoint.clone()),
            (_, Some(_)) => {
                return Err(format!("the event {group}/{name} has several probes: name an event with one watchpoint"));
            }
            _ => return Err(format!("{group}/{name} is no watch event: make one that begins nowhere, `w:{name} w@-1:8`")),
        };
        let place = place.map(|(field, offset)| match fields::find(field, format, word) {
            Some(found) if matches!(found.kind, Kind::Number { .. }) => Ok((found, offset)),
            Some(_) => Err(format!("the field '{field}' is no number, so it holds no address")),
            None => Err(format!("the event {} has no field '{field}'", format.event)),
        });
        Ok(Action::Watch { event, name: (group.to_owned(), name.to_owned()), watchpoint, place: place.transpose()?, sets })
    }

    fn add_trigger(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        trigger: Trigger,
    ) -> Result<(), TriggerError> {
        self.soften(engine, guest, event, true).map_err(of_probe)?;
        if let Some(watched) = engine.state.watch.get_mut(event) {
            watched.triggers.push(trigger);
        }
        engine.state.watch.refresh(event);
        Ok(())
    }

    /// Removes the first trigger of this kind. It is no error if there is none, as in Linux.
    fn remove_trigger(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        is_meant: impl Fn(&Trigger) -> bool,
    ) -> Result<(), TriggerError> {
        let Some(watched) = engine.state.watch.get_mut(event) else { return Ok(()) };
        let Some(place) = watched.triggers.iter().position(is_meant) else { return Ok(()) };
        let trigger = watched.triggers.remove(place);
        engine.state.watch.refresh(event);
        if let Action::Hist(number) = trigger.action {
            engine.state.watch.release(number);
        }
        if let Action::Watch { watchpoint, sets: true, .. } = &trigger.action {
            engine.state.moves.ask(&watchpoint.0, None, false);
        }
        if let Action::Switch { event: other, .. } | Action::Watch { event: other, sets: true, .. } = trigger.action {
            self.soften(engine, guest, other, false).map_err(of_probe)?;
        }
        self.soften(engine, guest, event, false).map_err(of_probe)
    }

    /// Removes all histograms of an event, as opening its file `trigger` for writing from the start does.
    pub fn clear_hists(&mut self, engine: &mut Engine, guest: &mut dyn Guest, event: EventId) -> Result<(), TriggerError> {
        while engine.state.watch.triggers(event).iter().any(|trigger| matches!(trigger.action, Action::Hist(_))) {
            self.remove_trigger(engine, guest, event, |trigger| matches!(trigger.action, Action::Hist(_)))?;
        }
        Ok(())
    }

    /// Executes a line with `hist`: adds a trigger, or changes or removes an existing one. The line means a trigger if its name,
    /// keys, values and sort fields are those of the trigger's histogram, and its filter is that of the trigger.
    fn write_hist(
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

    /// The lines of an event's triggers. Empty if it has none.
    pub fn triggers_text(&self, engine: &Engine, event: EventId) -> String {
        let watch = &engine.state.watch;
        watch.triggers(event).iter().map(|trigger| trigger.shown(watch) + "\n").collect()
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

    /// Arms the probes of an event for triggers, or no longer needs that. Records are held back meanwhile.
    fn soften(&mut self, engine: &mut Engine, guest: &mut dyn Guest, event: EventId, wanted: bool) -> Result<(), Refusal> {
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

    /// Drops the filters and triggers of events that no longer exist.
    pub(in crate::events) fn forget_watched(&self, engine: &mut Engine, events: &[EventId]) {
        for event in events {
            let exists = self.format(*event).is_some_and(|format| self.find(&format.group, &format.event) == Some(*event));
            if exists {
                continue;
            }
            let Some(watched) = engine.state.watch.forget(*event) else { continue };
            for trigger in watched.triggers {
                if let Action::Hist(number) = trigger.action {
                    engine.state.watch.release(number);
                }
            }
        }
    }
}

impl Action {
    /// Whether an event can have only one of the two.
    fn clashes(&self, other: &Action) -> bool {
        match (self, other) {
            (Action::Record(_), Action::Record(_)) | (Action::Stack, Action::Stack) | (Action::Snapshot, Action::Snapshot) => {
                true
            }
            (Action::Switch { event, .. }, Action::Switch { event: other, .. })
            | (Action::SwitchHist { event, .. }, Action::SwitchHist { event: other, .. }) => event == other,
            (Action::Watch { event, place, sets, .. }, Action::Watch { event: other, place: there, sets: too, .. }) => {
                event == other && place == there && sets == too
            }
            _ => false,
        }
    }
}

impl Trigger {
    /// The line in the form that the file `trigger` shows.
    fn shown(&self, watch: &Watch) -> String {
        let mut text = match &self.action {
            Action::Record(true) => "traceon".to_owned(),
            Action::Record(false) => "traceoff".to_owned(),
            Action::Stack => "stacktrace".to_owned(),
            Action::Snapshot => "snapshot".to_owned(),
            Action::Switch { name: (group, event), enable, .. } => {
                format!("{}:{group}:{event}", if *enable { "enable_event" } else { "disable_event" })
            }
            Action::SwitchHist { name: (group, event), enable, .. } => {
                format!("{}:{group}:{event}", if *enable { "enable_hist" } else { "disable_hist" })
            }
            Action::Watch { name: (group, event), place, sets, .. } => {
                let command = if *sets { "set_wprobe" } else { "clear_wprobe" };
                let group = if group == memory::GROUP { String::new() } else { format!("{group}/") };
                let place = match place {
                    None => String::new(),
                    Some((field, 0)) => format!(":{}", field.name),
                    Some((field, offset)) => format!(":{}{offset:+}", field.name),
                };
                format!("{command}:{group}{event}{place}")
            }
            Action::Hist(number) => match watch.hists.get(*number) {
                Some(Some(hist)) => hist.spec.to_string(),
                _ => String::new(),
            },
        };
        match (&self.action, self.count) {
            (Action::Hist(_), _) => {}
            (_, None) => text.push_str(":unlimited"),
            (_, Some(count)) => text.push_str(&format!(":count={count}")),
        }
        if let Some(filter) = &self.filter_text {
            text.push_str(" if ");
            text.push_str(filter);
        }
        if let Action::Hist(_) = self.action {
            text.push_str(if self.is_paused { " [paused]" } else { " [active]" });
        }
        text
    }
}

impl Watch {
    pub(in crate::events) fn triggers(&self, event: EventId) -> &[Trigger] {
        self.get(event).map_or(&[], |watched| &watched.triggers)
    }

    /// The histogram of this name that exists already.
    fn named(&self, spec: &Spec) -> Option<usize> {
        let name = spec.name.as_ref()?;
        self.hists.iter().position(|hist| hist.as_ref().is_some_and(|hist| hist.spec.name.as_ref() == Some(name)))
    }

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
    fn release(&mut self, number: usize) {
        let Some(place) = self.hists.get_mut(number) else { return };
        if let Some(hist) = place {
            hist.users = hist.users.saturating_sub(1);
            if hist.users == 0 {
                *place = None;
            }
        }
    }

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

    /// Notes whether a trigger of the event needs the call chain.
    fn refresh(&mut self, event: EventId) {
        let needs = self.triggers(event).iter().any(|trigger| match trigger.action {
            Action::Stack => true,
            Action::Hist(number) => {
                self.hists.get(number).is_some_and(|hist| hist.as_ref().is_some_and(|hist| hist.spec.needs_stack()))
            }
            _ => false,
        });
        if let Some(watched) = self.get_mut(event) {
            watched.needs_stack = needs;
        }
    }
}

impl Watched {
    fn pause(&mut self, paused: bool) {
        for trigger in &mut self.triggers {
            if let Action::Hist(_) = trigger.action {
                trigger.is_paused = paused;
            }
        }
    }
}

/// The events of these members, each once.
pub(in crate::events) fn events_of(members: &[super::super::set::Member]) -> Vec<EventId> {
    let mut events: Vec<EventId> = members.iter().map(|member| member.event).collect();
    events.dedup();
    events
}
