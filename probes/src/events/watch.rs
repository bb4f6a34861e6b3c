//! The filters and triggers of events at a hit. Events without them never come here: their probes' handlers ask one flag
//! in [`Programs`].

use super::fetch::Programs;
use super::fields::{Layout, Sample};
use super::filter::Filter;
use super::format::put_stack;
use super::hist::Hist;
use super::triggers::Trigger;
use crate::context::{EngineState, Frame, Hit};
use crate::records::{EventId, Header};
use crate::unwind::Stacks;
use crate::watch::Access;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The event number of records that hold only a call chain: those of the trigger `stacktrace`.
pub const KERNEL_STACK: EventId = EventId(u32::MAX);
/// The event number of the marks that the trigger `snapshot` leaves between the records.
pub const SNAPSHOT: EventId = EventId(u32::MAX - 1);

/// The filters and triggers of all events.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The filter and triggers of each event, indexed by its number. `None` for an event without any, and during a hit of it.
    events: Vec<Option<Box<Watched>>>,
    /// Histograms by their number; several triggers may share one.
    pub(super) hists: Vec<Option<Box<Hist>>>,
    /// The unwinder for the call chains that triggers need.
    pub(super) stacks: Option<Arc<Stacks>>,
    /// The event whose hit has ended the run.
    stopped: Option<EventId>,
}

/// The filter and the triggers of an event.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The encoding of the event's values.
    pub layout: Layout,
    /// The filter. `None` lets all records pass.
    pub filter: Option<Filter>,
    /// The text of the filter's file.
    pub filter_text: Option<String>,
    /// The triggers in the order in which they were written.
    pub triggers: Vec<Trigger>,
    /// Whether records are held back although the probes are armed.
    pub soft_disabled: bool,
    /// The number of users that keep the probes armed: the event's own triggers as one, and triggers that switch it.
    pub soft_mode: u32,
    /// Whether a trigger needs the call chain.
    pub needs_stack: bool,
    /// Whether the next record ends the run.
    pub stops: bool,
}

impl Watched {
    /// Whether the entry has no effect, so that it may be dropped.
    pub fn is_idle(&self) -> bool {
        self.filter.is_none() && self.triggers.is_empty() && self.soft_mode == 0 && !self.soft_disabled && !self.stops
    }
}

impl Watch {
    pub(super) fn get(&self, event: EventId) -> Option<&Watched> {
        self.events.get(event.0 as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, event: EventId) -> Option<&mut Watched> {
        self.events.get_mut(event.0 as usize)?.as_deref_mut()
    }

    /// The event's entry, which is made if it does not exist. `None` for the numbers of marks.
    pub(super) fn entry(&mut self, event: EventId, layout: impl FnOnce() -> Layout) -> Option<&mut Watched> {
        if event == KERNEL_STACK || event == SNAPSHOT {
            return None;
        }
        let number = event.0 as usize;
        if self.events.len() <= number {
            self.events.resize_with(number + 1, || None);
        }
        let place = self.events.get_mut(number)?;
        Some(place.get_or_insert_with(|| Box::new(Watched { layout: layout(), ..Watched::default() })))
    }

    pub(super) fn forget(&mut self, event: EventId) -> Option<Box<Watched>> {
        self.events.get_mut(event.0 as usize)?.take()
    }

    pub(super) fn take_stopped(&mut self) -> Option<EventId> {
        self.stopped.take()
    }

    /// Switches an event softly, as a trigger of another event does. Returns whether that changed anything.
    pub(super) fn switch(&mut self, event: EventId, enabled: bool) -> bool {
        match self.get_mut(event) {
            Some(watched) => watched.switch(enabled),
            None => false,
        }
    }
}

impl Watched {
    pub(super) fn switch(&mut self, enabled: bool) -> bool {
        core::mem::replace(&mut self.soft_disabled, !enabled) == enabled
    }
}

/// The state that the steps of one watched event's hit share.
struct Occurrence<'a> {
    event: EventId,
    header: Header,
    frames: &'a [Frame],
}

