//! Watchpoints on memory: reports each access to a watched area, with the accessor, the time and the old value
//! (docs/unicorn.md, "Watched pages").
//!
//! The core reports its own loads and stores (`unicorn/watched.rs`). Devices, exception delivery and trapline itself write
//! through [`Ram`](crate::unicorn::ram::Ram), which records writes to watched pages; [`Inner::attribute_writes`] attributes
//! these to their author. [`Seen`] keeps the bytes of an area as of the last access. If an access finds other old bytes,
//! a write was missed, and the report says so.

use super::{Inner, Listener, Machine};
use crate::clock::nanoseconds;
use crate::cpu::{Access as Right, View};
use crate::unicorn::engine::InstructionContext;
use crate::unicorn::watched::{Access, Part, WatchedRange};
use core::ops::Range;
use std::collections::VecDeque;
use trapline_probes::guest::Cpu;
use trapline_probes::watch::{self, Area, By};

const PAGE: u64 = 4096;
/// The limit of watched bytes up to which every page walk is followed by a comparison of all areas. Above it, writes by
/// page walks are reported as changes by an unknown author.
const MOST_COMPARED: usize = 1 << 20;

/// The number of old entries in which [`Machine::watch`] searches for an area that stays. Areas come and go a few at a
/// time, so one that stays is near its old place in the list.
const NEAR: usize = 64;

/// A watched area with its contents as of the last reported access.
pub(crate) struct Seen {
    area: Area,
    bytes: Vec<u8>,
    /// The physical address of each of its pages; `None` while the page tables do not map the page.
    pages: Vec<Option<u64>>,
    /// Whether an already reported part of the operand that is being accessed had changed without a report.
    unseen: bool,
}

impl Seen {
    /// Translates the area's pages and reads their present bytes.
    fn of(area: Area, view: &mut View) -> Seen {
        let first = area.start & !(PAGE - 1);
        let count = area.len.div_ceil(PAGE) + 1;
        let pages = (0..count)
            .map(|number| first.wrapping_add(number * PAGE))
            .filter(|page| page.wrapping_sub(area.start) < area.len || *page == first);
        let pages = pages.map(|page| translate(view, &area, page)).collect();
        let mut seen = Seen { area, bytes: vec![0; area.len as usize], pages, unseen: false };
        (0..seen.pages.len()).for_each(|number| seen.learn(view, number));
        seen
    }

    /// The part of the area in its page of this number: offset from the area's start, number of bytes, and physical
    /// address.
    fn part(&self, number: usize) -> Option<(usize, usize, u64)> {
        let physical = (*self.pages.get(number)?)?;
        let into = if number == 0 { self.area.start % PAGE } else { 0 };
        let at = number as u64 * PAGE + into - self.area.start % PAGE;
        let len = (PAGE - into).min(self.area.len.checked_sub(at)?);
        Some((at as usize, len as usize, physical + into))
    }

    /// Reads the present bytes of a page.
    fn learn(&mut self, view: &View, number: usize) {
        if let Some((at, len, physical)) = self.part(number) {
            view.ram.read(physical, &mut self.bytes[at..at + len]);
        }
    }

    /// Whether an access is to this area, and not to the same virtual address in another address space. `address` is
    /// physical for a physical area. Stores the page's physical address if it was unknown or has changed.
    fn is_here(&mut self, view: &mut View, address: u64, physical: u64) -> bool {
        if self.area.process.is_some_and(|process| view.process() != process) {
            return false;
        }
        let number = ((address / PAGE).wrapping_sub(self.area.start / PAGE)) as usize;
        let page = physical & !(PAGE - 1);
        match self.pages.get(number) {
            // The access begins in a page in front of the area.
            None => true,
            Some(known) if *known == Some(page) => true,
            Some(_) if self.area.physical || translate(view, &self.area, address & !(PAGE - 1)) == Some(page) => {
                self.pages[number] = Some(page);
                self.learn(view, number);
                true
            }
            Some(_) => false,
        }
    }

