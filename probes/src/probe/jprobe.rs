//! [`Jprobe`]: the handle of a jprobe.

use super::{Hit, Kind, Kprobe, PostHandler};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

/// A probe at a function's entry. Its handler sees the function's registers and stack, and its changes do not reach the
/// function.
#[derive(Clone)]
pub struct Jprobe(Arc<MirrorObject>);

#[derive(Clone)]
struct MirrorObject {
    kprobe: Kprobe,
    handler: Option<MirrorHandler>,
    returns_in: Option<Range<u64>>,
}

#[derive(Clone)]
pub(crate) enum MirrorHandler {
    Host(Arc<PostHandler>),
    Symbol(String),
    Address(u64),
}

impl Jprobe {
    /// A jprobe at a function, by name.
    pub fn at(symbol: impl Into<String>) -> Jprobe {
        Jprobe::on(Kprobe::at(symbol))
    }

    /// A jprobe at a function, by address.
    pub fn at_address(address: u64) -> Jprobe {
        Jprobe::on(Kprobe::at_address(address))
    }

    /// A jprobe at the place of a kprobe that is not registered. The kprobe's post-handler and fault handler run, its
    /// pre-handler does not.
    pub fn on(kprobe: Kprobe) -> Jprobe {
        Jprobe(Arc::new(MirrorObject { kprobe: kprobe.of_kind(Kind::Jprobe), handler: None, returns_in: None }))
    }

    /// Sets a handler on the host. `hit.arg(n)` returns the function's arguments.
    pub fn host(self, handler: impl Fn(&mut Hit<'_>) + Send + Sync + 'static) -> Jprobe {
        self.change(|object| object.handler = Some(MirrorHandler::Host(Arc::new(handler))))
    }

    /// Sets a handler in the guest, by name. It ends by `jprobe_return`, or by returning if the guest has no such
    /// function.
    pub fn guest(self, symbol: impl Into<String>) -> Jprobe {
        self.change(|object| object.handler = Some(MirrorHandler::Symbol(symbol.into())))
    }

    /// Sets a handler in the guest, by address.
    pub fn guest_address(self, address: u64) -> Jprobe {
        self.change(|object| object.handler = Some(MirrorHandler::Address(address)))
    }

    /// Sets the range of the breakpoint that ends a handler in the guest. The default is from `jprobe_return` to
    /// `jprobe_return_end`.
    pub fn returns_in(self, range: Range<u64>) -> Jprobe {
        self.change(|object| object.returns_in = Some(range))
    }

    /// Registers the probe disabled.
    pub fn disabled(self) -> Jprobe {
        self.change(|object| object.kprobe = object.kprobe.another().disabled())
    }

    fn change(mut self, change: impl FnOnce(&mut MirrorObject)) -> Jprobe {
        if Arc::get_mut(&mut self.0).is_none() {
            let mut copy = MirrorObject::clone(&self.0);
            copy.kprobe = copy.kprobe.another();
            self = Jprobe(Arc::new(copy));
        }
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The kprobe at the entry, with address, flags and counters.
    pub fn kprobe(&self) -> &Kprobe {
        &self.0.kprobe
    }

    /// The number of times that its handler ran.
    pub fn hits(&self) -> u64 {
        self.0.kprobe.hits()
    }

    pub(crate) fn mirror_handler(&self) -> Option<&MirrorHandler> {
        self.0.handler.as_ref()
    }

    pub(crate) fn wanted_returns_in(&self) -> Option<Range<u64>> {
        self.0.returns_in.clone()
    }
}

impl fmt::Debug for Jprobe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jprobe({})", self.0.kprobe)
    }
}
