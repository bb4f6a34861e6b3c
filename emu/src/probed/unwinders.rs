//! Shows true return addresses to the guest's own stack unwinders, although return probes have put the return pad's address on
//! the stacks.
//!
//! The machine calls [`Unwinders::arrived`] when a CPU reaches the entry of a function that walks stacks ([`WALKERS`]). Until
//! that function returns, the pad's address is replaced by the true one on every stack, except in words that the walker and
//! its callees write. Before an interrupt, a switch to another CPU or the end of a run, the pad's address is put back, because
//! other functions must return to the pad. When the walk continues, the words are replaced again.

use super::patchers::{Filter, way_back};
use crate::boot::Kernel;
use crate::cpu::View;
use std::collections::HashSet;
use std::ops::Range;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::call::stack_behind_return;
use trapline_isa::mem::Memory;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::Engine;
use trapline_probes::guest::Cpu;

/// Linux's functions by name, for all ISAs. A kernel has some of them. A function that is called by another one of the
/// list is listed if it has other callers, or if a function between them may have a return probe.
const WALKERS: &[&str] = &[
    "arch_stack_walk",
    "arch_stack_walk_reliable",
    "__get_wchan",
    "perf_callchain_kernel",
    "profile_pc",
    "return_address",
    "show_stack",
    // x86, s390
    "__unwind_start",
    "unwind_next_frame",
    "show_trace_log_lvl",
    // arm64
    "dump_backtrace",
    "kunwind_stack_walk",
    "unwind",
    "unwind_next",
    // arm
    "__save_stack_trace",
    "walk_stackframe",
    "unwind_frame",
    "unwind_backtrace",
    "c_backtrace",
    "dump_mem",
    // mips
    "show_backtrace",
    "unwind_stack",
    "unwind_stack_by_address",
];

/// Stacks are read page by page, because a page may not be mapped.
const PAGE: u64 = 4096;

/// A call of a walker that has not returned. The return address and the stack pointer identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Walk {
    /// The true return address.
    returns_to: u64,
    /// The stack pointer after the return.
    sp: u64,
    /// The replaced words in the order of their replacement: address, old value, true return address.
    words: Vec<(u64, u64, u64)>,
    /// Set while the walk is interrupted, with its pc and stack pointer. The words are put back then.
    rests_at: Option<(u64, u64)>,
    /// The walker has a return probe itself, and its link register was set to the true return address. It must return
    /// through the pad.
    own_is_true: bool,
}

/// The walkers of a kernel, and the walks in progress.
pub struct Unwinders {
    entries: HashSet<u64>,
    walks: Vec<Walk>,
    filter: Filter,
}

impl Unwinders {
    /// The walkers that a kernel has, including parts that the compiler split off.
    pub fn of(kernel: &Kernel) -> Unwinders {
        let is_walker = |name: &str| WALKERS.contains(&name.split('.').next().unwrap_or(name)) && !name.ends_with(".cold");
        let text = kernel.symbols.places().iter().filter(|entry| entry.is_text() && is_walker(&entry.name));
        let entries: HashSet<u64> = text.flat_map(|entry| kernel.entries(entry.address)).collect();
        let filter = entries.iter().copied().collect();
        Unwinders { entries, walks: Vec::new(), filter }
    }

