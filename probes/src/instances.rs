//! The calls that return probes follow at present, listed by task, and the search for the call that a return belongs
//! to.
//!
//! A call is identified by its frame key, the stack pointer at entry. Normally the newest call of the task returns.
//! Newer calls may have been abandoned, for example by a longjmp. Several instances with one frame key belong to
//! several probes, or to tail calls, and share one true return address.

use crate::index::Index;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;

/// The most bytes of arguments that a function is assumed to pop when it returns. A larger difference means another
/// call's return.
const CALLEE_POPS: u64 = 256;

/// The number that stands for "no instance".
pub(crate) const NONE: u32 = u32::MAX;

/// A followed call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    /// The number of its probe's pool.
    pub pool: u32,
    /// Index of its private bytes in the pool's data.
    pub place: u32,
    /// The task that made the call. 0 if the instance was never used.
    pub task: u64,
    /// The frame key: the stack pointer at entry.
    pub frame: u64,
    /// The return address that the pad's address has replaced. It is the pad's own if another probe follows the same call.
    pub ret_addr: u64,
    /// The next older call of the task or, for a free instance, the next free one of the pool.
    pub next: u32,
    /// Further entries of the same call: a function that loops jumps to its own start. 0 unless the return address is the
    /// pad's, and for a free instance.
    pub again: u32,
}

/// All instances, in flight or free.
pub(crate) struct Instances {
    pub all: Vec<Instance>,
    /// Instance numbers that belong to no pool.
    pub unused: Vec<u32>,
    /// The newest call in flight of each task that has one. Reserved for all instances, so that a hit never grows it.
    tasks: Index,
    /// The newest call of the task that was used last. That task is not in `tasks`, so its next call or return needs no
    /// hash lookup.
    recent: Recent,
    /// The address of the return pad, once it was written.
    pub pad: Option<u64>,
    /// Bytes of the pad in front of its breakpoint.
    pad_jump: u64,
    pub word: u64,
    stack_size: u64,
    stack_grows_up: bool,
    /// Offset above a call's frame where the ISA's ABI saves the return address (the link slot).
    link_slot: u64,
    /// Tag bits that code pointers have besides the address, such as the Thumb bit.
    pub pointer_bits: u64,
}

/// A task and its newest call in flight, or [`NONE`].
struct Recent {
    task: u64,
    newest: u32,
}

/// The call that a return at the pad belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub task: u64,
    pub frame: u64,
    /// Whether the call fits. If none does, the match is the likeliest one.
    pub exact: bool,
}

/// A function that returns the task of an instance number.
fn task_of(all: &[Instance]) -> impl Fn(u32) -> u64 + Copy {
    |number| all.get(number as usize).map_or(0, |call| call.task)
}

impl Instances {
    pub fn new(isa: &Isa) -> Instances {
        let (word, stack_size) = (isa.word as u64, isa.abi.stack_size.max(1));
        let pointer_bits = isa.pointer_bits;
        let pad_jump = isa.detour.map_or(0, |detour| detour.return_pad.len() as u64);
        Instances {
            all: Vec::new(),
            unused: Vec::new(),
            tasks: Index::new(),
            recent: Recent { task: 0, newest: NONE },
            pad: None,
            pad_jump,
            pointer_bits,
            word,
            stack_size,
            stack_grows_up: isa.abi.stack_grows_up,
            link_slot: isa.abi.link_slot.unwrap_or(0),
        }
    }

    /// Whether a code pointer is the pad's address.
    pub fn is_pad(&self, pointer: u64) -> bool {
        self.pad == Some(pointer & !self.pointer_bits)
    }

    /// Whether a code pointer is the pad's address or that of its breakpoint.
    pub fn is_in_pad(&self, pointer: u64) -> bool {
        self.is_pad(pointer) || self.trap_pad() == Some(pointer & !self.pointer_bits)
    }

    /// The address of the pad's breakpoint.
    pub fn trap_pad(&self) -> Option<u64> {
        self.pad.map(|pad| pad + self.pad_jump)
    }

    /// Reserves room for as many tasks as there are instances.
    pub fn reserve(&mut self) {
        self.tasks.reserve(self.all.len(), task_of(&self.all));
    }

    /// A task's newest call in flight, or `NONE`.
    #[inline]
    fn newest(&self, task: u64) -> u32 {
        if task == self.recent.task { self.recent.newest } else { self.look_up(task) }
    }

    #[inline(never)]
    fn look_up(&self, task: u64) -> u32 {
        let task_of = task_of(&self.all);
        self.tasks.get(task, |number| task_of(number) == task).unwrap_or(NONE)
    }

