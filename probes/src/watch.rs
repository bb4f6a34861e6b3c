//! Watchpoints: handlers that run when the guest accesses some bytes of memory ([`Watchpoint`]).
//!
//! The machine watches the areas of [`Engine::areas`] and passes each access to [`Engine::accessed`]. Nothing is written to
//! the guest. An access is reported after it was made, at its exact pc and time.

mod computed;
mod inside;
mod moves;

use crate::context::{EngineState, Hit, Stage};
use crate::counter::Counter;
use crate::engine::Engine;
use crate::errno::{Errno, Refusal};
use crate::guest::{Cpu, Guest};
use crate::probe::Kprobe;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub(crate) use computed::{Computed, Recorder};
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::sync::atomic::{AtomicBool, Ordering};
use inside::Inside;
pub(crate) use moves::{Asked, Moves};

/// The largest number of bytes of one watchpoint.
pub const MOST_BYTES: u64 = 16 << 20;
/// The largest number of watchpoints of an engine.
pub const MOST_WATCHPOINTS: usize = 65_536;

/// A range of memory and the accesses to it that are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// The address of the first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
    /// Whether `start` is a physical address.
    pub physical: bool,
    /// The only process whose accesses count, by its number (the thread group id). `None` for all.
    pub process: Option<u32>,
    /// Whether loads are watched.
    pub reads: bool,
    /// Whether stores are watched.
    pub writes: bool,
}

impl Area {
    fn touches(&self, start: u64, len: u64) -> bool {
        let into = start.wrapping_sub(self.start);
        into < self.len || len > into.wrapping_neg()
    }
}

/// The party that made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An instruction that the CPU executed, or the machine for it.
    Instruction,
    /// A probed instruction that the engine computed.
    Computed,
    /// The CPU, when it delivered an exception or an interrupt.
    Delivery,
    /// The CPU, when it walked page tables.
    PageWalk,
    /// A device, the firmware or the hypervisor.
    Device,
}

impl By {
    /// The name in lists and records.
    pub const fn name(self) -> &'static str {
        match self {
            By::Instruction => "instruction",
            By::Computed => "computed",
            By::Delivery => "exception",
            By::PageWalk => "page-walk",
            By::Device => "device",
        }
    }
}

/// One access to a watched area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the first accessed byte, of the area's kind. For other parties than instructions, of the first byte
    /// in the area.
    pub address: u64,
    /// The number of bytes.
    pub size: u64,
    /// Whether it is a store.
    pub is_write: bool,
    /// The number that was loaded or stored: the first eight bytes if there are more.
    pub value: u64,
    /// The number in memory before the access.
    pub old: u64,
    /// The party that made it.
    pub by: By,
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// Whether the bytes had changed since they were last seen, without an access that was reported.
    pub unseen: bool,
}

