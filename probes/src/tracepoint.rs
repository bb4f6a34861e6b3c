//! Watches tracepoints of the guest kernel without enabling them in the guest. The guest's own code writes the record,
//! in no virtual time, and its side effects are undone.
//!
//! A disabled tracepoint is a no-op at its site, with the code that calls the tracepoint's functions out of line. At a
//! hit of the site the CPU runs that code with its clock stopped. The list of functions is replaced by one with a
//! single entry: the function that writes the record for the guest's own tracer. When it asks for buffer space, it gets
//! some below the stack. When it commits the record, the engine copies the record and restores registers, stack, list
//! and preempt count. Then the handlers see the hit together with the record.
//!
//! This file registers a tracepoint ([`Engine::register_tracepoint`]). `tracepoint/code.rs` reads its code, `run.rs` takes a
//! CPU through it, and `record.rs` has the record.

mod code;
mod record;
mod run;

pub use record::TracepointRecord;
pub(crate) use run::{TracepointRun, start_next};

use crate::context::Hit;
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::Guest;
use crate::members::Action;
use crate::probe::{Flow, Kprobe};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use code::Way;

/// A tracepoint, as described by the kernel's own tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// The subsystem (event group) that it belongs to.
    pub group: String,
    /// The name in its group, such as `sched_switch`.
    pub name: String,
    /// The event class, which defines the record. Several tracepoints may share one.
    pub class: String,
    /// Pairs of a site's address and the address of its out-of-line code.
    pub sites: Vec<(u64, u64)>,
    /// The functions that the out-of-line code may call for the tracepoint. The first such call must come first.
    pub calls: Vec<u64>,
    /// Functions that it may call before that, because they only read a register or take the lock.
    pub harmless: Arc<[u64]>,
    /// The code may iterate over the function list itself, in kernels without static calls.
    pub may_loop: bool,
    /// Address of the pointer to the list of the tracepoint's functions.
    pub functions: u64,
    /// Address of the function that writes its record.
    pub writes: u64,
    /// Address of the function that reserves buffer space for a record.
    pub reserve: u64,
    /// Address of the function that commits a record.
    pub commit: u64,
    /// Functions with which the code gives the CPU away behind its calls. They are reached by no watched CPU.
    pub yields: Vec<u64>,
    /// Address of the pointer to the counter, in each CPU's own area, that the code raises before its calls (SRCU, since
    /// 7.0).
    pub lock: Option<u64>,
}

/// The largest size of a record in bytes. The rest of the area is for the stack frames of the called code.
const RECORD: usize = 1024;

/// A watched tracepoint.
pub(crate) struct Watched {
    facts: Arc<Tracepoint>,
    /// Whether the raw arguments of its functions are wanted instead of its record.
    is_raw: bool,
    /// The addresses at which the functions that end a run trap: behind their landing pad, such as `endbr64`.
    ends: Ends,
    /// The addresses of `facts.calls`, and of their local entries on an ISA that has these.
    calls: Vec<u64>,
    /// The addresses of `facts.yields`, and of their local entries.
    yields: Vec<u64>,
    /// The sites that can be followed, with their code.
    sites: Vec<(u64, u64)>,
    /// Sites whose code calls the functions, and does more than that. Their hits are counted as missed.
    unfollowed: Vec<u64>,
    /// Instructions that end the out-of-line code, and addresses that it leaves to.
    exits: Vec<u64>,
    /// Those exits behind which the code would do more than call the functions. A run that ends there is counted as missed.
    unknown: Vec<u64>,
    /// Whether the code can skip the call because of a condition of this event.
    has_conditions: bool,
    /// Calls of lock functions in the code that makes the record, sorted. A run skips them.
    locks: Vec<LockCall>,
}

/// A call that takes or releases a spinlock.
#[derive(Clone, Copy, Debug)]
struct LockCall {
    at: u64,
    /// The address of the next instruction.
    next: u64,
}

/// The functions that end a run, by the addresses of their breakpoints.
#[derive(Clone, Copy, Default)]
struct Ends {
    reserve: u64,
    commit: u64,
    writes: u64,
}

