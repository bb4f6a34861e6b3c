//! The listener of a timeline's machine: it takes note of accesses to watched memory, and changes nothing.

use crate::clock::Meaning;
use crate::cpu::View;
use crate::machine::{Attention, Detours, Follower, Place, ProbeWindow, Traps, UserCode, Watcher};
use std::collections::VecDeque;
use trapline_probes::guest::Answer;
use trapline_probes::watch::Access;

/// An access to watched memory, at its exact place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The place of the instruction. For an access that no instruction made, of the one that was interrupted.
    pub place: Place,
    /// The number of the area.
    pub area: usize,
    /// The access.
    pub access: Access,
}

/// Takes note of accesses to watched memory.
#[derive(Debug, Default)]
pub struct Observer {
    /// The last accesses, oldest first.
    seen: VecDeque<Seen>,
    /// The number of accesses that are kept.
    most: usize,
    stops: bool,
    wants: bool,
}

impl Observer {
    /// Forgets all accesses, and keeps this many of the next ones. If `stops`, the first one stops the run.
    pub(super) fn start(&mut self, most: usize, stops: bool) {
        *self = Observer { most, stops, ..Observer::default() };
    }

    /// Takes the accesses, oldest first.
    pub(super) fn take(&mut self) -> VecDeque<Seen> {
        self.wants = false;
        core::mem::take(&mut self.seen)
    }
}

impl Watcher for Observer {
    fn accessed(&mut self, cpu: &mut View, area: usize, access: &Access) {
        if self.stops && !self.seen.is_empty() || self.most == 0 {
            return;
        }
        if self.seen.len() == self.most {
            self.seen.pop_front();
        }
        self.seen.push_back(Seen { place: Place::of(cpu), area, access: *access });
        self.wants = self.stops;
    }
}

impl Attention for Observer {
    fn wants_attention(&self) -> bool {
        self.wants
    }
}

impl Traps for Observer {
    fn breakpoint(&mut self, _: &mut View) -> Answer {
        Answer::NotOurs
    }
    fn fault(&mut self, _: &mut View, _: u32) -> Answer {
        Answer::NotOurs
    }
    fn interrupted(&mut self, _: &mut View) {}
}

impl ProbeWindow for Observer {
    fn meaning(&self, _: u64) -> Meaning {
        Meaning::Guest
    }
}

impl Detours for Observer {}
impl Follower for Observer {}
impl UserCode for Observer {}
