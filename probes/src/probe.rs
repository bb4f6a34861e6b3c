//! The probe types that users create: [`Kprobe`], [`Jprobe`] and [`Kretprobe`], with builders, counters and flags.
//!
//! Each is a cheap handle: a clone is the same probe, and the engine compares probes by identity. A builder call on a
//! handle that has been cloned makes a new probe, so a registered probe never changes.

mod jprobe;
mod kretprobe;

pub use crate::context::{FaultInfo, Frame, Hit, ReturnHit};
pub use jprobe::Jprobe;
pub(crate) use jprobe::MirrorHandler;
pub use kretprobe::Kretprobe;

use crate::counter::Counter;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// A handler's decision about what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Linux's 0. The instruction is executed. A return probe follows the call.
    #[default]
    Continue,
    /// Linux's nonzero. From a pre-handler: it has changed the pc, so the instruction, the post-handler and later
    /// handlers at the address do not run. From a return probe's entry handler: the call is not followed.
    Redirected,
}

type PreHandler = dyn Fn(&mut Hit<'_>) -> Flow + Send + Sync;
type PostHandler = dyn Fn(&mut Hit<'_>) + Send + Sync;
type FaultHandler = dyn Fn(&mut Hit<'_>, &FaultInfo) -> bool + Send + Sync;

/// The type of a probe, as the second column of the debugfs list shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `k`
    #[default]
    Kprobe,
    /// `r`
    Kretprobe,
    /// `j`
    Jprobe,
}

impl Kind {
    /// The letter in the debugfs list.
    pub const fn letter(self) -> char {
        match self {
            Kind::Kprobe => 'k',
            Kind::Kretprobe => 'r',
            Kind::Jprobe => 'j',
        }
    }
}

/// A breakpoint probe.
#[derive(Clone, Default)]
pub struct Kprobe(Arc<Object>);

#[derive(Default)]
struct Object {
    wanted: Wanted,
    state: State,
}

/// The settings made by the builder. They never change after registration. There may be very many probes, so rarely
/// used fields are in [`Rare`].
struct Wanted {
    /// 0 means none.
    address: u64,
    /// A closure without captures takes no heap memory.
    pre: Box<PreHandler>,
    rare: Option<Box<Rare>>,
    offset: u32,
    disabled: bool,
    internal: bool,
    kind: Kind,
}

#[derive(Clone, Default)]
struct Rare {
    symbol: Option<Box<str>>,
    post: Option<Arc<PostHandler>>,
    fault: Option<Arc<FaultHandler>>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        let (pre, kind) = (Box::new(|_: &mut Hit<'_>| Flow::Continue), Kind::default());
        Wanted { address: 0, pre, rare: None, offset: 0, disabled: false, internal: false, kind }
    }
}

impl Wanted {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// A copy of another probe's settings. Its pre-handler calls the other probe's.
    fn like(probe: &Kprobe) -> Wanted {
        let Wanted { address, pre: _, rare, offset, disabled, internal, kind } = &probe.0.wanted;
        let (address, rare, offset) = (*address, rare.clone(), *offset);
        let probe = probe.clone();
        let pre = Box::new(move |hit: &mut Hit<'_>| (probe.0.wanted.pre)(hit));
        Wanted { address, pre, rare, offset, disabled: *disabled, internal: *internal, kind: *kind }
    }
}

/// The state that the engine updates. Atomic, so that any thread can read it; only the engine writes.
#[derive(Default)]
struct State {
    address: Counter,
    flags: AtomicU32,
    hits: Counter,
    nmissed: Counter,
    skipped: Counter,
    passed: Counter,
}

impl Object {
    fn new(wanted: Wanted) -> Object {
        let state = State { address: Counter::new(wanted.address), ..State::default() };
        Object { wanted, state }
    }
}

const GONE: u32 = 1;
const DISABLED: u32 = 2;
const INTERNAL: u32 = 4;

/// Increments a counter. There is one writer, so no atomic read-modify-write is needed.
#[inline]
fn bump(counter: &Counter) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Kprobe {
    /// A probe without an address.
    pub fn new() -> Kprobe {
        Kprobe::default()
    }

    /// A probe at a symbol.
    pub fn at(symbol: impl Into<String>) -> Kprobe {
        Kprobe::new().symbol(symbol)
    }

    /// A probe at an address.
    pub fn at_address(address: u64) -> Kprobe {
        Kprobe::new().with_address(address)
    }

    /// Names the symbol. Together with an address this is refused at registration.
    pub fn symbol(self, symbol: impl Into<String>) -> Kprobe {
        let symbol: String = symbol.into();
        self.change(|wanted| wanted.rare().symbol = Some(symbol.into()))
    }

    /// Names the address. Together with a symbol this is refused at registration.
    pub fn with_address(self, address: u64) -> Kprobe {
        self.change(|wanted| wanted.address = address)
    }

    /// Adds an offset in bytes to the symbol or address.
    pub fn offset(self, offset: u32) -> Kprobe {
        self.change(|wanted| wanted.offset = offset)
    }

    /// Sets the pre-handler, which runs before the probed instruction.
    pub fn pre(self, handler: impl Fn(&mut Hit<'_>) -> Flow + Send + Sync + 'static) -> Kprobe {
        self.change(|wanted| wanted.pre = Box::new(handler))
    }

    /// Sets the post-handler, which runs after the probed instruction.
    pub fn post(self, handler: impl Fn(&mut Hit<'_>) + Send + Sync + 'static) -> Kprobe {
        self.change(|wanted| wanted.rare().post = Some(Arc::new(handler)))
    }

    /// Sets the fault handler. It runs when a handler's access to guest memory faults, or the probed instruction does.
    /// It returns true if it has handled the fault.
    pub fn fault(self, handler: impl Fn(&mut Hit<'_>, &FaultInfo) -> bool + Send + Sync + 'static) -> Kprobe {
        self.change(|wanted| wanted.rare().fault = Some(Arc::new(handler)))
    }

    /// Registers the probe disabled.
    pub fn disabled(self) -> Kprobe {
        self.change(|wanted| wanted.disabled = true)
    }

    /// Marks the probe as internal to the machine: lists and summaries omit it.
    pub fn internal(self) -> Kprobe {
        self.change(|wanted| wanted.internal = true)
    }

    /// Applies a builder call. If the handle has been cloned, makes a new probe and leaves the others unchanged.
    fn change(self, change: impl FnOnce(&mut Wanted)) -> Kprobe {
        let mut wanted = match Arc::try_unwrap(self.0) {
            Ok(object) => object.wanted,
            Err(shared) => Wanted::like(&Kprobe(shared)),
        };
        change(&mut wanted);
        Kprobe(Arc::new(Object::new(wanted)))
    }

    fn of_kind(self, kind: Kind) -> Kprobe {
        self.change(|wanted| wanted.kind = kind)
    }

    fn another(&self) -> Kprobe {
        Kprobe(Arc::new(Object::new(Wanted::like(self))))
    }

    /// Whether both handles are the same probe.
    pub fn is(&self, other: &Kprobe) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The symbol that was asked for.
    pub fn symbol_name(&self) -> Option<&str> {
        self.0.wanted.rare.as_ref()?.symbol.as_deref()
    }

    /// The offset that was asked for.
    pub fn symbol_offset(&self) -> u32 {
        self.0.wanted.offset
    }

    /// Its address once registered. `None` after an unregistration that did not know the probe.
    pub fn address(&self) -> Option<u64> {
        Some(self.0.state.address.load(Ordering::Relaxed)).filter(|address| *address != 0)
    }

    /// The number of times that its handlers ran.
    pub fn hits(&self) -> u64 {
        self.0.state.hits.load(Ordering::Relaxed)
    }

    /// The number of hits while another probe was being processed on that CPU. The handlers did not run.
    pub fn nmissed(&self) -> u64 {
        self.0.state.nmissed.load(Ordering::Relaxed)
    }

    /// The number of hits that a newer probe's handler at the same address ended before this one's turn.
    pub fn skipped(&self) -> u64 {
        self.0.state.skipped.load(Ordering::Relaxed)
    }

    /// The number of times that execution reached it while the guest read or changed its own text, and no probe was in the text.
    pub fn passed(&self) -> u64 {
        self.0.state.passed.load(Ordering::Relaxed)
    }

    /// Whether its text has been freed.
    pub fn is_gone(&self) -> bool {
        self.0.state.flags.load(Ordering::Relaxed) & GONE != 0
    }

    /// Whether its handlers do not run, because it is disabled or gone.
    #[inline]
    pub fn is_disabled(&self) -> bool {
        self.0.state.flags.load(Ordering::Relaxed) & (GONE | DISABLED) != 0
    }

    /// Whether it is enabled and not internal.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.state.flags.load(Ordering::Relaxed) == 0
    }

    /// Whether it is internal to the machine.
    pub fn is_internal(&self) -> bool {
        self.0.wanted.internal
    }

    /// The type of the probe.
    pub fn kind(&self) -> Kind {
        self.0.wanted.kind
    }

    /// The address that was asked for. `None` once an unregistration that did not know the probe has cleared it.
    pub(crate) fn wanted_address(&self) -> Option<u64> {
        Some(self.0.wanted.address).filter(|address| *address != 0 && self.address().is_some())
    }

    #[inline]
    pub(crate) fn post_handler(&self) -> Option<&PostHandler> {
        self.0.wanted.rare.as_ref()?.post.as_deref()
    }

    pub(crate) fn fault_handler(&self) -> Option<&FaultHandler> {
        self.0.wanted.rare.as_ref()?.fault.as_deref()
    }

    /// Resets counters and flags at registration.
    pub(crate) fn begin(&self, address: u64) {
        let state = &self.0.state;
        state.address.store(address, Ordering::Relaxed);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        state.flags.store(flag(self.0.wanted.disabled, DISABLED) | flag(self.0.wanted.internal, INTERNAL), Ordering::Relaxed);
        for counter in [&state.hits, &state.nmissed, &state.skipped, &state.passed] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn clear_address(&self) {
        self.0.state.address.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_disabled(&self, disabled: bool) {
        let flags = self.0.state.flags.load(Ordering::Relaxed) & !DISABLED;
        self.0.state.flags.store(flags | if disabled { DISABLED } else { 0 }, Ordering::Relaxed);
    }

    pub(crate) fn set_gone(&self) {
        self.0.state.flags.store(self.0.state.flags.load(Ordering::Relaxed) | GONE, Ordering::Relaxed);
    }

    /// Counts a hit and returns the pre-handler.
    #[inline]
    pub(crate) fn count_hit(&self) -> &PreHandler {
        let Object { wanted, state } = &*self.0;
        bump(&state.hits);
        &*wanted.pre
    }

    pub(crate) fn count_missed(&self) {
        bump(&self.0.state.nmissed);
    }

    pub(crate) fn count_passed(&self) {
        bump(&self.0.state.passed);
    }

    pub(crate) fn count_skipped(&self) {
        bump(&self.0.state.skipped);
    }
}

/// The place that was asked for: `vfs_read+0x4`.
impl fmt::Display for Kprobe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.symbol_name(), self.address().or(Some(self.0.wanted.address).filter(|address| *address != 0))) {
            (Some(name), _) => f.write_str(name)?,
            (None, Some(address)) => return write!(f, "{address:#x}"),
            (None, None) => f.write_str("a probe without a place")?,
        }
        if self.symbol_offset() != 0 { write!(f, "+{:#x}", self.symbol_offset()) } else { Ok(()) }
    }
}

impl fmt::Debug for Kprobe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kprobe({} {self})", self.kind().letter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OH-3: a probe takes this size plus the two counters of its `Arc`.
    #[test]
    fn a_probe_is_small() {
        assert_eq!(size_of::<Object>(), 88);
    }
}