impl Engine {
    /// Registers the probes needed to watch a tracepoint. `handler` runs at each of its sites, with the record or, if
    /// `is_raw`, with the function arguments. The probes are internal and shown in no list.
    pub fn register_tracepoint<H>(
        &mut self,
        guest: &mut dyn Guest,
        facts: &Arc<Tracepoint>,
        is_raw: bool,
        handler: H,
    ) -> Result<Vec<Kprobe>, Refusal>
    where
        H: Fn(&mut Hit<'_>) -> Flow + Clone + Send + Sync + 'static,
    {
        let number =
            match self.tracepoints.iter().position(|watched| Arc::ptr_eq(&watched.facts, facts) && watched.is_raw == is_raw) {
                Some(number) => number,
                None => {
                    let watched = self.ways(guest, facts, is_raw)?;
                    self.tracepoints.push(watched);
                    self.tracepoints.len() - 1
                }
            };
        for cpu in &mut self.cpus {
            cpu.tracepoint_run.get_or_insert_with(|| Box::new(TracepointRun::new(self.isa)));
        }
        self.state.record.bytes.resize(RECORD, 0);
        let mut probes = Vec::new();
        let watched = &self.tracepoints[number];
        let sites =
            watched.sites.iter().map(|(site, _)| *site).chain(watched.unfollowed.iter().copied()).map(|site| (site, true));
        // The raw arguments are available at the entry of the function that writes the record.
        let ends = if is_raw { vec![facts.writes] } else { vec![facts.reserve, facts.commit] };
        let locks = watched.locks.iter().map(|call| call.at).collect::<Vec<_>>();
        let traps = ends.into_iter().chain(watched.exits.iter().copied()).chain(locks.iter().copied());
        for (address, is_site) in traps.map(|address| (address, false)).chain(sites).collect::<Vec<_>>() {
            let (probe, action) = match is_site {
                true => (Kprobe::at_address(address).pre(handler.clone()), Action::Record(number as u32)),
                // A jump in place of the trap would take the lock.
                false if locks.contains(&address) => {
                    (Kprobe::at_address(address).pre(|_| Flow::Continue).post(|_| {}), Action::Handlers)
                }
                false => (Kprobe::at_address(address).pre(|_| Flow::Continue), Action::Handlers),
            };
            let probe = probe.internal();
            let added = self.resolve(guest, &probe, false).and_then(|place| self.add(guest, &probe, action, place));
            if let Err(refusal) = added {
                let watched = &self.tracepoints[number];
                if !is_site && !watched.has_conditions && watched.exits.contains(&address) {
                    continue;
                }
                self.unregister_kprobes(guest, &probes);
                let why = format!("{}:{} cannot be followed: {}", facts.group, facts.name, refusal.why);
                return refused(refusal.errno, why);
            }
            probes.push(probe);
        }
        Ok(probes)
    }

    /// Analyses all sites of a tracepoint. Fails if no site can be watched.
    fn ways(&self, guest: &dyn Guest, facts: &Arc<Tracepoint>, is_raw: bool) -> Result<Watched, Refusal> {
        if facts.lock.is_some() && !guest.knows_per_cpu() {
            let why = "its code takes a lock (SRCU) in the CPU's own memory, whose place is not known on this ISA";
            return refused(Errno::EINVAL, format!("{}:{} cannot be followed: {why}", facts.group, facts.name));
        }
        let place =
            |address| self.resolve(guest, &Kprobe::at_address(address).internal(), false).map_or(address, |place| place.address);
        let ends = Ends { reserve: place(facts.reserve), commit: place(facts.commit), writes: place(facts.writes) };
        let facts = Arc::clone(facts);
        let entries = |of: &[u64]| of.iter().flat_map(|call| [*call, place(*call)]).collect();
        let (calls, yields) = (entries(&facts.calls), entries(&facts.yields));
        let (sites, unfollowed, exits, unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut watched = Watched {
            facts,
            is_raw,
            ends,
            calls,
            yields,
            sites,
            unfollowed,
            exits,
            unknown,
            has_conditions: false,
            locks: Vec::new(),
        };
        let facts = Arc::clone(&watched.facts);
        if !is_raw {
            watched.locks = self.lock_calls(guest, &facts);
        }
        for (site, code) in &facts.sites {
            let can_end = |at: &u64| self.can_trap(guest, *at);
            // Code with conditions may end at any of its exits, so each of them needs a probe.
            let is_sound = |way: &Way| !way.has_conditions || way.exits.iter().chain(&way.unknown).all(can_end);
            if let Some(way) = self.way(guest, &watched, *code).filter(is_sound) {
                watched.sites.push((*site, *code));
                watched.exits.extend(way.exits.iter().chain(&way.unknown));
                watched.unknown.extend(way.unknown);
                watched.has_conditions |= way.has_conditions;
            } else if self.fires(guest, &watched, *site, *code) {
                watched.unfollowed.push(*site);
            }
        }
        watched.exits.sort_unstable();
        watched.exits.dedup();
        if watched.sites.is_empty() {
            let why = "its code does more than call the tracepoint's functions, which could not be undone";
            return refused(Errno::EINVAL, format!("{}:{} cannot be followed: {why}", facts.group, facts.name));
        }
        Ok(watched)
    }
}
