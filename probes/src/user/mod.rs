//! Probes in user programs: at an instruction of a file, in every process that maps it, and at a function's returns.
//!
//! Nothing is written. The machine observes the instruction ([`Guest::observe`]) and calls [`Engine::user_hit`] when a
//! CPU is about to execute it. A call of a probed function is followed by observing the address where it returns to
//! ([`Cpu::observe_arrival`]), so the program's stack, its registers and its code stay as they are.
//!
//! This file registers a [`UserProbe`] and handles its hits. `user/probe.rs` has the probe itself, and `user/calls.rs` the followed
//! calls.

mod calls;
mod probe;
mod program;
mod restarts;
mod usdt;

pub(crate) use calls::Calls;
pub use probe::{Place, UserProbe};
pub use usdt::Usdt;

use crate::context::{Hit, ReturnHit, Stage};
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::{Cpu, FilePlace, Guest, KnownBy};
use crate::probe::{Flow, Kprobe};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use calls::Call;
use core::sync::atomic::Ordering;
use probe::Carrier;
use program::RunningProgram;
use restarts::{Restarts, Spot};
use trapline_isa::abi::ReturnAddress;

/// Counters of user probes as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserCounts {
    /// Hits of a point. Several probes at one point count once.
    pub hits: u64,
    /// Instructions that were executed again after a fault, without a second hit.
    pub restarted: u64,
    /// Followed calls that returned.
    pub returned: u64,
    /// Followed calls that ended without a return, for example by a longjmp.
    pub left_behind: u64,
}

/// An observed instruction with its probes.
struct Point {
    file: String,
    offset: u64,
    /// Whether pages of the file are recognised by their content.
    by_content: bool,
    entries: Vec<UserProbe>,
    returns: Vec<UserProbe>,
}

/// All user probes of an engine.
#[derive(Default)]
pub(crate) struct UserProbes {
    /// The points by number. `None`: the point has been removed.
    points: Vec<Option<Point>>,
    by_place: BTreeMap<(String, u64), u32>,
    restarts: Restarts,
    /// The last hit of each CPU.
    last: Vec<Spot>,
    /// Whether an internal probe reports task switches.
    follows_tasks: bool,
    /// Whether internal probes report fork and exec.
    follows_processes: bool,
    counts: UserCounts,
}

/// The largest number of calls that are followed at a time.
const MOST_CALLS: usize = 1 << 14;
/// The function that starts a forked task, in every Linux. Its argument is the new task, whose stack is a copy of its
/// parent's.
const FORKS: &str = "wake_up_new_task";
/// The function that a task runs first after it was switched to. Compilers add suffixes to its name.
const SWITCHED: [&str; 4] =
    ["finish_task_switch", "finish_task_switch.isra.0", "finish_task_switch.constprop.0", "finish_task_switch.isra.1"];
/// The functions that replace the program of a task (exec). A kernel has one of them, by its release.
const EXECS: [&str; 2] = ["begin_new_exec", "flush_old_exec"];

