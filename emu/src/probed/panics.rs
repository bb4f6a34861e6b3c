//! Notices that the guest's kernel panics: a CPU enters `panic()`. The machine reports the entry like that of any
//! watched function, so nothing is written into the guest and its console is not read.

use crate::boot::Kernel;

/// The functions that end a kernel. In newer kernels `panic` calls `vpanic`, and so do others.
const PANIC: [&str; 2] = ["panic", "vpanic"];

/// The entries of these functions, and whether one was reached.
pub struct Panics {
    entries: Vec<u64>,
    /// Whether the kernel has panicked.
    pub has_panicked: bool,
}

impl Panics {
    /// The entries in this kernel. A kernel without symbols has none.
    pub fn of(kernel: &Kernel) -> Panics {
        let functions = PANIC.into_iter().filter_map(|name| kernel.symbols.address_of(name));
        Panics { entries: functions.flat_map(|function| kernel.entries(function)).collect(), has_panicked: false }
    }

    /// Whether [`Panics::arrived`] must be called at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.entries.contains(&pc)
    }

    /// Handles the arrival of a CPU at a watched address.
    pub fn arrived(&mut self, pc: u64) {
        self.has_panicked |= self.watch(pc);
    }
}