    /// Reads the present contents of these bytes of the area. The other bytes stay, because a change of them has another
    /// author and must still be noticed.
    fn learn_bytes(&mut self, view: &View, bytes: Range<usize>) {
        for number in 0..self.pages.len() {
            let Some((at, len, physical)) = self.part(number) else { continue };
            let (start, end) = (at.max(bytes.start), (at + len).min(bytes.end));
            if start < end {
                view.ram.read(physical + (start - at) as u64, &mut self.bytes[start..end]);
            }
        }
    }

    /// Updates the known bytes after an access by the core. Returns whether they had changed without a reported access.
    fn note(&mut self, access: &Access, knew_page: bool) -> bool {
        let size = (access.size as usize).min(8);
        let start = if self.area.physical { access.physical } else { access.address };
        let is_compared = knew_page && self.area.writes;
        let into = usize::try_from(start.wrapping_sub(self.area.start)).ok();
        if let Some(held) = into.and_then(|into| self.bytes.get_mut(into..into.checked_add(size)?)) {
            let before = access.order.number(held);
            access.order.put(access.value, held);
            return is_compared && before != access.before;
        }
        self.note_bytes(access, start, is_compared)
    }

    /// Like [`Seen::note`], for an access that lies only partly in the area.
    #[cold]
    fn note_bytes(&mut self, access: &Access, start: u64, is_compared: bool) -> bool {
        let (mut before, mut after) = ([0; 8], [0; 8]);
        let size = (access.size as usize).min(8);
        access.order.put(access.before, &mut before[..size]);
        access.order.put(access.value, &mut after[..size]);
        let mut changed = false;
        for (number, (before, after)) in before.iter().zip(after).take(size).enumerate() {
            let into = start.wrapping_add(number as u64).wrapping_sub(self.area.start);
            if let Some(seen) = usize::try_from(into).ok().and_then(|into| self.bytes.get_mut(into)) {
                changed |= *seen != *before && is_compared;
                *seen = after;
            }
        }
        changed
    }

    /// Compares the area with memory. Returns the first and the last changed byte.
    fn compare(&self, view: &View) -> Option<(usize, usize)> {
        let mut changed = None;
        let mut now = [0; PAGE as usize];
        for number in 0..self.pages.len() {
            let Some((at, len, physical)) = self.part(number) else { continue };
            if !view.ram.read(physical, &mut now[..len]) || self.bytes[at..at + len] == now[..len] {
                continue;
            }
            for (number, (seen, now)) in self.bytes[at..at + len].iter().zip(&now).enumerate() {
                if seen != now {
                    let first = changed.map_or(at + number, |(first, _)| first);
                    changed = Some((first, at + number));
                }
            }
        }
        changed
    }

    /// The part of the area in this physical range: the first byte's offset, and the number of bytes.
    fn in_physical(&self, start: u64, len: usize) -> Option<(usize, usize)> {
        let found = (0..self.pages.len()).filter_map(|number| {
            let (at, many, physical) = self.part(number)?;
            let (first, end) = (start.max(physical), (start + len as u64).min(physical + many as u64));
            (first < end).then(|| (at + (first - physical) as usize, (end - first) as usize))
        });
        found.reduce(|one, other| (one.0.min(other.0), one.1 + other.1))
    }

    /// The known value of up to eight bytes at an offset, in the guest's byte order.
    fn number(&self, view: &View, at: usize, len: usize) -> u64 {
        self.bytes.get(at..at + len.min(8)).map_or(0, |bytes| view.isa.order.number(bytes))
    }
}

/// The physical address of a page of the area, by the page tables in force.
fn translate(view: &mut View, area: &Area, page: u64) -> Option<u64> {
    if area.physical {
        return Some(page);
    }
    // The page tables in force are those of another process.
    if area.process.is_some_and(|process| view.process() != process) {
        return None;
    }
    let look = |right| (view.model.translate)(&view.trap_handle(), &view.ram, page, right).ok();
    match area.process {
        None => look(Right::Look),
        Some(_) => look(Right::User).or_else(|| look(Right::Look)),
    }
    .map(|physical| physical & !(PAGE - 1))
}

