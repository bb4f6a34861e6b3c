//! A probe in a user program: its file, its place, its handler and its counters.
//!
//! Users make a [`UserProbe`] at a [`Place`] of a file and register it with the engine. Its handler and counters are those of a
//! [`Kprobe`] or a [`Kretprobe`] that is never put into the kernel's text.

use crate::context::{Hit, ReturnHit};
use crate::probe::{Flow, Kprobe, Kretprobe};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

/// A probe at an instruction of a program's file, or at the returns of a function that begins there.
///
/// A clone is the same probe. Handlers get a [`Hit`] whose registers and memory are those of the program; they cannot
/// change either.
#[derive(Clone)]
pub struct UserProbe(pub(super) Arc<Object>);

/// The state that all clones of a probe share.
pub(super) struct Object {
    path: String,
    place: Place,
    pub(super) carrier: Carrier,
    /// See [`UserProbe::is_by_content`].
    pub(super) by_content: AtomicBool,
}

/// The handlers and counters. These probes are never put into the kernel's text.
pub(super) enum Carrier {
    Entry(Kprobe),
    Return(Kretprobe),
}

/// The place of a user probe in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The distance in bytes from the file's start.
    Offset(u64),
    /// A symbol of the file, and the distance in bytes from it.
    Symbol(String, u64),
}

/// `0x1234`, `main` or `main+4`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Offset(offset) => write!(f, "{offset:#x}"),
            Place::Symbol(name, 0) => f.write_str(name),
            Place::Symbol(name, offset) => write!(f, "{name}+{offset}"),
        }
    }
}

impl UserProbe {
    /// A probe that runs this handler before the instruction at the place. `path` is the file's path in the guest.
    pub fn at(path: impl Into<String>, place: Place, handler: impl Fn(&mut Hit<'_>) + Send + Sync + 'static) -> UserProbe {
        let carrier = Kprobe::new().pre(move |hit| {
            handler(hit);
            Flow::Continue
        });
        UserProbe::of(path, place, Carrier::Entry(carrier))
    }

    /// A probe that runs this handler when a function that begins at the place returns.
    pub fn returning(
        path: impl Into<String>,
        place: Place,
        handler: impl Fn(&mut ReturnHit<'_>) + Send + Sync + 'static,
    ) -> UserProbe {
        UserProbe::of(path, place, Carrier::Return(Kretprobe::on(Kprobe::new()).handler(handler)))
    }

    fn of(path: impl Into<String>, place: Place, carrier: Carrier) -> UserProbe {
        UserProbe(Arc::new(Object { path: path.into(), place, carrier, by_content: AtomicBool::new(false) }))
    }

    /// The path of the file in the guest, as it was given.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The place in the file.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Whether the probe is at a function's returns.
    pub fn returns(&self) -> bool {
        matches!(self.0.carrier, Carrier::Return(_))
    }

    /// The number of times that its handler ran.
    pub fn hits(&self) -> u64 {
        match &self.0.carrier {
            Carrier::Entry(probe) => probe.hits(),
            Carrier::Return(probe) => probe.returns(),
        }
    }

    /// Calls whose return could not be followed.
    pub fn missed(&self) -> u64 {
        match &self.0.carrier {
            Carrier::Entry(_) => 0,
            Carrier::Return(probe) => probe.nmissed(),
        }
    }

    /// Whether pages of its file are recognised by their content, because the kernel's structures are not known.
    pub fn is_by_content(&self) -> bool {
        self.0.by_content.load(Ordering::Relaxed)
    }

    /// Whether both handles are the same probe.
    pub fn is(&self, other: &UserProbe) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its handler does not run at present.
    pub fn is_disabled(&self) -> bool {
        self.kprobe().is_disabled()
    }

    /// Disables or enables its handler.
    pub fn set_disabled(&self, disabled: bool) {
        self.kprobe().set_disabled(disabled);
    }

    /// The handler and counters, as a probe that is never in the kernel.
    pub(super) fn kprobe(&self) -> &Kprobe {
        match &self.0.carrier {
            Carrier::Entry(probe) => probe,
            Carrier::Return(probe) => probe.kprobe(),
        }
    }
}

/// `/bin/busybox:main`
impl fmt::Display for UserProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path(), self.place())
    }
}

impl fmt::Debug for UserProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserProbe({} {self})", if self.returns() { 'r' } else { 'p' })
    }
}
