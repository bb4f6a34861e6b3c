//! One probe of an event, with its definition and its counters.
//!
//! An [`EventSet`](super::EventSet) has a [`Member`] for each line of `kprobe_events`. Its probe is [`Attached`] when it is
//! registered, or waits for a module. A module that is loaded again gets a new probe, and the member keeps the counts.

use super::DEFAULT_GROUP;
use crate::events::fetch::Programs;
use crate::events::parse::Definition;
use crate::probe::{Jprobe, Kprobe, Kretprobe};
use crate::records::EventId;
use crate::user::UserProbe;
use crate::watch::Watchpoint;
use alloc::sync::Arc;

/// One probe of an event.
#[derive(Clone, Debug)]
pub struct Member {
    /// The event that it belongs to.
    pub event: EventId,
    /// Its definition, with group and event names filled in.
    pub definition: Definition,
    /// Its fetch programs.
    pub programs: Arc<Programs>,
    /// The probe itself.
    pub probe: Attached,
    /// Counters of earlier probes of this member, from before its module was unloaded.
    pub(in crate::events) before: Before,
}

/// Counters of probes that no longer exist.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::events) struct Before {
    hits: u64,
    misses: u64,
}

/// The probe of a definition, once it is registered.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A breakpoint probe.
    Kprobe(Kprobe),
    /// A return probe.
    Kretprobe(Kretprobe),
    /// A probe at a function's entry whose handler sees the arguments.
    Jprobe(Jprobe),
    /// A probe in a user program.
    User(UserProbe),
    /// A watchpoint of a watch event.
    Watchpoint(Watchpoint),
    /// Not registered yet: its module is not loaded.
    Pending,
}

impl Member {
    /// The event's group.
    pub fn group(&self) -> &str {
        self.definition.group.as_deref().unwrap_or(DEFAULT_GROUP)
    }

    /// The event's name.
    pub fn name(&self) -> &str {
        self.definition.event.as_deref().unwrap_or_default()
    }

    /// Hits for which a record was written or attempted. For a return probe: returns.
    pub fn hits(&self) -> u64 {
        self.before.hits
            + match &self.probe {
                Attached::Kprobe(probe) => probe.hits(),
                Attached::Jprobe(probe) => probe.hits(),
                Attached::Kretprobe(probe) => probe.returns(),
                Attached::User(probe) => probe.hits(),
                Attached::Watchpoint(watchpoint) => watchpoint.hits(),
                Attached::Pending => 0,
            }
    }

    /// Hits whose handler could not run.
    pub fn misses(&self) -> u64 {
        self.before.misses
            + match &self.probe {
                Attached::Kprobe(probe) => probe.nmissed(),
                Attached::Jprobe(probe) => probe.kprobe().nmissed(),
                Attached::Kretprobe(probe) => probe.nmissed() + probe.kprobe().nmissed(),
                Attached::User(probe) => probe.missed(),
                Attached::Watchpoint(watchpoint) => watchpoint.changed_unseen(),
                Attached::Pending => 0,
            }
    }

    /// The misses that the present probe does not count, because they happened before its module was loaded again.
    pub fn earlier_misses(&self) -> u64 {
        self.before.misses
    }

    /// Replaces the probe and keeps the counts.
    pub(in crate::events) fn replace(&mut self, probe: Attached, programs: Arc<Programs>) {
        self.programs = programs;
        self.before = Before { hits: self.hits(), misses: self.misses() };
        self.probe = probe;
    }

    /// The definition in the form that `kprobe_events` shows.
    pub(super) fn shown(&self) -> Definition {
        let mut definition = self.definition.clone();
        if let Attached::Kretprobe(probe) = &self.probe {
            definition.maxactive = u32::try_from(probe.active_limit()).unwrap_or(definition.maxactive);
        }
        definition
    }
}
