//! The guest's own unwinder, and how return probes keep out of its way: what it reads on the stacks are true return
//! addresses.
//!
//! The machine tells when the CPU comes to the entry of a function that walks stacks. From there to its return the
//! pad's address is taken out of every stack, but for what the walker and its callees put there themselves. Only the
//! walk itself meets that: before an interrupt, a turn of another CPU or the end of a run the stacks are as they were,
//! and where the walk goes on they are made true again. So no function returns past the pad meanwhile, whoever it
//! belongs to.

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

/// Linux's functions by name, all ISAs together; a kernel has some of them. Those that others of the list call stand
/// here too where they have other callers, or where what lies between may be followed itself.
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

/// A page of a stack, which may be missing.
const PAGE: u64 = 4096;

/// A call of one of them that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Walk {
    returns_to: u64,
    /// The stack pointer behind the return.
    sp: u64,
    /// The words that are true just now, in the order in which they were written: address, what stood there, true
    /// address.
    words: Vec<(u64, u64, u64)>,
    /// The walk stands still, at this pc and stack pointer, and its words are as they were.
    rests_at: Option<(u64, u64)>,
    /// It is followed itself, and is to return to its caller as if it were not: what it saves of the register with its
    /// return address is true.
    own_is_true: bool,
}

/// Who walks stacks.
pub struct Unwinders {
    entries: HashSet<u64>,
    walks: Vec<Walk>,
    filter: Filter,
}

impl Unwinders {
    /// Those that a kernel has, and what compilers split off them.
    pub fn of(kernel: &Kernel) -> Unwinders {
        let is_walker = |name: &str| WALKERS.contains(&name.split('.').next().unwrap_or(name)) && !name.ends_with(".cold");
        let text = kernel.symbols.places().iter().filter(|entry| entry.is_text() && is_walker(&entry.name));
        let entries: HashSet<u64> = text.flat_map(|entry| kernel.entries(entry.address)).collect();
        let filter = entries.iter().copied().collect();
        Unwinders { entries, walks: Vec::new(), filter }
    }

    /// Whether something may have to be done at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.filter.may_hold(pc) && (self.entries.contains(&pc) || self.walks.iter().any(|walk| walk.returns_to == pc))
    }

    /// Whether the guest is in one of them: then every block is told.
    pub fn are_at_work(&self) -> bool {
        !self.walks.is_empty()
    }

    /// The guest is another one, and in none of them.
    pub fn start_over(&mut self) {
        self.walks.clear();
    }

    /// The CPU has come to an address. True: it must go there by way of the return pad, for the walk that has ended
    /// here is followed itself, and found its own return address true.
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

    /// The CPU starts a block of the guest's.
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

    /// Something else than the walk is about to happen.
    pub fn rest(&mut self, cpu: &mut View) {
        let here = (cpu.pc(), cpu.get(cpu.isa.abi.sp));
        for walk in self.walks.iter_mut().rev().filter(|walk| walk.rests_at.is_none()) {
            put_back(cpu, walk);
            walk.rests_at = Some(here);
        }
    }

    /// For one of the walks: the stacks of all tasks, and its own from its return address on. Within another walk there
    /// is only what was put on the stack since, the other's own return address among it.
    fn make_true(&mut self, cpu: &mut View, engine: &Engine, number: usize) {
        let (isa, sp) = (cpu.isa, self.walks[number].sp);
        let same_stack = |one: u64, other: u64| (one ^ other) & !(isa.abi.stack_size.max(1) - 1) == 0;
        let is_outer = |walk: &Walk| walk.rests_at.is_none() && same_stack(walk.sp, sp) && walk.sp > sp;
        let outer = (0..self.walks.len()).filter(|other| is_outer(&self.walks[*other])).min_by_key(|other| self.walks[*other].sp);
        let end = outer.map(|outer| own_word(cpu, self.walks[outer].sp).end);
        let mut calls = engine.followed_calls();
        // Of one frame's the newest: what never returns, such as an entry of the kernel, may have been there before.
        calls.sort_by_key(|(frame, _)| *frame);
        calls.dedup_by_key(|(frame, _)| *frame);
        let (mut words, mut below) = (Vec::new(), 0);
        for (frame, to) in calls {
            // Wherever the function, or an interrupt of it, has put a copy: between its frame and that of the next
            // call. Compilers copy the word on the stack where they align it anew.
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
            // What cannot be written the guest cannot read either, or reads as it is.
            let _ = cpu.write_number(word.0, word.2, isa.word);
            let owner = outer.filter(|outer| walks_from(cpu, self.walks[*outer].sp) <= word.0).unwrap_or(number);
            self.walks[owner].words.push(word);
        }
    }
}

