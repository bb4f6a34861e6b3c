//! The addresses that must not be probed: the guest kernel's own blacklist (NOKPROBE_SYMBOL and the like) plus the
//! ranges that the user adds. Registration (`place.rs`) asks here, and debugfs `kprobes/blacklist` shows the list.

use crate::engine::Engine;
use crate::guest::{Blacklisted, Guest};
use crate::place::Place;
use alloc::string::String;
use core::ops::Range;
use trapline_isa::plan::Policy;

impl Engine {
    /// Adds a range, as NOKPROBE_SYMBOL does. Probes that are registered in it already stay.
    pub fn blacklist_add(&mut self, range: Range<u64>, name: impl Into<String>) {
        self.blacklist.push(Blacklisted { range, name: name.into(), listed: true });
    }

    /// The blacklist entry that forbids this place, or `None`. Under [`Policy::Outside`] the user's entries alone count.
    pub(crate) fn blacklisted<'a>(&'a self, guest: &'a dyn Guest, place: &Place) -> Option<&'a Blacklisted> {
        if self.policy == Policy::Outside {
            return self.blacklist.iter().find(|entry| entry.range.contains(&place.address));
        }
        self.forbidden_by_linux(guest, place)
    }

    /// The entry of the guest's or the user's list that covers this place, whatever the policy is.
    pub(crate) fn forbidden_by_linux<'a>(&'a self, guest: &'a dyn Guest, place: &Place) -> Option<&'a Blacklisted> {
        let covers = |address: u64| self.entries(guest).find(move |entry| entry.range.contains(&address));
        covers(place.address).or_else(|| {
            // A compiler's clone `foo.constprop.0` is forbidden if `foo` is.
            let (stem, _) = place.symbol.name.split_once('.')?;
            covers(guest.symbol(stem)?.start)
        })
    }

    /// The whole list: the guest's entries first, then the user's.
    pub(crate) fn entries<'a>(&'a self, guest: &'a dyn Guest) -> impl Iterator<Item = &'a Blacklisted> + 'a {
        guest.blacklist().iter().chain(&self.blacklist)
    }
}
