//! Analyses the out-of-line code of a tracepoint's sites before anything is registered.
//!
//! [`Engine::way`] follows the code from a site up to its calls of the tracepoint's functions and finds its exits. The code may
//! do nothing else, because the engine could not undo that. [`Engine::lock_calls`] finds the calls that take and release
//! spinlocks, which a run skips. [`Engine::fires`] tells whether a site that cannot be followed counts as missed.

use super::{LockCall, Tracepoint, Watched};
use crate::engine::Engine;
use crate::guest::Guest;
use crate::members::Action;
use crate::probe::Kprobe;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::function;
use trapline_isa::insn::Flow as Goes;

/// The largest number of bytes of an out-of-line block that are decoded, and its greatest distance from the next. Compilers
/// put the call that gives the CPU away at the end of a function, behind everything else.
const BLOCK: u64 = 4096;
/// Functions that take a spinlock, and those that release it.
const TAKE: [&str; 4] = ["_raw_spin_lock", "_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_spin_lock_bh"];
const RELEASE: [&str; 4] = ["_raw_spin_unlock", "_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_spin_unlock_bh"];
/// The search for lock calls covers the function that writes the record and this many levels of calls below it, but at
/// most `MOST_SEARCHED` functions.
const LOCK_LEVELS: usize = 1;
const MOST_SEARCHED: usize = 64;

/// The ends of a site's out-of-line code. [`Watched`] has the meanings.
#[derive(Default)]
pub(super) struct Way {
    pub(super) exits: Vec<u64>,
    pub(super) unknown: Vec<u64>,
    pub(super) has_conditions: bool,
}

impl Engine {
    /// Whether an internal probe can be at this address.
    pub(super) fn can_trap(&self, guest: &dyn Guest, at: u64) -> bool {
        let place = self.resolve(guest, &Kprobe::at_address(at).internal(), false);
        let check = |place| self.by_policy(true, |policy| self.check_place(guest, &place, Action::Handlers, policy));
        place.and_then(check).is_ok()
    }

    /// The calls of lock functions in the code that makes a record. They are skipped: the record only reads the
    /// protected data, and a CPU that holds the lock does not run meanwhile, so the code would wait for ever. Calls are
    /// skipped only if both the lock and the unlock of a function are found.
    pub(super) fn lock_calls(&self, guest: &dyn Guest, facts: &Tracepoint) -> Vec<LockCall> {
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let mut found = Vec::new();
        let mut functions = vec![(facts.writes, 0)];
        let mut searched = 0;
        while let Some((function, level)) = functions.get(searched).copied() {
            searched += 1;
            let Some(symbol) = guest.symbol_at(function) else { continue };
            let end = symbol.start.saturating_add(symbol.size.min(BLOCK));
            let (mut taken, mut released) = (Vec::new(), Vec::new());
            for insn in function::walk_far(self.isa, function, end, &mut read).map_while(Result::ok) {
                let Goes::Call(to) = insn.flow else { continue };
                let call = LockCall { at: insn.address, next: insn.next() };
                match guest.symbol_at(to).filter(|callee| callee.start == to) {
                    Some(callee) if TAKE.contains(&callee.name.as_str()) => taken.push(call),
                    Some(callee) if RELEASE.contains(&callee.name.as_str()) => released.push(call),
                    _ if to == facts.reserve || to == facts.commit || level == LOCK_LEVELS => {}
                    _ if functions.len() < MOST_SEARCHED && functions.iter().all(|(other, _)| *other != to) => {
                        functions.push((to, level + 1));
                    }
                    _ => {}
                }
            }
            let is_whole = !taken.is_empty() && !released.is_empty();
            if is_whole && taken.iter().chain(&released).all(|call| self.can_trap(guest, call.at)) {
                found.extend(taken.into_iter().chain(released));
            }
        }
        found.sort_unstable_by_key(|call: &LockCall| call.at);
        found
    }

    /// Whether the code of a site that cannot be followed leads to the tracepoint's functions: by a call of its own, or by a
    /// call of a function that has another site. Code that only asks whether the tracepoint is enabled does not.
    pub(super) fn fires(&self, guest: &dyn Guest, watched: &Watched, site: u64, code: u64) -> bool {
        let facts = &*watched.facts;
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let Ok(back) = function::decode_at(self.isa, site, &mut read).map(|insn| insn.next()) else { return false };
        let leads = |to: u64| {
            let holds = |range: core::ops::Range<u64>| facts.sites.iter().any(|(site, _)| range.contains(site));
            watched.calls.contains(&to) || guest.symbol_at(to).is_some_and(|of| holds(of.start..of.start.saturating_add(of.size)))
        };
        let near = code.saturating_sub(BLOCK)..code.saturating_add(BLOCK);
        let (mut pieces, mut seen) = (vec![code], vec![back]);
        while let Some(piece) = pieces.pop() {
            for insn in function::walk_far(self.isa, piece, piece.wrapping_add(BLOCK), &mut read).map_while(Result::ok) {
                if seen.contains(&insn.address) {
                    break;
                }
                seen.push(insn.address);
                match insn.flow {
                    Goes::Call(to) if leads(to) => return true,
                    Goes::IndirectCall if facts.may_loop => return true,
                    Goes::Branch(to) if near.contains(&to) => pieces.push(to),
                    Goes::Jump(to) => {
                        pieces.extend(near.contains(&to).then_some(to));
                        break;
                    }
                    Goes::Return | Goes::IndirectJump => break,
                    _ => {}
                }
            }
        }
        false
    }

