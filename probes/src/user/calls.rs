//! The calls of user programs that return probes follow. Unlike in the kernel, no return address is replaced. A return is
//! recognised by the task, the stack pointer and the address at which the program arrives.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A followed call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The task that made it.
    pub task: u64,
    /// The stack pointer at the function's entry.
    pub sp: u64,
    /// The address where it returns to.
    pub return_to: u64,
    /// The function's address in the process.
    pub entry: u64,
    /// The number of the function's point.
    pub point: u32,
}

/// The calls in flight. Calls whose tasks have one hash are in one chain, the newest first.
pub struct Calls {
    /// All calls, in use or free, each with the index of the next one of its chain.
    all: Vec<(Call, u32)>,
    /// The first free one, whose chain has all free ones.
    free: u32,
    /// For each hash of a task, the first call of its chain.
    newest: Box<[u32]>,
    /// Calls that ended without a return.
    pub left_behind: u64,
}

const NONE: u32 = u32::MAX;
const CHAINS: usize = 1 << 10;
/// A call this many bytes below the stack pointer is taken for one on another stack, such as a signal handler's.
const STACK: u64 = 8 << 20;

impl Default for Calls {
    fn default() -> Calls {
        Calls { all: Vec::new(), free: NONE, newest: Box::default(), left_behind: 0 }
    }
}

impl Calls {
    /// Makes room for this many calls, once.
    pub fn reserve(&mut self, most: usize) {
        if self.all.is_empty() {
            let most = most as u32;
            self.all = (0..most).map(|number| (Call::default(), if number + 1 < most { number + 1 } else { NONE })).collect();
            self.free = 0;
            self.newest = vec![NONE; CHAINS].into_boxed_slice();
        }
    }

