//! The listener of a timeline's machine: it takes note of accesses to watched memory, and changes nothing.

use crate::clock::Meaning;
use crate::cpu::View;
use crate::machine::{Attention, Detours, Excepted, Follower, Place, ProbeWindow, Traps, UserCode, Watcher};
use std::collections::VecDeque;
use trapline_probes::guest::{Answer, Cpu};
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
    /// The pid of the running task.
    pub pid: u32,
    /// The name of the running task, zero-padded.
    pub comm: [u8; 16],
}

/// An access by an instruction that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The address of the instruction.
    pub pc: u64,
    /// The address of the first byte.
    pub address: u64,
    /// The number of bytes.
    pub size: u32,
    /// Whether it is a store.
    pub is_store: bool,
}

/// The number of exceptions, and of accesses that are about to be made, that are kept.
const MOST_NOTED: usize = 256;

/// Takes note of accesses to watched memory, and of exceptions in the kernel.
#[derive(Debug, Default)]
pub struct Observer {
    /// The last accesses, oldest first.
    seen: VecDeque<Seen>,
    /// The number of accesses that are kept.
    most: usize,
    stops: bool,
    wants: bool,
    /// The last exceptions, oldest first.
    excepted: VecDeque<Excepted>,
    /// The last accesses of any address, if the machine tells of them.
    touched: VecDeque<Touched>,
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

    /// Takes the last exceptions, oldest first.
    pub(super) fn take_excepted(&mut self) -> Vec<Excepted> {
        core::mem::take(&mut self.excepted).into()
    }

    /// Takes the last accesses of any address, oldest first.
    pub(super) fn take_touched(&mut self) -> Vec<Touched> {
        core::mem::take(&mut self.touched).into()
    }
}

fn push<T>(into: &mut VecDeque<T>, one: T) {
    if into.len() == MOST_NOTED {
        into.pop_front();
    }
    into.push_back(one);
}

impl Watcher for Observer {
    fn accessed(&mut self, cpu: &mut View, area: usize, access: &Access) {
        if self.stops && !self.seen.is_empty() || self.most == 0 {
            return;
        }
        if self.seen.len() == self.most {
            self.seen.pop_front();
        }
        let (pid, comm) = (cpu.pid(), cpu.comm());
        self.seen.push_back(Seen { place: Place::of(cpu), area, access: *access, pid, comm });
        self.wants = self.stops;
    }

    fn each_access(&mut self, pc: u64, _: u64, address: u64, size: u32, is_store: bool) {
        push(&mut self.touched, Touched { pc, address, size, is_store });
    }

    fn wants_exceptions(&self) -> bool {
        true
    }

    fn excepted(&mut self, exception: &Excepted) {
        push(&mut self.excepted, *exception);
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
