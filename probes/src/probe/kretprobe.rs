//! [`Kretprobe`]: the handle of a return probe, as Linux's `struct kretprobe`. It holds the settings, the handlers and
//! the counters; clones share them. `retprobe.rs` follows the calls.

use super::{Flow, Kind, Kprobe, ReturnHit, bump};
use crate::counter::Counter;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

type EntryHandler = dyn Fn(&mut ReturnHit<'_>) -> Flow + Send + Sync;
type ReturnHandler = dyn Fn(&mut ReturnHit<'_>) + Send + Sync;

/// A return probe: a kprobe at a function's entry, and a handler that runs when the function returns.
#[derive(Clone)]
pub struct Kretprobe(Arc<ReturnObject>);

struct ReturnObject {
    kprobe: Kprobe,
    entry: Option<Arc<EntryHandler>>,
    handler: Option<Arc<ReturnHandler>>,
    maxactive: i32,
    data_size: usize,
    active: AtomicU32,
    nmissed: Counter,
    returns: Counter,
    abandoned: Counter,
    declined: Counter,
}

/// A copy is a new probe with its own counters.
impl Clone for ReturnObject {
    fn clone(&self) -> Self {
        ReturnObject {
            kprobe: self.kprobe.another(),
            entry: self.entry.clone(),
            handler: self.handler.clone(),
            maxactive: self.maxactive,
            data_size: self.data_size,
            active: AtomicU32::new(0),
            nmissed: Counter::new(0),
            returns: Counter::new(0),
            abandoned: Counter::new(0),
            declined: Counter::new(0),
        }
    }
}

impl Kretprobe {
    /// A return probe on a function, by name.
    pub fn at(symbol: impl Into<String>) -> Kretprobe {
        Kretprobe::on(Kprobe::at(symbol))
    }

    /// A return probe on a function, by address.
    pub fn at_address(address: u64) -> Kretprobe {
        Kretprobe::on(Kprobe::at_address(address))
    }

    /// A return probe at the place of a kprobe that is not registered. The kprobe's flags and fault handler apply; its
    /// other handlers do not run.
    pub fn on(kprobe: Kprobe) -> Kretprobe {
        let kprobe = kprobe.of_kind(Kind::Kretprobe);
        Kretprobe(Arc::new(ReturnObject {
            kprobe,
            entry: None,
            handler: None,
            maxactive: 0,
            data_size: 0,
            active: AtomicU32::new(0),
            nmissed: Counter::new(0),
            returns: Counter::new(0),
            abandoned: Counter::new(0),
            declined: Counter::new(0),
        }))
    }

    /// Sets the entry handler. If it returns [`Flow::Redirected`], the call is not followed.
    pub fn entry(self, handler: impl Fn(&mut ReturnHit<'_>) -> Flow + Send + Sync + 'static) -> Kretprobe {
        self.change(|object| object.entry = Some(Arc::new(handler)))
    }

    /// Sets the handler that runs at the return.
    pub fn handler(self, handler: impl Fn(&mut ReturnHit<'_>) + Send + Sync + 'static) -> Kretprobe {
        self.change(|object| object.handler = Some(Arc::new(handler)))
    }

    /// Sets how many calls can be followed at a time. 0 or less means all of them: the number begins with max(10, 2 x
    /// CPUs) and grows when needed. Under a policy of Linux it stays there.
    pub fn maxactive(self, maxactive: i32) -> Kretprobe {
        self.change(|object| object.maxactive = maxactive)
    }

    /// Sets the size of the private data that the entry and return handler of one call share, in bytes.
    pub fn data_size(self, bytes: usize) -> Kretprobe {
        self.change(|object| object.data_size = bytes)
    }

    /// Registers the probe disabled.
    pub fn disabled(self) -> Kretprobe {
        self.change(|object| object.kprobe = object.kprobe.another().disabled())
    }

    /// Marks the probe as internal to the machine: lists and summaries omit it.
    pub fn internal(self) -> Kretprobe {
        self.change(|object| object.kprobe = object.kprobe.another().internal())
    }

    fn change(mut self, change: impl FnOnce(&mut ReturnObject)) -> Kretprobe {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The kprobe at the entry, with address, flags, hits (calls seen) and misses by re-entry.
    #[inline]
    pub fn kprobe(&self) -> &Kprobe {
        &self.0.kprobe
    }

    /// Whether both handles are the same probe.
    pub fn is(&self, other: &Kretprobe) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The limit of calls that are followed at a time. Before registration it is the requested value, then the real
    /// limit. If the limit can grow, this is its first value.
    pub fn active_limit(&self) -> i32 {
        match self.0.active.load(Ordering::Relaxed) {
            0 => self.0.maxactive,
            limit => limit as i32,
        }
    }

    /// Calls that were not followed because all instances were in use.
    pub fn nmissed(&self) -> u64 {
        self.0.nmissed.load(Ordering::Relaxed)
    }

    /// Returns for which the return handler's turn came.
    pub fn returns(&self) -> u64 {
        self.0.returns.load(Ordering::Relaxed)
    }

    /// Calls that will never return, because their task has exited or has left them by a longjmp.
    pub fn abandoned(&self) -> u64 {
        self.0.abandoned.load(Ordering::Relaxed)
    }

    /// Calls that the entry handler did not want to follow.
    pub fn declined(&self) -> u64 {
        self.0.declined.load(Ordering::Relaxed)
    }

    /// Calls seen at entry.
    pub fn hits(&self) -> u64 {
        self.0.kprobe.hits()
    }

    pub(crate) fn wanted_maxactive(&self) -> i32 {
        self.0.maxactive
    }

    #[inline]
    pub(crate) fn wanted_data_size(&self) -> usize {
        self.0.data_size
    }

    #[inline]
    pub(crate) fn entry_handler(&self) -> Option<&EntryHandler> {
        self.0.entry.as_deref()
    }

    #[inline]
    pub(crate) fn return_handler(&self) -> Option<&ReturnHandler> {
        self.0.handler.as_deref()
    }

    pub(crate) fn begin(&self, active: u32) {
        self.0.active.store(active, Ordering::Relaxed);
        self.0.nmissed.store(0, Ordering::Relaxed);
        self.0.returns.store(0, Ordering::Relaxed);
        self.0.abandoned.store(0, Ordering::Relaxed);
        self.0.declined.store(0, Ordering::Relaxed);
    }

    pub(crate) fn count_missed(&self) {
        bump(&self.0.nmissed);
    }

    pub(crate) fn count_abandoned(&self) {
        bump(&self.0.abandoned);
    }

    pub(crate) fn count_declined(&self) {
        bump(&self.0.declined);
    }

    #[inline]
    pub(crate) fn count_return(&self) {
        bump(&self.0.returns);
    }
}

impl fmt::Debug for Kretprobe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kretprobe({})", self.0.kprobe)
    }
}