    /// The addresses to which the out-of-line code jumps back. The compiler may merge the code of several sites, and the merged
    /// code jumps back to one of them. `None` if a site cannot be decoded.
    fn backs(&self, guest: &dyn Guest, facts: &Tracepoint, code: u64) -> Option<Vec<u64>> {
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let mut backs = Vec::new();
        for (other, of) in &facts.sites {
            if *of == code {
                let back = function::decode_at(self.isa, *other, &mut read).ok()?.next();
                backs.push(back);
                // The code goes to where the jump behind the site leads.
                if let Ok(Goes::Jump(to)) = function::decode_at(self.isa, back, &mut read).map(|insn| insn.flow) {
                    backs.push(to);
                }
            }
        }
        Some(backs)
    }

    /// The instruction that ends the code behind a call, or the call's return itself if that code branches. `None` if no such
    /// instruction is found.
    fn end_behind(&self, guest: &dyn Guest, behind: u64) -> Option<u64> {
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let mut code = function::walk(self.isa, behind, behind.wrapping_add(BLOCK), &mut read).map_while(Result::ok);
        let end = code.find(|insn| !matches!(insn.flow, Goes::Next))?;
        let is_end = matches!(end.flow, Goes::Jump(_) | Goes::Return | Goes::IndirectJump);
        Some(if is_end { end.address } else { behind })
    }

    /// Follows the out-of-line code of the sites that have this one, block by block, up to its calls. A branch to code that
    /// calls something else is an unknown exit. `None` if the code does so without a branch: the effects of that call could
    /// not be undone.
    pub(super) fn way(&self, guest: &dyn Guest, watched: &Watched, code: u64) -> Option<Way> {
        let facts = &*watched.facts;
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let backs = self.backs(guest, facts, code)?;
        let near = code.saturating_sub(BLOCK)..code.saturating_add(BLOCK);
        let (mut pieces, mut seen, mut calls, mut leaves, mut way) = (vec![code], Vec::new(), Vec::new(), 0, Way::default());
        while let Some(piece) = pieces.pop() {
            // A branch round the call, for a list without functions, is never taken: the list has one.
            if calls.contains(&piece) || seen.contains(&piece) {
                continue;
            }
            let before = (pieces.len(), seen.len(), way.exits.len(), leaves);
            let mut is_known = true;
            for insn in function::walk_far(self.isa, piece, piece.wrapping_add(BLOCK), &mut read) {
                let Ok(insn) = insn else {
                    is_known = false;
                    break;
                };
                if seen.contains(&insn.address) {
                    break;
                }
                seen.push(insn.address);
                match insn.flow {
                    Goes::Next => {}
                    Goes::Call(to) if facts.harmless.contains(&to) => {}
                    Goes::Call(to) if watched.yields.contains(&to) => break,
                    Goes::Call(to) if watched.calls.contains(&to) => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::IndirectCall if facts.may_loop => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::Branch(to) if backs.contains(&to) => leaves += 1,
                    Goes::Branch(to) if near.contains(&to) => pieces.push(to),
                    Goes::Jump(to) if !backs.contains(&to) && near.contains(&to) => {
                        pieces.push(to);
                        break;
                    }
                    Goes::Jump(_) | Goes::Return => {
                        way.exits.push(insn.address);
                        break;
                    }
                    _ => {
                        is_known = false;
                        break;
                    }
                }
            }
            if !is_known {
                if piece == code {
                    return None;
                }
                pieces.truncate(before.0);
                seen.truncate(before.1);
                seen.push(piece);
                way.exits.truncate(before.2);
                leaves = before.3;
                way.unknown.push(piece);
            }
        }
        // One exit is usual: it skips the call on a CPU that is not online, which never happens. More exits are
        // conditions of the event.
        way.has_conditions = leaves + way.exits.len() + way.unknown.len() > 1;
        if leaves > 1 {
            way.exits.extend(backs);
        }
        way.exits.extend(calls.iter().filter_map(|behind| self.end_behind(guest, *behind)));
        (!calls.is_empty()).then_some(way)
    }
}
