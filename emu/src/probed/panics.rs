//! Detects panics and oopses of the guest's kernel: a CPU enters `panic()` or `oops_enter()`. The machine watches these
//! addresses, so that neither a breakpoint nor a search in the console output is needed.

use crate::boot::Kernel;
use crate::clock::Ticks;

/// The functions that end a kernel. In newer kernels `panic` calls `vpanic`, and so do others.
const PANIC: [&str; 2] = ["panic", "vpanic"];

/// The function that a kernel enters at an oops.
const OOPS: [&str; 1] = ["oops_enter"];

/// The addresses to watch, and whether a CPU has reached one.
pub struct Panics {
    /// The entries of the functions of [`PANIC`].
    entries: Vec<u64>,
    /// The entries of the functions of [`OOPS`].
    oopses: Vec<u64>,
    /// The virtual time of the first panic or oops.
    pub first: Option<Ticks>,
    /// Whether the kernel has panicked.
    pub has_panicked: bool,
}

impl Panics {
    /// The entries in this kernel. A kernel without symbols has none.
    pub fn of(kernel: &Kernel) -> Panics {
        let entries = |names: &[&str]| {
            let functions = names.iter().filter_map(|name| kernel.symbols.address_of(name));
            functions.flat_map(|function| kernel.entries(function)).collect()
        };
        Panics { entries: entries(&PANIC), oopses: entries(&OOPS), first: None, has_panicked: false }
    }

    /// Whether [`Panics::arrived`] must be called at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.entries.contains(&pc) || self.oopses.contains(&pc)
    }

    /// Handles the arrival of a CPU at a watched address.
    pub fn arrived(&mut self, pc: u64, now: Ticks) {
        self.has_panicked |= self.entries.contains(&pc);
        if self.watch(pc) {
            self.first.get_or_insert(now);
        }
    }

    /// Forgets what has happened, after an earlier state was restored.
    pub fn start_over(&mut self) {
        (self.first, self.has_panicked) = (None, false);
    }
}