    #[inline]
    fn set_newest(&mut self, task: u64, number: u32) {
        if task != self.recent.task {
            self.make_recent(task);
        }
        self.recent.newest = number;
    }

    #[inline(never)]
    fn make_recent(&mut self, task: u64) {
        let task_of = task_of(&self.all);
        if self.recent.newest != NONE {
            self.tasks.insert(self.recent.task, self.recent.newest, task_of);
        }
        let newest = self.tasks.remove(task, |number| task_of(number) == task, task_of);
        self.recent = Recent { task, newest: newest.unwrap_or(NONE) };
    }

    /// Fast path: removes the task's newest call from its list and returns its number and true return address. Requires
    /// that this call's frame key is `key` and that no other probe follows the same call. `None`: use
    /// [`Instances::find`].
    #[inline]
    pub fn take_newest(&mut self, task: u64, key: u64) -> Option<(u32, u64)> {
        let number = self.newest(task);
        let call = self.all.get(number as usize).filter(|call| call.frame == key && !self.is_pad(call.ret_addr))?;
        let (older, ret_addr) = (call.next, call.ret_addr);
        self.set_newest(task, older);
        Some((number, ret_addr))
    }

    /// The instance of a call in flight into which a further entry can be merged: the function jumped to its own start, so
    /// that its return address is the pad's already, and has done so before.
    #[cold]
    pub fn entered_again(&mut self, task: u64, frame: u64, pool: u32) -> Option<&mut Instance> {
        // Each probe at the function has an instance of its own with this frame.
        const MOST_PROBES: usize = 16;
        let of_frame = |(_, call): &(u32, &Instance)| call.frame == frame && self.is_pad(call.ret_addr);
        let found = {
            let mut calls = self.of_task(task).take_while(of_frame).take(MOST_PROBES);
            calls.find(|(_, call)| call.pool == pool && call.again < u32::MAX).map(|(number, _)| number)
        };
        self.all.get_mut(found? as usize)
    }

