//! Watchpoints that handlers set at addresses and remove again: an object is watched from its allocation to its end.
//!
//! A handler asks for a change ([`Hit::watch_at`], a trigger, a script). The engine carries it out when the machine stands
//! still, at the next block that a taken branch reaches.

use super::Watchpoint;
use crate::context::Hit;
use crate::engine::Engine;
use crate::guest::Guest;
use alloc::vec::Vec;

/// The largest number of changes that wait for the machine's next stop. Room for them is made once, so that a hit
/// allocates nothing.
const MOST_WAITING: usize = 256;

/// A change that a handler asks for.
struct Request {
    template: Watchpoint,
    /// `None`: every address at which a handler has set it.
    address: Option<u64>,
    sets: bool,
}

/// The outcome of a request to move a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The watchpoint already has the wanted state.
    IsSo,
    /// The change waits for the machine's next stop.
    Waits,
    /// Too many changes wait.
    TooMany,
}

/// The changes that wait, and the addresses at which the machine watches.
pub(crate) struct Moves {
    waiting: Vec<Request>,
    /// The identity of each watchpoint that the machine knows, and its address, sorted.
    known: Vec<(usize, u64)>,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves { waiting: Vec::with_capacity(MOST_WAITING), known: Vec::new() }
    }
}

impl Moves {
    /// Asks for a watchpoint at an address, or for its removal from there. `None` removes it from all addresses.
    pub fn ask(&mut self, template: &Watchpoint, address: Option<u64>, sets: bool) -> Asked {
        let identity = template.identity();
        let is_known = match address {
            Some(address) => self.known.binary_search(&(identity, address)).is_ok(),
            None => {
                let first = self.known.partition_point(|known| known.0 < identity);
                self.known.get(first).is_some_and(|known| known.0 == identity)
            }
        };
        if is_known == sets && !self.waiting.iter().any(|request| request.template.is_of(template)) {
            return Asked::IsSo;
        }
        if self.waiting.len() >= MOST_WAITING {
            if sets {
                template.count_not_set();
            }
            return Asked::TooMany;
        }
        self.waiting.push(Request { template: template.clone(), address, sets });
        Asked::Waits
    }

    /// Whether no change waits.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops the changes that wait for a watchpoint.
    pub fn forget(&mut self, template: &Watchpoint) {
        self.waiting.retain(|request| !request.template.is_of(template));
    }

    /// Replaces the list of watchpoints that the machine has.
    pub fn know(&mut self, list: &[Watchpoint]) {
        self.known.clear();
        self.known.extend(list.iter().map(|watchpoint| (watchpoint.identity(), watchpoint.0.area.start)));
        self.known.sort_unstable();
    }
}

impl Hit<'_> {
    /// Asks for a copy of a watchpoint at another address, from the next taken branch on. The copy has the length, accesses,
    /// handler and counters of `template`. Returns false if too many changes wait, which [`Watchpoint::not_set`] counts.
    pub fn watch_at(&mut self, template: &Watchpoint, address: u64) -> bool {
        self.ask(template, Some(address), true)
    }

    /// Asks to remove the watchpoint that [`Hit::watch_at`] has set at this address. Returns false if too many changes wait.
    pub fn unwatch_at(&mut self, template: &Watchpoint, address: u64) -> bool {
        self.ask(template, Some(address), false)
    }

    fn ask(&mut self, template: &Watchpoint, address: Option<u64>, sets: bool) -> bool {
        let (cpu, state) = self.parts();
        let asked = state.moves.ask(template, address, sets);
        if asked == Asked::Waits {
            cpu.look_soon();
        }
        asked != Asked::TooMany
    }
}

impl Engine {
    /// Carries out the changes that handlers have asked for. To be called while the machine stands still.
    pub fn carry_out_watch_requests(&mut self, guest: &mut dyn Guest) {
        if self.state.moves.is_done() {
            return;
        }
        let mut waiting = core::mem::take(&mut self.state.moves.waiting);
        for Request { template, address, sets } in waiting.drain(..) {
            let is_it =
                |known: &Watchpoint| known.is_of(&template) && address.is_none_or(|address| known.0.area.start == address);
            let known = self.watch.list.iter().position(is_it);
            match (sets, known, address) {
                (true, None, Some(address)) => {
                    if !self.watch.templates.iter().any(|known| known.is_of(&template)) {
                        self.watch.templates.push(template.clone());
                    }
                    if let Err(refusal) = self.register_watchpoint(guest, &template.moved_to(address)) {
                        template.count_not_set();
                        self.say(alloc::format!("{address:#x} is not watched: {refusal}"));
                    }
                }
                (false, Some(number), Some(_)) => {
                    self.watch.list.remove(number);
                    self.watch.has_changed = true;
                }
                (false, Some(_), None) => {
                    // A watchpoint that was registered at an address of its own stays there.
                    self.watch.list.retain(|known| known.is(&template) || !known.is_of(&template));
                    self.watch.has_changed = true;
                }
                _ => {}
            }
        }
        self.state.moves.waiting = waiting;
    }
}
