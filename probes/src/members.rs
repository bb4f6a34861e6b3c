//! The probes that share a point. Nearly always it is one, and that needs no memory of its own.

use crate::probe::{Jprobe, Kprobe};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::ops::{Deref, Range};
use trapline_isa::entry::Callee;

/// One probe at a point.
pub(crate) struct Member {
    pub probe: Kprobe,
    pub action: Action,
}

/// What happens when a member's turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Its pre-handler runs.
    Handlers,
    /// The return address is taken by the return probe of that number.
    Return(u32),
    /// The mirror, which its point has.
    Mirror,
    /// The code of the tracepoint of that number runs, and its pre-handler behind that.
    Record(u32),
}

/// A jprobe that is registered.
pub(crate) struct Mirror {
    pub jprobe: Jprobe,
    /// The handler, if it is guest code.
    pub entry: Option<Callee>,
    /// Where the breakpoint lies that ends it.
    pub returns_in: Range<u64>,
    /// The handler is made to return to the breakpoint, for the guest has no `jprobe_return`.
    pub by_return: bool,
}

/// All probes of a point, a slice to look at.
#[derive(Default)]
pub(crate) enum Members {
    #[default]
    None,
    One(Member),
    Several(Box<Several>),
}

pub(crate) struct Several(Vec<Member>);

impl Deref for Members {
    type Target = [Member];

    #[inline]
    fn deref(&self) -> &[Member] {
        match self {
            Members::One(member) => core::slice::from_ref(member),
            Members::None => &[],
            Members::Several(several) => &several.0,
        }
    }
}

impl Members {
    /// Puts one in front of number `at`, or behind all.
    pub fn insert(&mut self, at: usize, member: Member) {
        let mut all = self.take_all();
        if all.is_empty() {
            *self = Members::One(member);
        } else {
            all.insert(at.min(all.len()), member);
            *self = Members::Several(Box::new(Several(all)));
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, at: usize) -> Option<Member> {
        let mut all = self.take_all();
        let removed = (at < all.len()).then(|| all.remove(at));
        *self = match all.pop() {
            None => Members::None,
            Some(only) if all.is_empty() => Members::One(only),
            Some(last) => {
                all.push(last);
                Members::Several(Box::new(Several(all)))
            }
        };
        removed
    }

    fn take_all(&mut self) -> Vec<Member> {
        match mem::take(self) {
            Members::None => Vec::new(),
            Members::One(member) => Vec::from([member]),
            Members::Several(several) => several.0,
        }
    }
}
