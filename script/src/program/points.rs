//! Attach points of a compiled script, resolved in the guest.
//!
//! A [`Point`] has a [`PointKind`], with the symbol, address or time that it needs, and conditions of its own. The compiler
//! makes them, `attach` registers a probe or a timer for each, and a hit asks for their conditions.

use alloc::string::String;
use alloc::sync::Arc;
use trapline_probes::tracepoint::Tracepoint;
use trapline_probes::user::{Place, Usdt};
use trapline_probes::watch::Area;

/// A resolved attach point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The kind, with the symbol, address or time that it needs.
    pub kind: PointKind,
    /// Its name, as the builtin `probe` shows it.
    pub name: String,
    /// Its position in the script.
    pub at: crate::error::Span,
    /// Whether its arguments have names and types: fentry and fexit.
    pub is_typed: bool,
    /// Whether it comes from a pattern. A refusal is then no error.
    pub of_pattern: bool,
    /// The system-call tracepoint that this function stands for.
    pub event: Option<SystemCall>,
    /// The hit count: only every Nth hit runs the block. 0 and 1 mean every hit.
    pub every: u64,
    /// A mask and a value: the block runs only if the function's result, masked, equals the value.
    pub result: Option<(u64, u64)>,
    /// The number of the counter of its hits, if only some of them count.
    pub counter: u32,
}

impl Point {
    /// Whether it has conditions of its own.
    pub fn counts_hits(&self) -> bool {
        self.every > 1 || self.result.is_some()
    }

    /// Whether a hit of this point belongs to a process. BEGIN, END and `interval` belong to none; `profile` samples
    /// the running one.
    pub fn is_somebodys(&self) -> bool {
        !matches!(self.kind, PointKind::Begin | PointKind::End | PointKind::Interval(_))
    }
}

/// A system-call tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The name of the call. `None` means all calls.
    pub name: Option<String>,
    /// Whether it is the exit of the call instead of the entry.
    pub exits: bool,
}

/// Kinds of attach point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// BEGIN.
    Begin,
    /// END.
    End,
    /// A kprobe at an offset from a symbol, in bytes.
    Kprobe(String, u64),
    /// A kprobe at an address.
    Address(u64),
    /// A return probe.
    Kretprobe(String),
    /// A probe in a user program: the file's path in the guest, the place in it, and whether it is at returns.
    User(String, Place, bool),
    /// A place in a user program that its author has marked, and the file's path in the guest.
    Usdt(String, Arc<Usdt>),
    /// A tracepoint of the kernel, with its record.
    Tracepoint(Arc<Tracepoint>),
    /// A tracepoint with the arguments of its functions (rawtracepoint).
    RawTracepoint(Arc<Tracepoint>),
    /// A timer on one CPU. Its period is in nanoseconds.
    Interval(u64),
    /// A timer on every CPU, which samples the running code. Its period is in nanoseconds.
    Profile(u64),
    /// Memory.
    Watchpoint(Area),
    /// Memory of an object to which an argument points at a function's entry, or the result at its return, from then on.
    WatchObject {
        /// The name of the function.
        function: String,
        /// The number of the argument, from 0. `None` is the result.
        argument: Option<u8>,
        /// The distance of the watched memory from the object's start.
        offset: u64,
        /// The area, without its address.
        area: Area,
    },
}
