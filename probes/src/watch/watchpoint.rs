//! A watchpoint: its area, its handler and its counters.
//!
//! Users make a [`Watchpoint`] and register it with the engine. A handler may ask for copies of one at other addresses. All copies
//! share the handler, the counters and the switch.

use super::{Area, WatchHit};
use crate::counter::Counter;
use crate::probe::Kprobe;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

type Handler = dyn Fn(&mut WatchHit<'_>) + Send + Sync;

/// A watchpoint. A clone is the same watchpoint.
#[derive(Clone)]
pub struct Watchpoint(pub(super) Arc<Object>);

/// The state that all clones of a watchpoint share.
pub(super) struct Object {
    pub(super) area: Area,
    pub(super) shared: Arc<Shared>,
}

/// The parts that a watchpoint shares with its copies at other addresses ([`Watchpoint::moved_to`]).
pub(super) struct Shared {
    pub(super) handler: Box<Handler>,
    /// Counts the hits, and is the probe of [`Hit::probe`].
    pub(super) probe: Kprobe,
    pub(super) is_enabled: AtomicBool,
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
    pub(super) fn moved_to(&self, address: u64) -> Watchpoint {
        let area = Area { start: address, ..self.0.area };
        Watchpoint(Arc::new(Object { area, shared: Arc::clone(&self.0.shared) }))
    }

    /// Whether both are copies of one watchpoint, perhaps at other addresses.
    pub(super) fn is_of(&self, other: &Watchpoint) -> bool {
        Arc::ptr_eq(&self.0.shared, &other.0.shared)
    }

    /// A number that tells it from every other watchpoint that exists, but not from its copies at other addresses.
    pub(super) fn identity(&self) -> usize {
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

    pub(super) fn count_unseen(&self) {
        self.0.shared.unseen.store(self.changed_unseen().wrapping_add(1), Ordering::Relaxed);
    }

    pub(super) fn count_not_set(&self) {
        self.0.shared.not_set.store(self.not_set().wrapping_add(1), Ordering::Relaxed);
    }

    /// Sets all counters to zero.
    pub(super) fn begin(&self) {
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