/// A walk that is followed itself saves the pad's address on the stack that it walks, some time after its entry.
fn make_own_true(cpu: &mut View, engine: &Engine, walk: &mut Walk) {
    let (at, size) = (own_word(cpu, walk.sp).start, cpu.isa.word);
    if let Ok(word) = cpu.read_number(at, size)
        && engine.return_pad() == Some(word & !cpu.isa.pointer_bits)
        && cpu.write_number(at, walk.returns_to, size).is_ok()
    {
        walk.words.push((at, word, walk.returns_to));
    }
}

/// The same where it saves it in its own frame, from the register in which it still is behind the probe's place, and
/// from which it may also save all registers to walk from there. That stays so: the walk's end leads to the pad.
fn make_link_true(cpu: &mut View, engine: &Engine, walk: &mut Walk, link: Reg) {
    let (isa, sp) = (cpu.isa, cpu.get(cpu.isa.abi.sp));
    let is_followed = |cpu: &mut View| engine.real_return_address(cpu.task(), walk.sp).is_some();
    if walk.own_is_true || engine.return_pad() != Some(cpu.get(link) & !isa.pointer_bits) || !is_followed(cpu) {
        return;
    }
    walk.own_is_true = true;
    cpu.set(link, walk.returns_to);
    // What the probe's jump stands over may have saved it already.
    let mut saved = Vec::new();
    find_pads(cpu, engine, sp.max(stack_start(cpu, walk.sp))..walk.sp, |at, _| saved.push(at));
    for at in saved {
        let _ = cpu.write_number(at, walk.returns_to, isa.word);
    }
}

/// The word with the return address of a function behind whose return the stack pointer is this; nothing where it is in
/// the function's own frame, if anywhere.
fn own_word(cpu: &View, sp: u64) -> Range<u64> {
    let (abi, word) = (cpu.isa.abi, cpu.isa.word as u64);
    match (abi.return_address, abi.link_slot) {
        (ReturnAddress::OnStack, _) => sp.saturating_sub(word)..sp,
        (ReturnAddress::In(_), None) => sp..sp,
        (ReturnAddress::In(_), Some(above)) => sp.saturating_add(above)..sp.saturating_add(above + word),
    }
}

/// From where on a function with that stack pointer behind its return walks its own stack.
fn walks_from(cpu: &View, sp: u64) -> u64 {
    own_word(cpu, sp).start.min(sp)
}

/// The lowest address of the stack that a frame is on.
fn stack_start(cpu: &View, frame: u64) -> u64 {
    frame.saturating_sub(1) & !(cpu.isa.abi.stack_size.max(1) - 1)
}

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

/// What has been changed meanwhile stays as it is.
fn put_back(cpu: &mut View, walk: &mut Walk) {
    for (at, pad, to) in walk.words.drain(..).rev() {
        let size = cpu.isa.word;
        if cpu.read_number(at, size) == Ok(to) {
            let _ = cpu.write_number(at, pad, size);
        }
    }
}

/// The words that begin in a range, page by page: where, and how many bytes. The guest chooses its stacks: the range
/// may end where the address space does.
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

    /// A stack may end with the address space: there is nothing behind it to look through.
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
