//! Probed instructions of user programs that faulted after their hit, such as on a page that is not mapped yet. The program
//! executes such an instruction again, which must not count as a second hit.

use alloc::vec::Vec;

/// A place in a program's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The pc.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
}

/// The largest number of instructions that wait at a time. Hardly more tasks than that wait for a page at once. Beyond it,
/// the oldest one is dropped, and its repetition counts as a hit.
const MOST: usize = 256;

/// Faulted instructions, by task.
#[derive(Default)]
pub struct Restarts {
    waiting: Vec<(u64, Spot)>,
}

impl Restarts {
    /// Whether any instruction waits.
    #[inline]
    pub fn some(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Notes a fault.
    pub fn put(&mut self, task: u64, spot: Spot) {
        if self.waiting.contains(&(task, spot)) {
            return;
        }
        if self.waiting.capacity() == 0 {
            self.waiting.reserve_exact(MOST);
        }
        if self.waiting.len() == MOST {
            self.waiting.remove(0);
        }
        self.waiting.push((task, spot));
    }

    /// Whether this is the repetition of a faulted instruction, which then waits no more.
    pub fn take(&mut self, task: u64, spot: Spot) -> bool {
        let found = self.waiting.iter().position(|waiting| *waiting == (task, spot));
        found.map(|at| self.waiting.swap_remove(at)).is_some()
    }

    /// Forgets a task.
    pub fn forget(&mut self, task: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-2: each fault swallows one hit of the same task at the same place, and of no other.
    #[test]
    fn a_fault_swallows_exactly_one_repetition() {
        let mut restarts = Restarts::default();
        let spot = |pc| Spot { pc, sp: 0x7000 };
        assert!(!restarts.take(1, spot(4)));
        restarts.put(1, spot(4));
        restarts.put(1, spot(4));
        assert!(!restarts.take(2, spot(4)), "another task");
        assert!(!restarts.take(1, spot(8)), "another instruction");
        assert!(!restarts.take(1, Spot { pc: 4, sp: 0x6000 }), "another call");
        assert_eq!([restarts.take(1, spot(4)), restarts.take(1, spot(4)), restarts.some()], [true, false, false]);
        (0..2 * MOST as u64).for_each(|task| restarts.put(task, spot(4)));
        assert_eq!(restarts.waiting.len(), MOST);
        assert!(restarts.take(2 * MOST as u64 - 1, spot(4)), "the newest one is kept");
        restarts.forget(MOST as u64 + 1);
        assert!(!restarts.take(MOST as u64 + 1, spot(4)));
    }
}