    /// A task's calls in flight, newest first.
    pub fn of_task(&self, task: u64) -> impl Iterator<Item = (u32, &Instance)> + '_ {
        let mut at = self.newest(task);
        core::iter::from_fn(move || {
            let instance = self.all.get(at as usize)?;
            let number = core::mem::replace(&mut at, instance.next);
            Some((number, instance))
        })
    }

    /// The true return address of the call whose return address was found in this stack word.
    pub fn saved_in(&self, task: u64, slot: u64) -> Option<u64> {
        self.real_return_address(task, slot.wrapping_sub(self.link_slot))
    }

    /// The true return address of the call with that frame key: the stack word of its return address, or the stack
    /// pointer at entry on link-register ISAs.
    pub fn real_return_address(&self, task: u64, frame: u64) -> Option<u64> {
        self.of_task(task).find(|(_, call)| call.frame == frame && !self.is_pad(call.ret_addr)).map(|(_, call)| call.ret_addr)
    }

    /// The task and the true return address of a call in flight with that frame key, in whatever task it was made: no two
    /// stacks share a word.
    pub fn real_anywhere(&self, frame: u64) -> Option<(u64, u64)> {
        let fits = |call: &&Instance| call.frame == frame && !self.is_pad(call.ret_addr) && self.in_flight(call);
        self.all.iter().find(fits).map(|call| (call.task, call.ret_addr))
    }

    /// The true address for the task's return pad number `nth`, counted from the innermost call.
    pub fn resolve_pad(&self, task: u64, nth: usize) -> Option<u64> {
        self.of_task(task).filter(|(_, call)| !self.is_pad(call.ret_addr)).nth(nth).map(|(_, call)| call.ret_addr)
    }

    /// Frame keys and true return addresses of all calls in flight. Each task's calls are ordered newest first.
    pub fn followed(&self) -> Vec<(u64, u64)> {
        let recent = (self.recent.newest != NONE).then_some(self.recent.task);
        let of_task = |task| self.of_task(task).filter(|(_, call)| !self.is_pad(call.ret_addr));
        self.tasks
            .iter()
            .map(task_of(&self.all))
            .chain(recent)
            .flat_map(of_task)
            .map(|(_, call)| (call.frame, call.ret_addr))
            .collect()
    }

    fn same_stack(&self, one: u64, other: u64) -> bool {
        (one ^ other) & !(self.stack_size - 1) == 0
    }

    /// Whether a call was abandoned: its frame lies beyond the end of its stack, which is now at `frame`.
    pub fn is_left_behind(&self, call: &Instance, frame: u64) -> bool {
        let is_deeper = if self.stack_grows_up { call.frame > frame } else { call.frame < frame };
        is_deeper && self.same_stack(call.frame, frame)
    }

    /// Finds the call that returns. `key` is the address of the return address just popped or, on link-register ISAs,
    /// the stack pointer.
    #[inline]
    pub fn find(&self, task: u64, key: u64) -> Option<Match> {
        let newest = self.all.get(self.newest(task) as usize);
        if newest.is_some_and(|call| call.frame == key) {
            return Some(Match { task, frame: key, exact: true });
        }
        self.search(task, key)
    }

    /// Slow path of [`Instances::find`]: newer calls were abandoned, the callee popped its arguments, or no call fits.
    fn search(&self, task: u64, key: u64) -> Option<Match> {
        let of_call = |call: &Instance| Match { task: call.task, frame: call.frame, exact: true };
        if let Some((_, call)) = self.of_task(task).find(|(_, call)| call.frame == key) {
            return Some(of_call(call));
        }
        let popped = |call: &Instance| call.frame < key && key - call.frame <= CALLEE_POPS && self.same_stack(call.frame, key);
        if let Some((_, call)) = self.of_task(task).filter(|(_, call)| popped(call)).max_by_key(|(_, call)| call.frame) {
            return Some(of_call(call));
        }
        // The current task is unknown while a kernel changes the base of its per-CPU data. No two stacks share a word.
        if let Some(elsewhere) = self.all.iter().find(|call| call.frame == key && self.in_flight(call)) {
            return Some(of_call(elsewhere));
        }
        if let Some((_, newest)) = self.of_task(task).next() {
            return Some(Match { exact: false, ..of_call(newest) });
        }
        let on_stack = |call: &&Instance| self.in_flight(call) && self.same_stack(call.frame, key);
        let nearest = self.all.iter().filter(on_stack).min_by_key(|call| call.frame.abs_diff(key))?;
        Some(Match { task: nearest.task, frame: nearest.frame, exact: false })
    }

    /// An instance that was given back and not reused, if its call had its return address at `key`. It is the last
    /// source for a return that fits no call in flight.
    pub fn given_back(&self, task: u64, key: u64) -> Option<&Instance> {
        let fits = |call: &&Instance| call.frame == key && call.ret_addr != 0 && !self.is_pad(call.ret_addr);
        self.all.iter().filter(fits).max_by_key(|call| call.task == task)
    }

    /// Whether a call is in its task's list, and so has not returned.
    fn in_flight(&self, call: &Instance) -> bool {
        self.of_task(call.task).any(|(_, other)| (other.pool, other.place) == (call.pool, call.place))
    }

    /// Makes a free instance the newest call of a task.
    #[inline(always)]
    pub fn push(&mut self, number: u32, task: u64, frame: u64, ret_addr: u64) {
        let older = self.newest(task);
        if let Some(instance) = self.all.get_mut(number as usize) {
            (instance.task, instance.frame, instance.ret_addr, instance.next) = (task, frame, ret_addr, older);
            self.set_newest(task, number);
        }
    }

    /// Removes the newest of a task's calls that `which` accepts from the task's list.
    pub fn take(&mut self, task: u64, which: impl Fn(&Instances, &Instance) -> bool) -> Option<u32> {
        let (mut newer, mut number) = (NONE, self.newest(task));
        let older = loop {
            let call = self.all.get(number as usize)?;
            if which(self, call) {
                break call.next;
            }
            (newer, number) = (number, call.next);
        };
        match self.all.get_mut(newer as usize) {
            Some(newer) => newer.next = older,
            None => self.set_newest(task, older),
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::TOY;

    /// RP-8: a call whose frame is beyond the end of its stack was abandoned, whichever way the stack grows.
    #[test]
    fn calls_beyond_the_end_of_the_stack_are_left_behind() {
        let [down, up] = [false, true].map(|stack_grows_up| Instances { stack_grows_up, ..Instances::new(&TOY) });
        let end = 0x4800;
        #[rustfmt::skip]
        let cases = [
            // frame            left if it grows down, up
            (end - 16,          true,   false),
            (end,               false,  false),
            (end + 16,          false,  true),
            (end - 0x1000,      false,  false), // another stack
            (end + 0x1000,      false,  false),
        ];
        for (frame, is_left_down, is_left_up) in cases {
            let call = Instance { pool: 0, place: 0, task: 1, frame, ret_addr: 0, next: NONE, again: 0 };
            let left = [&down, &up].map(|instances| instances.is_left_behind(&call, end));
            assert_eq!(left, [is_left_down, is_left_up], "{frame:#x}");
        }
    }
}
