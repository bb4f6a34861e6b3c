//! The probes that share a point. Almost every point has one, so a single member is stored without an allocation of its
//! own.

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

/// The effect of a member when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Its pre-handler runs.
    Handlers,
    /// The return probe whose pool has this number takes the return address.
    Return(u32),
    /// The jprobe of the point runs.
    Mirror,
    /// The code of the tracepoint with this number runs, then the pre-handler.
    Record(u32),
}

/// A registered jprobe.
pub(crate) struct Mirror {
    pub jprobe: Jprobe,
    /// The handler's entry, if it is guest code.
    pub entry: Option<Callee>,
    /// The range of the breakpoint that ends the handler.
    pub returns_in: Range<u64>,
    /// The handler's return address is set to the breakpoint, because the guest has no `jprobe_return`.
    pub by_return: bool,
}

/// All probes of a point. Dereferences to a slice.
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
    /// Inserts a member at index `at`, or at the end.
    pub fn insert(&mut self, at: usize, member: Member) {
        let mut all = self.take_all();
        if all.is_empty() {
            *self = Members::One(member);
        } else {
            all.insert(at.min(all.len()), member);
            *self = Members::Several(Box::new(Several(all)));
        }
    }

    /// Removes the member at index `at`.
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