    fn chain(task: u64) -> usize {
        (task.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CHAINS.trailing_zeros())) as usize
    }

    /// Adds a call. Returns false if there are too many. A call of the same function with the same stack pointer has ended
    /// without a return, by a longjmp: otherwise the program could not be there again.
    pub fn push(&mut self, call: Call) -> bool {
        self.drop_if(call.task, |other| other.point == call.point && other.sp == call.sp);
        self.add(call)
    }

    fn add(&mut self, call: Call) -> bool {
        self.add_behind(NONE, call).is_some()
    }

    /// Adds a call behind another one of its chain, or in front of all. Returns its number.
    fn add_behind(&mut self, before: u32, call: Call) -> Option<u32> {
        let number = self.free;
        let free = self.all.get(number as usize)?.1;
        let link = match self.all.get_mut(before as usize) {
            Some(before) => &mut before.1,
            None => self.newest.get_mut(Calls::chain(call.task))?,
        };
        let next = core::mem::replace(link, number);
        self.all[number as usize] = (call, next);
        self.free = free;
        Some(number)
    }

    /// Takes the newest call of a task that returns to this address with this stack pointer. `popped` is the number of
    /// bytes that a return takes from the stack; on 32-bit x86, a function may also take the address of its result.
    /// Newer calls below the stack pointer have been left behind.
    pub fn take(&mut self, task: u64, return_to: u64, sp: u64, popped: u64) -> Option<Call> {
        const ON_I386: u64 = 4;
        let returns = |call: &Call| {
            let taken = sp.wrapping_sub(call.sp);
            call.return_to == return_to && (taken == popped || popped == ON_I386 && taken == 2 * ON_I386)
        };
        let chain = Calls::chain(task);
        let mut number = *self.newest.get(chain)?;
        let found = loop {
            let (call, next) = self.all.get(number as usize)?;
            if call.task == task && returns(call) {
                break *call;
            }
            number = *next;
        };
        // Everything newer in the chain.
        let mut is_newer = true;
        let mut is_first = true;
        self.unlink(chain, |at, call| {
            is_newer &= at != number;
            if at == number && is_first {
                is_first = false;
                return Some(false);
            }
            let is_below = call.sp < sp && sp - call.sp < STACK;
            (is_newer && call.task == task && is_below).then_some(true)
        });
        Some(found)
    }

    /// Copies the calls of a task for a new one, which has a copy of its stack.
    pub fn fork(&mut self, parent: u64, child: u64) {
        self.forget(child);
        let mut number = self.newest.get(Calls::chain(parent)).copied().unwrap_or(NONE);
        // The child may share the chain. Its calls stand in front of the parent's, so this loop does not meet them.
        let mut last = NONE;
        while let Some((call, next)) = self.all.get(number as usize).copied() {
            if call.task == parent {
                let Some(added) = self.add_behind(last, Call { task: child, ..call }) else { return };
                last = added;
            }
            number = next;
        }
    }

    /// Forgets all calls of a task.
    pub fn forget(&mut self, task: u64) {
        self.drop_if(task, |_| true);
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        for chain in 0..self.newest.len() {
            self.unlink(chain, |_, _| Some(false));
        }
    }

    /// The number of calls in flight.
    #[cfg(test)]
    fn len(&self) -> usize {
        let next = |number: &u32| self.all.get(*number as usize).map(|(_, next)| *next);
        let chain = |first: u32| core::iter::successors(Some(first), next).take_while(|number| *number != NONE).count();
        self.newest.iter().map(|first| chain(*first)).sum()
    }

    fn drop_if(&mut self, task: u64, wanted: impl Fn(&Call) -> bool) {
        self.unlink(Calls::chain(task), |_, call| (call.task == task && wanted(call)).then_some(true));
    }

    /// Removes calls of a chain, in its order. `wanted` gets the number and the call, and answers for a call that goes
    /// whether it was left behind.
    fn unlink(&mut self, chain: usize, mut wanted: impl FnMut(u32, &Call) -> Option<bool>) {
        let mut before = NONE;
        let mut number = self.newest.get(chain).copied().unwrap_or(NONE);
        while let Some((call, next)) = self.all.get(number as usize).copied() {
            match wanted(number, &call) {
                Some(was_left) => {
                    self.left_behind += u64::from(was_left);
                    match self.all.get_mut(before as usize) {
                        Some(place) => place.1 = next,
                        None => self.newest[chain] = next,
                    }
                    self.all[number as usize].1 = self.free;
                    self.free = number;
                }
                None => before = number,
            }
            number = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const F: u32 = 1;
    const G: u32 = 2;

    fn calls() -> Calls {
        let mut calls = Calls::default();
        calls.reserve(64);
        calls
    }

    fn call(task: u64, sp: u64, return_to: u64, point: u32) -> Call {
        Call { task, sp, return_to, entry: 0x1000 * u64::from(point), point }
    }

    fn returns(calls: &mut Calls, task: u64, return_to: u64, sp: u64) -> Vec<u32> {
        core::iter::from_fn(|| calls.take(task, return_to, sp, 8)).map(|call| call.point).collect()
    }

    /// BY-2: recursion, tail calls, other tasks.
    #[test]
    fn calls_return_by_task_address_and_stack_pointer() {
        let mut calls = calls();
        for depth in 0..4 {
            assert!(calls.push(call(7, 0x8000 - 0x20 * depth, 0x44, F)));
        }
        assert!(calls.push(call(7, 0x8000 - 0x60, 0x44, G)), "a tail call");
        assert!(calls.push(call(8, 0x8000, 0x44, F)), "another task");
        assert_eq!(returns(&mut calls, 7, 0x44, 0x8000 - 0x58), [G, F], "both return together, the newer one first");
        assert_eq!(returns(&mut calls, 7, 0x48, 0x8000 - 0x38), [0; 0], "another address");
        assert_eq!(returns(&mut calls, 9, 0x44, 0x8000 - 0x38), [0; 0], "a task without calls");
        for depth in (0..3).rev() {
            assert_eq!(returns(&mut calls, 7, 0x44, 0x8008 - 0x20 * depth), [F]);
        }
        assert_eq!((calls.len(), calls.left_behind), (1, 0));
        calls.forget(8);
        assert_eq!(calls.len(), 0);
    }

    /// BY-2: longjmp leaves calls behind, a signal handler's stack does not.
    #[test]
    fn calls_below_a_return_were_left_behind() {
        let mut calls = calls();
        calls.push(call(7, 0x8000, 0x44, F));
        calls.push(call(7, 0x7f00, 0x48, G));
        calls.push(call(7, 0x7e00, 0x4c, G));
        // A call on another stack, far away from the first one.
        calls.push(call(7, 0x4000_0000, 0x50, G));
        assert_eq!(returns(&mut calls, 7, 0x44, 0x8008), [F]);
        assert_eq!((calls.len(), calls.left_behind), (1, 2));
        // A loop that is left by longjmp each time takes one place.
        for _ in 0..200 {
            assert!(calls.push(call(7, 0x7000, 0x44, F)));
        }
        assert_eq!(calls.len(), 2);
        calls.clear();
        assert_eq!(calls.len(), 0);
    }

    /// BY-2: a child returns from the functions in which its parent forked.
    #[test]
    fn a_new_task_has_the_calls_of_its_parent() {
        for (parent, child) in (0..200).map(|task| (task, 1000 + 3 * task)) {
            let mut calls = calls();
            calls.push(call(parent, 0x8000, 0x44, F));
            calls.push(call(parent, 0x7000, 0x48, G));
            calls.push(call(child, 0x1000, 0x48, G));
            calls.fork(parent, child);
            assert_eq!(calls.len(), 4, "{parent} {child}");
            for task in [child, parent] {
                assert_eq!(returns(&mut calls, task, 0x48, 0x7008), [G]);
                assert_eq!(returns(&mut calls, task, 0x44, 0x8008), [F]);
            }
        }
    }

    /// BY-2: too many calls are refused, and returns make room again.
    #[test]
    fn there_is_an_end_to_the_calls() {
        let mut calls = calls();
        let pushed = (0..100).filter(|n| calls.push(call(n % 5, 0x8000 - 16 * n, 0x44, F))).count();
        assert_eq!(pushed, 64);
        assert_eq!(returns(&mut calls, 3, 0x44, 0x8000 - 16 * 3 + 8), [F]);
        assert!(!calls.push(call(1, 0, 0x44, F)) || calls.len() <= 64);
        assert!(!Calls::default().push(call(1, 0, 0, F)), "without return probes there is no room");
    }
}
