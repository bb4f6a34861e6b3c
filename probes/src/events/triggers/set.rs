//! Triggers of an [`EventSet`]: writing and removing them. A trigger is a line of an event's file `trigger`.
//!
//! Histograms are in `triggers/hists.rs`, the arming of probes for triggers in `soft.rs`, and the listing in `show.rs`.

use super::error::{TriggerError, of_probe, refused};
use super::parse::{self, WrittenAction};
use super::{Action, Trigger, Watched as Watchpoint};
use crate::engine::Engine;
use crate::events::fields::{self, Kind};
use crate::events::filter::Filter;
use crate::events::format::Format;
use crate::events::hist::spec::Spec;
use crate::events::memory;
use crate::events::set::{Attached, EventSet, Member};
use crate::events::watch::Watch;
use crate::guest::Guest;
use crate::records::EventId;
use crate::unwind::Stacks;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::plan::Errno;

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

    /// Adds a trigger to an event, and arms its probes.
    pub(super) fn add_trigger(
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
    pub(super) fn remove_trigger(
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

impl Watch {
    /// The triggers of an event. Empty if it has none.
    pub(in crate::events) fn triggers(&self, event: EventId) -> &[Trigger] {
        self.get(event).map_or(&[], |watched| &watched.triggers)
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

/// The events of these members, each once.
pub(in crate::events) fn events_of(members: &[Member]) -> Vec<EventId> {
    let mut events: Vec<EventId> = members.iter().map(|member| member.event).collect();
    events.dedup();
    events
}