type Handler = dyn Fn(&mut WatchHit<'_>) + Send + Sync;

/// A watchpoint. A clone is the same watchpoint.
#[derive(Clone)]
pub struct Watchpoint(Arc<Object>);

struct Object {
    area: Area,
    shared: Arc<Shared>,
}

/// The parts that a watchpoint shares with its copies at other addresses ([`Watchpoint::moved_to`]).
struct Shared {
    handler: Box<Handler>,
    /// Counts the hits, and is the probe of [`Hit::probe`].
    probe: Kprobe,
    is_enabled: AtomicBool,
    unseen: Counter,
    /// The number of addresses at which a handler wanted a copy that could not be set.
    not_set: Counter,
}

impl Watchpoint {
    /// A watchpoint on these kernel addresses, for reads and writes until one of them is chosen.
    pub fn at(range: Range<u64>) -> Watchpoint {
        Watchpoint::on(Area { start: range.start, len: range.end.saturating_sub(range.start), ..Area::default() })
    }

    /// A watchpoint on an area.
    pub fn on(area: Area) -> Watchpoint {
        Watchpoint::new(area, Box::new(|_: &mut WatchHit<'_>| ()), true)
    }

    fn new(area: Area, handler: Box<Handler>, is_enabled: bool) -> Watchpoint {
        let probe = Kprobe::at_address(area.start).internal();
        let is_enabled = AtomicBool::new(is_enabled);
        let shared = Arc::new(Shared { handler, probe, is_enabled, unseen: Counter::new(0), not_set: Counter::new(0) });
        Watchpoint(Arc::new(Object { area, shared }))
    }

    /// Returns a copy of this watchpoint at another address. Both share the handler, the counters and the switch.
    fn moved_to(&self, address: u64) -> Watchpoint {
        let area = Area { start: address, ..self.0.area };
        Watchpoint(Arc::new(Object { area, shared: Arc::clone(&self.0.shared) }))
    }

    fn is_of(&self, other: &Watchpoint) -> bool {
        Arc::ptr_eq(&self.0.shared, &other.0.shared)
    }

    /// A number that tells it from every other watchpoint that exists, but not from its copies at other addresses.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.0.shared) as usize
    }

    /// Changes the area of a watchpoint that is not registered yet. Clones of the old one keep their area.
    fn change(self, change: impl FnOnce(&mut Area)) -> Watchpoint {
        let mut area = self.0.area;
        change(&mut area);
        let shared = Arc::clone(&self.0.shared);
        Watchpoint::new(area, Box::new(move |hit: &mut WatchHit<'_>| (shared.handler)(hit)), self.is_enabled())
    }

    /// Watches loads.
    pub fn reads(self) -> Watchpoint {
        self.change(|area| area.reads = true)
    }

    /// Watches stores.
    pub fn writes(self) -> Watchpoint {
        self.change(|area| area.writes = true)
    }

    /// Takes the addresses as physical ones.
    pub fn physical(self) -> Watchpoint {
        self.change(|area| area.physical = true)
    }

    /// Watches only while this process runs. Its addresses may then be those of the program.
    pub fn of_process(self, process: u32) -> Watchpoint {
        self.change(|area| area.process = Some(process))
    }

    /// Sets the handler, which runs after each access.
    pub fn on_hit(self, handler: impl Fn(&mut WatchHit<'_>) + Send + Sync + 'static) -> Watchpoint {
        Watchpoint::new(self.0.area, Box::new(handler), self.is_enabled())
    }

    /// Registers the watchpoint disabled.
    pub fn disabled(self) -> Watchpoint {
        self.0.shared.is_enabled.store(false, Ordering::Relaxed);
        self
    }

    /// The watched area. A watchpoint without a choice watches reads and writes.
    pub fn area(&self) -> Area {
        let area = self.0.area;
        let is_any = !area.reads && !area.writes;
        Area { reads: area.reads || is_any, writes: area.writes || is_any, ..area }
    }

    /// The number of accesses that were reported.
    pub fn hits(&self) -> u64 {
        self.0.shared.probe.hits()
    }

    /// The number of changes of the bytes without a reported access.
    pub fn changed_unseen(&self) -> u64 {
        self.0.shared.unseen.load(Ordering::Relaxed)
    }

    /// The number of moves by a handler that were not made: too many were waiting, or the machine refused the address.
    pub fn not_set(&self) -> u64 {
        self.0.shared.not_set.load(Ordering::Relaxed)
    }

    /// Whether its handler runs.
    pub fn is_enabled(&self) -> bool {
        self.0.shared.is_enabled.load(Ordering::Relaxed)
    }

    /// Whether both handles are the same watchpoint.
    pub fn is(&self, other: &Watchpoint) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn count_unseen(&self) {
        self.0.shared.unseen.store(self.changed_unseen().wrapping_add(1), Ordering::Relaxed);
    }

    fn count_not_set(&self) {
        self.0.shared.not_set.store(self.not_set().wrapping_add(1), Ordering::Relaxed);
    }

    /// Sets all counters to zero.
    fn begin(&self) {
        self.0.shared.probe.begin(self.0.area.start);
        self.0.shared.unseen.store(0, Ordering::Relaxed);
        self.0.shared.not_set.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for Watchpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watchpoint({:?}, {} hits)", self.area(), self.hits())
    }
}

/// An access, as a watchpoint's handler sees it. Registers can be read but not set: the CPU is in the middle of its code.
/// [`Hit::pc`] is the address of the accessing instruction.
pub struct WatchHit<'a> {
    hit: Hit<'a>,
    access: &'a Access,
    watchpoint: &'a Watchpoint,
}

impl WatchHit<'_> {
    /// The access that has hit the watchpoint, with the values before and after it.
    pub fn access(&self) -> &Access {
        self.access
    }

    /// The watchpoint that was hit, for its counters and areas.
    pub fn watchpoint(&self) -> &Watchpoint {
        self.watchpoint
    }
}

impl<'a> Deref for WatchHit<'a> {
    type Target = Hit<'a>;
    fn deref(&self) -> &Hit<'a> {
        &self.hit
    }
}

impl DerefMut for WatchHit<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.hit
    }
}

/// The watchpoints of an engine.
#[derive(Default)]
pub(crate) struct Watchpoints {
    list: Vec<Watchpoint>,
    /// The list as the machine got it last. The machine reports an access with its watchpoint's index in this list.
    told: Vec<Watchpoint>,
    /// Whether `list` has changed since then.
    has_changed: bool,
    /// Watchpoints that handlers use as templates: they set copies of them at addresses.
    templates: Vec<Watchpoint>,
}

impl Watchpoints {
    /// Whether the machine watches nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Reports the accesses of an instruction that was computed.
    #[cold]
    pub fn computed(&self, cpu: &mut impl Cpu, state: &mut EngineState, computed: &Computed) {
        let after = cpu.pc();
        cpu.set_pc(computed.pc());
        for access in computed.accesses(cpu.now()) {
            for watchpoint in self.told.iter().filter(|watchpoint| watchpoint.is_enabled()) {
                let area = watchpoint.area();
                let address = if area.physical { cpu.physical_of(access.address) } else { Some(access.address) };
                let is_wanted = if access.is_write { area.writes } else { area.reads };
                let is_touched = address.is_some_and(|address| area.touches(address, access.size));
                if is_wanted && is_touched && area.process.is_none_or(|process| cpu.process() == process) {
                    run(watchpoint, cpu, state, &Access { address: address.unwrap_or(access.address), ..access });
                }
            }
        }
        cpu.set_pc(after);
    }
}

