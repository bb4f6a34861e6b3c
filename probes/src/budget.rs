//! Budgets of work for input that a stranger may have written.
//!
//! A parser or a search charges its budget for each step: a byte compared, a row read, a name decoded. When the budget
//! is spent the operation stops, and its caller says so in one sentence. Steps depend on the input alone, so a test can
//! compare the steps of two sizes on any computer.

use core::cell::Cell;

/// The steps that one operation may still take.
#[derive(Clone, Debug)]
pub struct Budget {
    most: u64,
    spent: Cell<u64>,
}

/// A budget is spent: the operation must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

impl Budget {
    /// Small inputs may take this many steps, whatever their size.
    pub const LEAST: u64 = 1 << 20;

    /// A budget of this number of steps.
    pub const fn of(steps: u64) -> Budget {
        Budget { most: steps, spent: Cell::new(0) }
    }

    /// A budget of [`Budget::LEAST`] steps, and this number of steps for each byte of the input.
    pub const fn linear(bytes: usize, steps_a_byte: u64) -> Budget {
        Budget::of((bytes as u64).saturating_mul(steps_a_byte).saturating_add(Budget::LEAST))
    }

    /// Charges steps. The operation stops where this fails.
    #[inline]
    pub fn charge(&self, steps: u64) -> Result<(), Spent> {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent <= self.most { Ok(()) } else { Err(Spent) }
    }

    /// Whether it is spent.
    pub fn is_spent(&self) -> bool {
        self.spent.get() > self.most
    }

    /// The steps that were charged.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// The steps that may be charged in all.
    pub fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_with_its_last_step() {
        let budget = Budget::of(3);
        assert_eq!((budget.charge(2), budget.charge(1), budget.is_spent()), (Ok(()), Ok(()), false));
        assert_eq!((budget.charge(1), budget.is_spent(), budget.spent()), (Err(Spent), true, 4));
        assert_eq!(budget.charge(u64::MAX), Err(Spent), "sums do not wrap");
        assert_eq!(Budget::linear(usize::MAX, u64::MAX).most(), u64::MAX);
    }
}