impl<L: Listener> Machine<L> {
    /// Watches these areas, and no others from now on. The listener gets the accesses by their numbers in this list.
    /// Call [`Machine::compare_watched`] first, while the listener has the list that was in force.
    pub fn watch(&mut self, areas: &[Area]) {
        let ranges: Vec<WatchedRange> = areas.iter().map(range).collect();
        self.core.watch(&ranges);
        let view = &mut self.inner.view;
        let mut known: VecDeque<Seen> = core::mem::take(&mut self.inner.watched).into();
        let seen = |area: &Area| {
            // An area of a user program is always read again: the kernel may have given its pages to another user.
            let is_it = |seen: &Seen| seen.area == *area && area.process.is_none();
            let place = known.iter().take(NEAR).position(is_it);
            place.and_then(|place| known.drain(..=place).next_back()).unwrap_or_else(|| Seen::of(*area, view))
        };
        self.inner.watched = areas.iter().map(seen).collect();
        self.inner.watch_pages();
    }

    /// Reports to the listener every watched area whose bytes have changed without a reported access.
    pub fn compare_watched(&mut self) {
        self.inner.attribute_writes(None, 0);
        let inner = &mut self.inner;
        for (number, seen) in inner.watched.iter_mut().enumerate() {
            // Areas of user programs are left out: the kernel may have given their pages to another user.
            if seen.area.writes && seen.area.process.is_none() && seen.compare(&inner.view).is_some() {
                (0..seen.pages.len()).for_each(|page| seen.learn(&inner.view, page));
                inner.listener.changed_unseen(number);
            }
        }
    }

    /// Sets whether the listener is called in front of every load and store of translated code, for tests that compare
    /// these with what was reported.
    pub fn tell_each_access(&mut self, tell: bool) {
        self.core.tell_each_access(tell);
    }
}

fn range(area: &Area) -> WatchedRange {
    WatchedRange { start: area.start, len: area.len, physical: area.physical, loads: area.reads, stores: area.writes }
}

impl<L: Listener> Inner<L> {
    /// Takes the present bytes of all areas as seen, after memory was replaced from outside.
    pub(super) fn learn_watched(&mut self) {
        if self.watched.is_empty() {
            return;
        }
        let view = &mut self.view;
        for seen in &mut self.watched {
            *seen = Seen::of(seen.area, view);
        }
        self.watch_pages();
    }

    fn watch_pages(&self) {
        let written = self.watched.iter().filter(|seen| seen.area.writes);
        self.view.ram.watch_pages(written.flat_map(|seen| seen.pages.iter().copied().flatten()));
    }

    /// The original address of the instruction at `pc`, which may be a copy in the probe window. `None` for the engine's
    /// own code and for handlers in guest code.
    fn guests_own(&self, pc: u64) -> Option<u64> {
        if self.frozen {
            return None;
        }
        if self.window.holds(pc) { self.listener.original(pc) } else { Some(pc) }
    }

    /// Handles an access that the core has reported for the area of this number.
    pub(super) fn core_accessed(&mut self, cpu: &InstructionContext, number: u32, access: &Access, pc: Option<u64>) {
        let before = self.view.take_task_by_mode();
        self.deal_with_access(cpu, number as usize, access, pc);
        self.view.task_by = before;
    }

    fn deal_with_access(&mut self, cpu: &InstructionContext, number: usize, access: &Access, pc: Option<u64>) {
        if access.part == Part::Part {
            self.attribute_writes(None, 0);
            self.note_access(number, access);
            return;
        }
        let pc = pc.unwrap_or_else(|| cpu.handle().pc());
        let Some(origin) = self.guests_own(pc) else { return };
        self.attribute_writes(None, pc);
        let Some(unseen) = self.note_access(number, access) else { return };
        let Some(seen) = self.watched.get(number) else { return };
        let address = if seen.area.physical { access.physical } else { access.address };
        let order = self.view.isa.order;
        let number_of = |value| match access.part {
            // A helper of the core accesses a block as bytes, so these must be put in the guest's byte order.
            Part::Block => {
                let mut bytes = [0; 8];
                let bytes = &mut bytes[..(access.size as usize).min(8)];
                access.order.put(value, bytes);
                order.number(bytes)
            }
            _ => value,
        };
        let told = watch::Access {
            address,
            size: access.size.into(),
            is_write: access.is_store,
            value: number_of(access.value),
            old: number_of(access.before),
            by: By::Instruction,
            time: nanoseconds(self.time_at(pc)),
            unseen,
        };
        let (listener, view) = self.show(origin);
        listener.accessed(view, number, &told);
        self.look_at_listener();
    }

