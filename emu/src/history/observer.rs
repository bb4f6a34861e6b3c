//! The listener of a timeline's machine. It records accesses to watched memory and exceptions. It has no
//! probes and never changes the guest.

use crate::clock::Meaning;
use crate::cpu::View;
use crate::machine::{Attention, Detours, Excepted, Follower, Place, ProbeWindow, Traps, UserCode, Watcher};
use std::collections::VecDeque;
use trapline_probes::guest::{Answer, Cpu};
use trapline_probes::watch::Access;

/// An access to watched memory, and the place in the run at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The place of the accessing instruction. If no instruction made the access, but a device for example, this is the
    /// place of the instruction that was interrupted.
    pub place: Place,
    /// The number of the watched area.
    pub area: usize,
    /// Address, size, direction and values.
    pub access: Access,
    /// The pid of the running task.
    pub pid: u32,
    /// The name of the running task, zero-padded.
    pub comm: [u8; 16],
}

/// A load or store that translated code is about to make, to any address.
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

/// The capacity of the two ring buffers for exceptions and for accesses to any address.
const MOST_NOTED: usize = 256;

/// Records of one run of a timeline: accesses to watched memory, exceptions, and accesses to any address.
#[derive(Debug, Default)]
pub struct Observer {
    /// The last accesses to watched memory, oldest first.
    seen: VecDeque<Seen>,
    /// The capacity of `seen`. With 0 no access is recorded.
    most: usize,
    /// Whether the first recorded access stops the run.
    stops: bool,
    /// Whether the machine is asked to stop: an access was recorded and `stops` is set.
    wants: bool,
    /// The last exceptions, oldest first.
    excepted: VecDeque<Excepted>,
    /// The last accesses to any address. Empty unless the machine reports each access
    /// (`Machine::tell_each_access`).
    touched: VecDeque<Touched>,
}

impl Observer {
    /// Starts a new recording that keeps the last `most` accesses to watched memory. If `stops`, the first access stops
    /// the run, and later ones are ignored.
    pub(super) fn start(&mut self, most: usize, stops: bool) {
        *self = Observer { most, stops, ..Observer::default() };
    }

    /// Takes the accesses to watched memory, oldest first, and withdraws the request to stop.
    pub(super) fn take(&mut self) -> VecDeque<Seen> {
        self.wants = false;
        core::mem::take(&mut self.seen)
    }

    /// Takes the last exceptions, oldest first.
    pub(super) fn take_excepted(&mut self) -> Vec<Excepted> {
        core::mem::take(&mut self.excepted).into()
    }

    /// Takes the accesses to any address, oldest first.
    pub(super) fn take_touched(&mut self) -> Vec<Touched> {
        core::mem::take(&mut self.touched).into()
    }
}

/// Appends an entry. When the ring buffer is full, the oldest entry is dropped.
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
