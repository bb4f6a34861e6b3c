//! USDT probes (user-level statically defined tracing): places that a program's author has marked, with a provider, a name
//! and arguments.
//!
//! The place is a nop, where an ordinary user probe is put. A note in the program's ELF file says in which registers or
//! memory the arguments are.

use crate::context::Hit;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::operand::Argument;

/// A place that a program's author has marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usdt {
    /// The provider, usually the program's name.
    pub provider: String,
    /// The name. Several places may have the same one.
    pub name: String,
    /// The distance in bytes from the file's start.
    pub offset: u64,
    /// The address that the file was linked for.
    pub linked: u64,
    /// Whether the program counts its tracers, and may pass by while the counter is 0. The counter is left alone,
    /// because it is in the program's memory.
    pub has_semaphore: bool,
    /// The arguments. `None`: the operand is in no form that can be read, such as a vector register.
    pub arguments: Vec<Option<Argument>>,
}

impl Usdt {
    /// The value of an argument at a hit of this place, counted from 0. `None` if there is no such argument, or if it
    /// cannot be read.
    pub fn argument(&self, number: usize, hit: &mut Hit<'_>) -> Option<u64> {
        let argument = (*self.arguments.get(number)?)?;
        let (linked, word) = (self.linked, hit.isa().word);
        let cpu = hit.machine();
        let word = cpu.narrow_word().unwrap_or(word);
        argument.value(cpu, linked, word)
    }
}