    /// Whether [`Unwinders::arrived`] must be called at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.filter.may_hold(pc) && (self.entries.contains(&pc) || self.walks.iter().any(|walk| walk.returns_to == pc))
    }

    /// Whether a walk is in progress. Every block must be reported then.
    pub fn are_at_work(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Resets the state after a snapshot was restored.
    pub fn start_over(&mut self) {
        self.walks.clear();
    }

    /// Handles the arrival of a CPU at a watched address. Returns true if the CPU must continue at the return pad: a
    /// walker with a return probe has returned to its true return address.
    pub fn arrived(&mut self, cpu: &mut View, engine: &Engine) -> bool {
        let (pc, sp) = (cpu.pc(), cpu.get(cpu.isa.abi.sp));
        let (walks, mut by_pad) = (self.walks.len(), false);
        while let Some(done) = self.walks.iter().rposition(|walk| (walk.returns_to, walk.sp) == (pc, sp)) {
            let mut walk = self.walks.remove(done);
            let own = own_word(cpu, sp);
            by_pad |= walk.words.iter().any(|(at, ..)| own.contains(at));
            by_pad |= walk.own_is_true && engine.real_return_address(cpu.task(), sp).is_some();
            put_back(cpu, &mut walk);
        }
        if self.entries.contains(&pc)
            && engine.return_pad().is_some()
            && let Some((returns_to, sp)) = way_back(cpu, sp, engine)
            && !self.walks.iter().any(|walk| (walk.returns_to, walk.sp) == (returns_to, sp))
        {
            self.walks.push(Walk { returns_to, sp, words: Vec::new(), rests_at: None, own_is_true: false });
            self.make_true(cpu, engine, self.walks.len() - 1);
        }
        if self.walks.len() != walks {
            self.filter = self.entries.iter().copied().chain(self.walks.iter().map(|walk| walk.returns_to)).collect();
        }
        by_pad
    }

    /// Called at every block of the guest while a walk is in progress.
    pub fn goes_on(&mut self, cpu: &mut View, engine: &Engine) {
        let here = Some((cpu.pc(), cpu.get(cpu.isa.abi.sp)));
        for number in 0..self.walks.len() {
            if self.walks[number].rests_at == here {
                self.walks[number].rests_at = None;
                self.make_true(cpu, engine, number);
            }
            if self.walks[number].rests_at.is_none() {
                match (cpu.isa.abi.return_address, cpu.isa.abi.link_slot) {
                    (ReturnAddress::OnStack, _) => {}
                    (ReturnAddress::In(_), Some(_)) => make_own_true(cpu, engine, &mut self.walks[number]),
                    (ReturnAddress::In(link), None) => make_link_true(cpu, engine, &mut self.walks[number], link),
                }
            }
        }
    }

    /// Called when the walk is interrupted: puts the replaced words back.
    pub fn rest(&mut self, cpu: &mut View) {
        let here = (cpu.pc(), cpu.get(cpu.isa.abi.sp));
        for walk in self.walks.iter_mut().rev().filter(|walk| walk.rests_at.is_none()) {
            put_back(cpu, walk);
            walk.rests_at = Some(here);
        }
    }

    /// Replaces the pad's address by true return addresses: on the stacks of all tasks, and on the walker's own stack
    /// from its return address on. A walk within another walk only needs the words between both.
    fn make_true(&mut self, cpu: &mut View, engine: &Engine, number: usize) {
        let (isa, sp) = (cpu.isa, self.walks[number].sp);
        let same_stack = |one: u64, other: u64| (one ^ other) & !(isa.abi.stack_size.max(1) - 1) == 0;
        let is_outer = |walk: &Walk| walk.rests_at.is_none() && same_stack(walk.sp, sp) && walk.sp > sp;
        let outer = (0..self.walks.len()).filter(|other| is_outer(&self.walks[*other])).min_by_key(|other| self.walks[*other].sp);
        let end = outer.map(|outer| own_word(cpu, self.walks[outer].sp).end);
        let mut calls = engine.followed_calls();
        // If several calls have the same frame, only the newest one is valid. Calls that never return, such as kernel
        // entries, leave stale ones.
        calls.sort_by_key(|(frame, _)| *frame);
        calls.dedup_by_key(|(frame, _)| *frame);
        let (mut words, mut below) = (Vec::new(), 0);
        for (frame, to) in calls {
            // The function, or an interrupt of it, may have copied the word anywhere between its frame and the next
            // call's. Compilers copy it when they realign the stack.
            let above = own_word(cpu, stack_behind_return(isa, frame)).end;
            let places = below.max(stack_start(cpu, above))..above;
            below = above;
            let places = if same_stack(frame, sp) {
                places.start.max(walks_from(cpu, sp))..places.end.min(end.unwrap_or(u64::MAX))
            } else if end.is_some() {
                continue;
            } else {
                places
            };
            find_pads(cpu, engine, places, |at, pad| words.push((at, pad, to)));
        }
        for word in words {
            // An error is ignored: a word that cannot be written cannot be read by the guest either, or keeps its
            // value.
            let _ = cpu.write_number(word.0, word.2, isa.word);
            let owner = outer.filter(|outer| walks_from(cpu, self.walks[*outer].sp) <= word.0).unwrap_or(number);
            self.walks[owner].words.push(word);
        }
    }
}

/// Replaces the walker's own return address if it is the pad's. A walker with a return probe stores the pad's address
/// on the stack that it walks, some time after its entry.
fn make_own_true(cpu: &mut View, engine: &Engine, walk: &mut Walk) {
    let (at, size) = (own_word(cpu, walk.sp).start, cpu.isa.word);
    if let Ok(word) = cpu.read_number(at, size)
        && engine.return_pad() == Some(word & !cpu.isa.pointer_bits)
        && cpu.write_number(at, walk.returns_to, size).is_ok()
    {
        walk.words.push((at, word, walk.returns_to));
    }
}