impl Engine {
    /// Registers a user probe.
    pub fn register_user(&mut self, guest: &mut dyn Guest, probe: &UserProbe) -> Result<(), Refusal> {
        if probe.kprobe().address().is_some() {
            return refused(Errno::EINVAL, format!("the probe {probe} is registered already: unregister it first"));
        }
        let path = guest.file_path(probe.path());
        let offset = match probe.place() {
            Place::Offset(offset) => *offset,
            Place::Symbol(name, offset) => guest.file_symbol(&path, name)?.wrapping_add(*offset),
        };
        let key = (path, offset);
        let number = match self.user.by_place.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.user.points.len() as u32;
                let by_content = guest.observe(&FilePlace { path: &key.0, offset }, number)? == KnownBy::Content;
                let point = Point { file: key.0.clone(), offset, by_content, entries: Vec::new(), returns: Vec::new() };
                self.user.points.push(Some(point));
                self.user.by_place.insert(key, number);
                number
            }
        };
        self.follow_tasks(guest);
        if self.user.last.is_empty() {
            self.user.last.resize(guest.cpus(), Spot::default());
        }
        if probe.returns() {
            self.state.calls.reserve(MOST_CALLS);
            self.follow_processes(guest);
        }
        // An address marks the carrier as registered, and resets its counters. Offset 0 is no instruction.
        match &probe.0.carrier {
            Carrier::Entry(carrier) => carrier.begin(offset),
            Carrier::Return(carrier) => {
                carrier.begin(MOST_CALLS as u32);
                carrier.kprobe().begin(offset);
            }
        }
        if let Some(Some(point)) = self.user.points.get_mut(number as usize) {
            probe.0.by_content.store(point.by_content, Ordering::Relaxed);
            let list = if probe.returns() { &mut point.returns } else { &mut point.entries };
            list.push(probe.clone());
        }
        Ok(())
    }

    /// Unregisters a user probe. Calls in flight are no longer followed for it.
    pub fn unregister_user(&mut self, guest: &mut dyn Guest, probe: &UserProbe) {
        let gone = |point: &mut Option<Point>| {
            let Some(Point { entries, returns, .. }) = point else { return false };
            let before = entries.len() + returns.len();
            entries.retain(|other| !other.is(probe));
            returns.retain(|other| !other.is(probe));
            entries.len() + returns.len() < before
        };
        let Some(number) = self.user.points.iter_mut().position(gone) else { return };
        probe.kprobe().clear_address();
        let is_empty = |point: &Point| point.entries.is_empty() && point.returns.is_empty();
        if self.user.points[number].as_ref().is_some_and(is_empty)
            && let Some(point) = self.user.points[number].take()
        {
            guest.observe_no_more(number as u32);
            self.user.by_place.remove(&(point.file, point.offset));
        }
    }

    /// Whether there is a user probe.
    pub fn has_user_probes(&self) -> bool {
        !self.user.by_place.is_empty()
    }

    /// The counters of user probes.
    pub fn user_counts(&self) -> UserCounts {
        UserCounts { left_behind: self.state.calls.left_behind, ..self.user.counts }
    }

    /// Starts to report each task switch to the machine, if the machine needs that.
    pub(crate) fn follow_tasks(&mut self, guest: &mut dyn Guest) {
        if self.user.follows_tasks || guest.knows_task_of_programs() {
            return;
        }
        self.user.follows_tasks = true;
        guest.begin_noting_tasks();
        if let Some(name) = SWITCHED.iter().find(|name| guest.symbol(name).is_some()) {
            let probe = Kprobe::at(*name).internal().pre(|hit| {
                hit.machine().note_running_task();
                Flow::Continue
            });
            if let Err(refusal) = self.register_kprobe(guest, &probe) {
                self.say(format!("hits and accesses in user programs have no task, because {name} cannot be probed: {refusal}"));
            }
        }
    }

    /// Follows the calls of processes through fork and exec.
    fn follow_processes(&mut self, guest: &mut dyn Guest) {
        if core::mem::replace(&mut self.user.follows_processes, true) {
            return;
        }
        let forks = Kprobe::at(FORKS).pre(|hit| {
            let (parent, child) = (hit.task(), hit.arg(0));
            hit.calls().fork(parent, child);
            Flow::Continue
        });
        let execs = EXECS.iter().find(|name| guest.symbol(name).is_some()).map(|name| {
            Kprobe::at(*name).pre(|hit| {
                let task = hit.task();
                hit.calls().forget(task);
                Flow::Continue
            })
        });
        for probe in [Some(forks), execs].into_iter().flatten() {
            if let Err(refusal) = self.register_kprobe(guest, &probe.internal()) {
                self.say(format!("calls of user programs are not followed through fork and exec: {refusal}"));
            }
        }
    }

    /// Handles a hit: a program is about to execute the instruction at a point.
    pub fn user_hit(&mut self, cpu: &mut impl Cpu, number: u32) {
        let spot = Spot { pc: cpu.pc(), sp: cpu.get(self.isa.abi.sp) };
        if self.user.restarts.some() {
            let task = cpu.task();
            if self.user.restarts.take(task, spot) {
                self.user.counts.restarted += 1;
                return;
            }
        }
        if let Some(last) = self.user.last.get_mut(cpu.number()) {
            *last = spot;
        }
        let Some(Some(point)) = self.user.points.get(number as usize) else { return };
        self.user.counts.hits += 1;
        for probe in &point.entries {
            if let Carrier::Entry(carrier) = &probe.0.carrier
                && !carrier.is_disabled()
            {
                let handler = carrier.count_hit();
                handler(&mut Hit::new(&mut RunningProgram(cpu), carrier, spot.pc, &mut self.state, Stage::Before));
            }
        }
        if !point.returns.is_empty() {
            self.follow(cpu, number, spot);
        }
    }

    /// Follows a call of a function that begins at a point.
    fn follow(&mut self, cpu: &mut impl Cpu, number: u32, spot: Spot) {
        let Some(Some(point)) = self.user.points.get(number as usize) else { return };
        let isa = self.isa;
        for probe in point.returns.iter().filter(|probe| !probe.is_disabled()) {
            probe.kprobe().count_hit();
        }
        let abi = isa.abi.narrow.filter(|_| cpu.narrow_word().is_some()).unwrap_or(isa.abi);
        let return_to = match abi.return_address {
            ReturnAddress::OnStack => {
                let word = cpu.narrow_word().unwrap_or(isa.word);
                RunningProgram(cpu).number_at(spot.sp, word)
            }
            // The lowest bit selects the instruction set.
            ReturnAddress::In(link) => Some((cpu.get(link) & self.code_bits(cpu) & !1).wrapping_add(isa.abi.link_offset)),
        };
        let is_followed = return_to.is_some_and(|return_to| {
            let task = cpu.task();
            let call = Call { task, sp: spot.sp, return_to, entry: spot.pc, point: number };
            cpu.observe_arrival(return_to) && self.state.calls.push(call)
        });
        if !is_followed {
            for probe in point.returns.iter().filter(|probe| !probe.is_disabled()) {
                if let Carrier::Return(carrier) = &probe.0.carrier {
                    carrier.count_missed();
                }
            }
        }
    }

    /// The bits of a code address. In a 31-bit program of z/Architecture the highest of the 32 bits is the mode.
    fn code_bits(&self, cpu: &mut impl Cpu) -> u64 {
        if cpu.narrow_word().is_some() { self.isa.abi.narrow_code } else { u64::MAX }
    }

    /// Handles an arrival at an address where followed calls return to. Nothing happens if none of this task's does.
    pub fn user_arrival(&mut self, cpu: &mut impl Cpu) {
        let (task, pc, sp) = (cpu.task(), cpu.pc() & self.code_bits(cpu), cpu.get(self.isa.abi.sp));
        let popped = match self.isa.abi.return_address {
            ReturnAddress::OnStack => cpu.narrow_word().unwrap_or(self.isa.word) as u64,
            ReturnAddress::In(_) => 0,
        };
        while let Some(call) = self.state.calls.take(task, pc, sp, popped) {
            self.user.counts.returned += 1;
            let Some(Some(point)) = self.user.points.get(call.point as usize) else { continue };
            for probe in &point.returns {
                let Carrier::Return(carrier) = &probe.0.carrier else { continue };
                if carrier.kprobe().is_disabled() {
                    continue;
                }
                carrier.count_return();
                if let Some(handler) = carrier.return_handler() {
                    let mut program = RunningProgram(cpu);
                    let hit = Hit::new(&mut program, carrier.kprobe(), call.entry, &mut self.state, Stage::Return);
                    handler(&mut ReturnHit::new(hit, &mut [], pc));
                }
            }
        }
    }

    /// Handles a fault of the program's instruction at the pc. If it was just hit, its repetition will not count as a hit.
    pub fn user_fault(&mut self, cpu: &mut impl Cpu) {
        let spot = Spot { pc: cpu.pc(), sp: cpu.get(self.isa.abi.sp) };
        if self.user.last.get(cpu.number()) == Some(&spot) {
            let task = cpu.task();
            self.user.restarts.put(task, spot);
        }
    }

    /// Drops all state of a task that does not exist any more.
    pub(crate) fn user_task_exited(&mut self, task: u64) {
        self.state.calls.forget(task);
        self.user.restarts.forget(task);
    }

    /// Forgets all calls in flight, because a snapshot was restored.
    pub(crate) fn forget_user_calls(&mut self) {
        self.state.calls.clear();
        self.user.restarts = Restarts::default();
        self.user.last.fill(Spot::default());
    }
}