impl Engine {
    /// Makes a watchpoint ready for [`Hit::watch_at`]: clears its counters. Nothing is watched yet.
    pub fn prepare_watchpoint(&mut self, template: &Watchpoint) {
        template.begin();
        self.watch.templates.push(template.clone());
    }

    /// Registers a watchpoint. It watches from the machine's next run on.
    pub fn register_watchpoint(&mut self, guest: &mut dyn Guest, watchpoint: &Watchpoint) -> Result<(), Refusal> {
        let area = watchpoint.area();
        if !guest.can_watch() {
            return Err(Refusal::new(Errno::EOPNOTSUPP, "this guest cannot report accesses to its memory"));
        }
        if area.len == 0 {
            return Err(Refusal::new(Errno::EINVAL, "a watchpoint without bytes: give it a length of at least 1"));
        }
        let is_too_long = area.len > MOST_BYTES || area.start.checked_add(area.len - 1).is_none();
        let last = u64::MAX >> (64 - 8 * self.isa.word.clamp(1, 8));
        if is_too_long || !area.physical && area.start.saturating_add(area.len - 1) > last {
            return Err(Refusal::new(
                Errno::E2BIG,
                "a watchpoint has at most 16 MiB, and ends with the address space: watch fewer bytes",
            ));
        }
        if self.watch.list.iter().any(|known| known.is(watchpoint)) {
            return Err(Refusal::new(Errno::EEXIST, "this watchpoint is registered already"));
        }
        if self.watch.list.len() >= MOST_WATCHPOINTS {
            return Err(Refusal::new(Errno::ENOSPC, "there are 65,536 watchpoints already: remove some"));
        }
        if area.process.is_some() {
            self.follow_tasks(guest);
        }
        if !self.watch.list.iter().any(|known| known.is_of(watchpoint))
            && !self.watch.templates.iter().any(|known| known.is_of(watchpoint))
        {
            watchpoint.begin();
        }
        self.watch.list.push(watchpoint.clone());
        self.watch.has_changed = true;
        Ok(())
    }

    /// Removes a watchpoint, at all addresses where handlers have put it. Its counters stay.
    pub fn unregister_watchpoint(&mut self, watchpoint: &Watchpoint) {
        let before = self.watch.list.len();
        self.watch.list.retain(|known| !known.is_of(watchpoint));
        self.watch.templates.retain(|known| !known.is_of(watchpoint));
        self.state.moves.forget(watchpoint);
        self.watch.has_changed |= self.watch.list.len() != before;
    }

    /// Sets whether a watchpoint watches.
    pub fn enable_watchpoint(&mut self, watchpoint: &Watchpoint, enabled: bool) {
        let was_enabled = watchpoint.is_enabled();
        watchpoint.0.shared.is_enabled.store(enabled, Ordering::Relaxed);
        self.watch.has_changed |= was_enabled != enabled;
    }

    /// The registered watchpoints.
    pub fn watchpoints(&self) -> &[Watchpoint] {
        &self.watch.list
    }

    /// Whether the machine must watch other areas than before.
    #[inline]
    pub fn has_new_areas(&self) -> bool {
        self.watch.has_changed || !self.state.moves.is_done()
    }

    /// The areas that the machine must watch from now on. An access is passed on by its area's number in this list.
    pub fn areas(&mut self) -> Vec<Area> {
        self.watch.has_changed = false;
        self.watch.told.clone_from(&self.watch.list);
        self.state.moves.know(&self.watch.list);
        let area = |watchpoint: &Watchpoint| match watchpoint.is_enabled() {
            true => watchpoint.area(),
            false => Area { reads: false, writes: false, ..watchpoint.area() },
        };
        self.watch.list.iter().map(area).collect()
    }

    /// An access to the area of this number was made. The pc of `cpu` is that of the accessing instruction, in the guest's
    /// own code.
    pub fn accessed(&mut self, cpu: &mut impl Cpu, number: usize, access: &Access) {
        let Some(watchpoint) = self.watch.told.get(number) else { return };
        run(watchpoint, cpu, &mut self.state, access);
    }

    /// The bytes of the area of this number have changed without an access that was reported.
    pub fn changed_unseen(&mut self, number: usize) {
        if let Some(watchpoint) = self.watch.told.get(number) {
            watchpoint.count_unseen();
        }
    }
}

/// Counts an access and calls the watchpoint's handler.
fn run(watchpoint: &Watchpoint, cpu: &mut impl Cpu, state: &mut EngineState, access: &Access) {
    if access.unseen {
        watchpoint.count_unseen();
    }
    if !watchpoint.is_enabled() {
        return;
    }
    watchpoint.0.shared.probe.count_hit();
    let pc = cpu.pc();
    let mut inside = Inside::new(cpu, access.time);
    let hit = Hit::new(&mut inside, &watchpoint.0.shared.probe, pc, state, Stage::After);
    (watchpoint.0.shared.handler)(&mut WatchHit { hit, access, watchpoint });
}