    /// Updates the known bytes of an area after an access by the core. Returns whether they had changed without a reported
    /// access; `None` if the access is to another address space.
    fn note_access(&mut self, number: usize, access: &Access) -> Option<bool> {
        let seen = self.watched.get_mut(number)?;
        let address = if seen.area.physical { access.physical } else { access.address };
        let page = ((address / PAGE).wrapping_sub(seen.area.start / PAGE)) as usize;
        let before = seen.pages.get(page).copied();
        if !seen.is_here(&mut self.view, address, access.physical) {
            return None;
        }
        let is_new = before != seen.pages.get(page).copied();
        let unseen = match access.part {
            Part::Block => core::mem::take(&mut seen.unseen),
            Part::Part => {
                seen.unseen |= seen.note(access, !is_new);
                false
            }
            Part::Whole => seen.note(access, !is_new),
        };
        if is_new {
            self.watch_pages();
        }
        Some(unseen)
    }

    /// Reports what a page walk of the core has written to watched areas.
    pub(super) fn core_walked(&mut self, cpu: &InstructionContext, pc: Option<u64>) {
        if !self.watched.is_empty() {
            self.settle_walk(pc.unwrap_or_else(|| cpu.handle().pc()));
        }
    }

    /// Reports the page-table entries that a page walk for the instruction at `pc` has written. It is called after a fault,
    /// too: the walk may have set accessed bits of upper levels before, which the core does not report.
    pub(super) fn settle_walk(&mut self, pc: u64) {
        if self.watched.is_empty() || self.watched.iter().map(|seen| seen.bytes.len()).sum::<usize>() > MOST_COMPARED {
            return;
        }
        self.attribute_writes(None, pc);
        let before = self.view.take_task_by_mode();
        for number in 0..self.watched.len() {
            let seen = &mut self.watched[number];
            if !seen.area.writes {
                continue;
            }
            if let Some((first, last)) = seen.compare(&self.view) {
                let len = last + 1 - first;
                let old = seen.number(&self.view, first, len);
                seen.learn_bytes(&self.view, first..last + 1);
                let value = seen.number(&self.view, first, len);
                self.tell(number, (first, len), (value, old), By::PageWalk, pc);
            }
        }
        self.view.task_by = before;
    }

    /// Handles the recorded writes from outside of the core, whose author is `by`. With `None`, trapline itself or a handler
    /// has made them; these are not reported. So call this before and after each step that writes guest memory.
    pub(super) fn attribute_writes(&mut self, by: Option<By>, pc: u64) {
        if self.watched.is_empty() || !self.view.ram.has_written() {
            return;
        }
        for (start, len) in self.view.ram.take_written() {
            for number in 0..self.watched.len() {
                let seen = &mut self.watched[number];
                let Some((at, many)) = seen.in_physical(start, len) else { continue };
                let old = seen.number(&self.view, at, many);
                seen.learn_bytes(&self.view, at..at + many);
                if let Some(by) = by.filter(|_| seen.area.writes) {
                    let value = seen.number(&self.view, at, many);
                    self.tell(number, (at, many), (value, old), by, pc);
                }
            }
        }
    }

    /// Reports a write that the core did not report, unless the engine's own code or another process made it.
    fn tell(&mut self, number: usize, (at, len): (usize, usize), (value, old): (u64, u64), by: By, pc: u64) {
        let Some(seen) = self.watched.get(number) else { return };
        let address = seen.area.start.wrapping_add(at as u64);
        let Some(origin) = self.guests_own(pc) else { return };
        if seen.area.process.is_some_and(|process| self.view.process() != process) {
            return;
        }
        let time = nanoseconds(self.time_at(pc));
        let told = watch::Access { address, size: len as u64, is_write: true, value, old, by, time, unseen: false };
        let (listener, view) = self.show(origin);
        listener.accessed(view, number, &told);
        self.look_at_listener();
    }
}