/// Writes the record of a hit of a watched event, if its filter lets it pass, and fires its triggers. Each trigger fires in
/// front of the record or behind it, as in Linux.
pub(super) fn leave(hit: &mut Hit<'_>, event: EventId, programs: (&Programs, Option<&Access>), stacks: &Option<Arc<Stacks>>) {
    let Some(mut watched) = hit.parts().1.watch.forget(event) else { return };
    let mut frames = [Frame::default(); super::format::DEEPEST];
    let rule = stacks.clone().or_else(|| hit.parts().1.watch.stacks.clone().filter(|_| watched.needs_stack));
    let count = rule.map_or(0, |rule| rule.of(hit, &mut frames));
    let header = hit.header(event);
    let occurrence = Occurrence { event, header, frames: &frames[..count] };
    let passes = watched.at_hit(hit, &occurrence, programs, stacks.is_some());
    let stops = passes && core::mem::take(&mut watched.stops);
    let (_, state) = hit.parts();
    if stops {
        state.watch.stopped = Some(event);
    }
    if let Some(place) = state.watch.events.get_mut(event.0 as usize) {
        *place = Some(watched);
    }
    if stops {
        hit.end_run();
    }
}

impl Watched {
    /// Composes the record, fires the triggers, and keeps the record if it passes the filter. Returns whether it passes.
    fn at_hit(
        &mut self,
        hit: &mut Hit<'_>,
        now: &Occurrence<'_>,
        (programs, access): (&Programs, Option<&Access>),
        leaves_stack: bool,
    ) -> bool {
        let (cpu, state) = hit.parts();
        let EngineState { watch, records, moves, .. } = state;
        let mut values = 0;
        let composed = records.compose(|payload| {
            programs.run(cpu, access, payload);
            values = payload.len();
            if leaves_stack {
                put_stack(payload, now.frames);
            }
        });
        let bytes = records.composed(composed).get(..values).unwrap_or_default();
        let sample = Sample { header: &now.header, values: bytes, layout: &self.layout, stack: now.frames };
        let mut effects = Effects { recording: records.is_on(), ..Effects::default() };
        for trigger in &mut self.triggers {
            let fires = !trigger.is_paused && trigger.filter.as_ref().is_none_or(|filter| filter.matches(&sample, cpu));
            if !fires {
                continue;
            }
            match trigger.is_late() {
                true => trigger.is_due = true,
                false => trigger.fire(&sample, (watch, moves), &mut effects, (now.event, &mut self.soft_disabled)),
            }
        }
        if effects.moved {
            cpu.look_soon();
        }
        let passes = !self.soft_disabled && self.filter.as_ref().is_none_or(|filter| filter.matches(&sample, cpu));
        effects.carry_out(records, now);
        if passes {
            records.commit(&now.header, composed);
        }
        let mut effects = Effects { recording: records.is_on(), ..Effects::default() };
        for trigger in self.triggers.iter_mut().filter(|trigger| trigger.is_due) {
            trigger.is_due = false;
            trigger.fire_late(&mut effects);
        }
        effects.carry_out(records, now);
        passes
    }
}

/// The effects of triggers on the ring buffer.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Whether the ring keeps records at present, for the triggers that depend on it.
    pub recording: bool,
    /// The new state of recording, if a trigger switches it.
    pub switch: Option<bool>,
    /// Whether to leave the mark of a snapshot.
    pub snapshot: bool,
    /// Whether to leave a record with the call chain.
    pub stack: bool,
    /// Whether a trigger has asked to set or remove a watchpoint, which needs a stop of the machine.
    pub moved: bool,
}

impl Effects {
    fn carry_out(&self, records: &mut crate::records::Ring, now: &Occurrence<'_>) {
        if self.snapshot {
            records.mark(&Header { event: SNAPSHOT, ..now.header });
        }
        if self.stack {
            let header = Header { event: KERNEL_STACK, return_ip: 0, ..now.header };
            records.push(&header, |payload| put_stack(payload, now.frames));
        }
        if let Some(on) = self.switch {
            records.switch(on);
        }
    }
}