/// Sets the walker's link register to the true return address, if it is the pad's. The walker may store it in its
/// frame, or save all registers to start the walk from. When the walk ends, the CPU is sent to the pad.
fn make_link_true(cpu: &mut View, engine: &Engine, walk: &mut Walk, link: Reg) {
    let (isa, sp) = (cpu.isa, cpu.get(cpu.isa.abi.sp));
    let is_followed = |cpu: &mut View| engine.real_return_address(cpu.task(), walk.sp).is_some();
    if walk.own_is_true || engine.return_pad() != Some(cpu.get(link) & !isa.pointer_bits) || !is_followed(cpu) {
        return;
    }
    walk.own_is_true = true;
    cpu.set(link, walk.returns_to);
    // The instructions under the probe's jump may have stored it already.
    let mut saved = Vec::new();
    find_pads(cpu, engine, sp.max(stack_start(cpu, walk.sp))..walk.sp, |at, _| saved.push(at));
    for at in saved {
        let _ = cpu.write_number(at, walk.returns_to, isa.word);
    }
}

/// The stack word that holds the return address of a function, given the stack pointer after its return. Empty if the
/// function stores it in its own frame or not at all.
fn own_word(cpu: &View, sp: u64) -> Range<u64> {
    let (abi, word) = (cpu.isa.abi, cpu.isa.word as u64);
    match (abi.return_address, abi.link_slot) {
        (ReturnAddress::OnStack, _) => sp.saturating_sub(word)..sp,
        (ReturnAddress::In(_), None) => sp..sp,
        (ReturnAddress::In(_), Some(above)) => sp.saturating_add(above)..sp.saturating_add(above + word),
    }
}

/// The lowest address that a walker reads on its own stack, given the stack pointer after its return.
fn walks_from(cpu: &View, sp: u64) -> u64 {
    own_word(cpu, sp).start.min(sp)
}

/// The lowest address of the stack that contains this frame, which may be the stack's end.
fn stack_start(cpu: &View, frame: u64) -> u64 {
    frame.saturating_sub(1) & !(cpu.isa.abi.stack_size.max(1) - 1)
}

/// Calls `each` for every aligned word of these stack addresses that holds the pad's address, with the word's address and value.
fn find_pads(cpu: &mut View, engine: &Engine, places: Range<u64>, mut each: impl FnMut(u64, u64)) {
    let (size, order) = (cpu.isa.word, cpu.isa.order);
    let mut page = [0; PAGE as usize];
    for (at, len) in pieces(places, size as u64) {
        let bytes = &mut page[..len];
        if cpu.read(at, bytes).is_ok() {
            for (number, word) in bytes.chunks_exact(size).enumerate() {
                let word = order.number(word);
                if engine.return_pad() == Some(word & !cpu.isa.pointer_bits) {
                    each(at + (number * size) as u64, word);
                }
            }
        }
    }
}

/// Restores the replaced words. A word that the guest has changed meanwhile keeps its new value.
fn put_back(cpu: &mut View, walk: &mut Walk) {
    for (at, pad, to) in walk.words.drain(..).rev() {
        let size = cpu.isa.word;
        if cpu.read_number(at, size) == Ok(to) {
            let _ = cpu.write_number(at, pad, size);
        }
    }
}

/// The words that begin in a range, page by page: address and number of bytes. The guest chooses its stack pointers, so
/// the range may end at the end of the address space.
fn pieces(places: Range<u64>, size: u64) -> impl Iterator<Item = (u64, usize)> {
    let mut next = places.start.checked_next_multiple_of(size);
    core::iter::from_fn(move || {
        let at = next.filter(|at| *at < places.end)?;
        let last = (places.end - 1).min(at | (PAGE - 1));
        let len = last / size * size - at + size;
        next = at.checked_add(len);
        Some((at, len as usize))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::type_complexity)] // a table of cases

    use super::*;

    /// A stack may end at the end of the address space.
    #[test]
    fn a_stack_is_looked_through_page_by_page_to_the_end_of_the_address_space() {
        #[rustfmt::skip]
        let cases: &[(&str, Range<u64>, u64, &[(u64, usize)])] = &[
            ("nothing",                0x1000..0x1000,        8, &[]),
            ("one word",               0x1000..0x1008,        8, &[(0x1000, 8)]),
            ("the end of a word",      0x1001..0x1008,        8, &[]),
            ("the start of one",       0x1000..0x1001,        8, &[(0x1000, 8)]),
            ("two pages",              0x1ff4..0x2008,        4, &[(0x1ff4, 12), (0x2000, 8)]),
            ("the last word",          u64::MAX - 7..u64::MAX, 8, &[(u64::MAX - 7, 8)]),
            ("the last page, and one", u64::MAX - 0x1007..u64::MAX - 2, 8, &[(u64::MAX - 0x1007, 8), (u64::MAX - 0xfff, 0x1000)]),
            ("behind the last word",   u64::MAX - 2..u64::MAX, 8, &[]),
        ];
        for (what, places, size, expected) in cases {
            assert_eq!(pieces(places.clone(), *size).take(9).collect::<Vec<_>>(), *expected, "{what}");
        }
    }
}
