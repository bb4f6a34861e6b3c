//! What must not be probed: the guest's own list, and what the user adds to it.

use crate::engine::Engine;
use crate::guest::{Blacklisted, Guest};
use crate::place::Place;
use alloc::string::String;
use core::ops::Range;

impl Engine {
    /// Adds a range, as NOKPROBE_SYMBOL does. Probes that stand there already stay.
    pub fn blacklist_add(&mut self, range: Range<u64>, name: impl Into<String>) {
        self.blacklist.push(Blacklisted { range, name: name.into(), listed: true });
    }

    /// The entry that forbids the place, if one does.
    pub(crate) fn blacklisted<'a>(&'a self, guest: &'a dyn Guest, place: &Place) -> Option<&'a Blacklisted> {
        let covers = |address: u64| self.entries(guest).find(move |entry| entry.range.contains(&address));
        covers(place.address).or_else(|| {
            // `foo.constprop.0` is forbidden with `foo`.
            let (stem, _) = place.symbol.name.split_once('.')?;
            covers(guest.symbol(stem)?.start)
        })
    }

    /// The whole list, the user's entries behind the guest's.
    pub(crate) fn entries<'a>(&'a self, guest: &'a dyn Guest) -> impl Iterator<Item = &'a Blacklisted> + 'a {
        guest.blacklist().iter().chain(&self.blacklist)
    }
}
